"""From settings to what a Kafka client of a command takes: all properties that are passed on."""

from __future__ import annotations

import logging
from typing import Any, Final

from streams.settings.settings import Settings

LIBRDKAFKA: Final = "firstseen.librdkafka"
"""The logger of the library's own lines."""

logger = logging.getLogger(LIBRDKAFKA)
# A command that sets up no logging reports errors itself; Python would print them a second time.
logger.addHandler(logging.NullHandler())

_NOT_PROPERTIES = frozenset({"logger", "on_commit", "on_delivery"})


def librdkafka_config(settings: Settings, **extra: Any) -> dict[str, Any]:  # noqa: ANN401 - numbers, texts, callbacks
    """Return the configuration of a confluent-kafka client.

    ``extra`` is what the client in question must have: its underscores stand for dots
    (``group_id="x"``), except in the names of callbacks, and it goes before what was passed on.
    The log of the library goes to ``firstseen.librdkafka`` whenever the client polls.
    """
    return {
        "client.id": settings.application_id,
        "message.max.bytes": settings.largest_message_bytes,
        "logger": logger,
        **settings.kafka,
        "bootstrap.servers": settings.brokers,
        **{_property(name): value for name, value in extra.items()},
    }


def changelog_group(settings: Settings) -> str:
    """Return the group that readers of internal topics have, for the client insists on one.

    Nothing is committed to it; that it begins with the application id lets one ACL cover all.
    """
    return f"{settings.application_id}.changelog-reader"


def _property(name: str) -> str:
    is_callback = name in _NOT_PROPERTIES or name.endswith("_cb")
    return name if is_callback else name.replace("_", ".")
