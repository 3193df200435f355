"""The headers of a message, in this project's types; this module does not load the Kafka client."""

from __future__ import annotations

from operator import methodcaller
from typing import TYPE_CHECKING, Any, Final

from simhash_core.documents import Headers

if TYPE_CHECKING:
    from confluent_kafka import Message

# Python does not look for an error after a method of C that it has called often. A methodcaller
# always does.
_headers: Final = methodcaller("headers")
_UNREADABLE: Final[list[Any]] = []  # compared by identity


def headers_of(message: Message) -> Headers | None:
    """Return the headers of a message; None if the client cannot read them.

    Brokers do not check the names of headers, and the client decodes them as UTF-8. For another
    name it sets an error, but returns and keeps a list with holes, which end the process if they
    are read.
    """
    try:
        headers = _headers(message)
    except SystemError:
        message.set_headers(_UNREADABLE)
        return None
    return None if headers is _UNREADABLE else tuple(headers or ())
