"""From settings to what each Kafka client takes.

librdkafka's clients (producers, admin, readers) get all passed-on properties, Faust's consumer the
properties of security and ``fetch.wait.max.ms``.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from streams.errors import Problem, SettingsError
from streams.kafka_security import security_of
from streams.settings import Settings

if TYPE_CHECKING:
    from faust.types.auth import CredentialsT

LIBRDKAFKA: Final = "firstseen.librdkafka"
"""The logger of the library's own lines."""

logger = logging.getLogger(LIBRDKAFKA)
# A command that sets up no logging reports errors itself; Python would print them a second time.
logger.addHandler(logging.NullHandler())

_FETCH_WAIT_MS = 100
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


def faust_brokers(settings: Settings) -> list[str]:
    """Return the brokers as Faust's ``broker=`` takes them."""
    return [f"kafka://{broker}" for broker in settings.brokers.split(",")]


def faust_fetch_wait_ms(settings: Settings) -> int:
    """Return how long a broker may hold a fetch of Faust's consumer that finds nothing.

    That is ``fetch.wait.max.ms``, and shorter than usual unless given: raw records and probes are
    fetched together, and those that are there wait for those that are not.
    """
    return int(settings.kafka.get("fetch.wait.max.ms", _FETCH_WAIT_MS))


def faust_credentials(settings: Settings) -> CredentialsT | None:
    """Return Faust's ``broker_credentials=``; None for connections that are not secured.

    Raises ``SettingsError`` for certificates or keys that cannot be used.
    """
    import faust  # noqa: PLC0415 - takes longer to import than most commands to run

    try:
        security = security_of(settings.kafka)
    except ValueError as error:
        raise SettingsError([Problem("kafka", "", "settings", str(error))]) from error
    if security.mechanism:
        return faust.SASLCredentials(
            username=security.username,
            password=security.password,
            mechanism=security.mechanism,
            ssl_context=security.tls,
        )
    return faust.SSLCredentials(security.tls) if security.tls else None
