"""Waiting for a broker: bounded where there is a bound, and never in silence."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from streams.errors import BrokerUnavailableError
from streams.kafka_config import librdkafka_config
from streams.settings import Settings

_ASK_SECONDS: Final = 1.0
_SAY_SECONDS: Final = 10.0


class _LastReason:
    """The last thing that the client said was wrong; it says more than the call that failed."""

    def __init__(self) -> None:
        self.text = "no answer"

    def __call__(self, error: KafkaError) -> None:
        # That all brokers are down only sums up what was said of each.
        if error.code() != KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001 - the library's own name for it
            self.text = error.str()


def connect_admin(
    settings: Settings,
    wait_seconds: float | None,
    announce: Callable[[str], None] | None = None,
) -> AdminClient:
    """Return an admin client of which a broker has answered.

    ``wait_seconds`` None waits for ever. Every ten seconds of waiting are said to ``announce``.
    Raises ``BrokerUnavailableError`` when the wait is over.
    """
    reason = _LastReason()
    # The library would log each attempt, some twenty a second; the last reason says it all.
    admin = AdminClient({**librdkafka_config(settings, error_cb=reason), "log_level": 0})
    started = said = time.monotonic()
    while True:
        waited = time.monotonic() - started
        left = _ASK_SECONDS if wait_seconds is None else min(_ASK_SECONDS, wait_seconds - waited)
        try:
            if left > 0:
                admin.list_topics(timeout=left)
                return admin
        except KafkaException:
            admin.poll(0)  # brings the reason
        now = time.monotonic()
        if wait_seconds is not None and now - started >= wait_seconds:
            raise BrokerUnavailableError(
                f"no Kafka broker at {settings.brokers} answered within {wait_seconds:g} s: "
                f"{reason.text}. Start it, or set brokers (FIRSTSEEN_BROKERS, --broker)"
            )
        if announce and now - said >= _SAY_SECONDS:
            announce(f"waiting for a Kafka broker at {settings.brokers}: {reason.text}")
            said = now
