"""Waiting for a broker: bounded where there is a bound, and never in silence.

A client waits for a broker that is away. A broker that refuses ends the wait at once: it does not
accept the password, the authority or the certificate, and the error names the setting to change. A
broker that only closes the connection ends the wait after ten seconds.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from typing import Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from streams.errors import BrokerUnavailableError, Problem, SettingsError
from streams.kafka.client_config import admin_config
from streams.kafka.connection_refusals import ConnectionRefusal, refusal_of
from streams.settings.settings import Settings

_ASK_SECONDS: Final = 1.0
_SAY_SECONDS: Final = 10.0
_HANGS_UP_SECONDS: Final = 10.0
_LINES_A_POLL: Final = 100
_LOG_PREFIX: Final = re.compile(r"^FAIL \[[^]]*\]: (\[[^]]*\]: )?")
_LOG_SUFFIX: Final = re.compile(r" \(after \d+ms in state (\w+)\)$")


class _LastReason(logging.Handler):
    """The last problem that the client reported; it says more than the call that failed.

    Only the client's log says that a broker closed the connection.
    """

    def __init__(self, protocol: str) -> None:
        super().__init__(logging.INFO)
        self.text = "no answer"
        self.refused: ConnectionRefusal | None = None
        self.hangs_up_since: float | None = None
        self._protocol = protocol

    def __call__(self, error: KafkaError) -> None:
        # That all brokers are down only sums up what was said of each.
        if error.code() != KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001 - the library's own name for it
            self._note(error.str())

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if message.startswith("FAIL "):
            self._note(_LOG_PREFIX.sub("", message))

    def _note(self, said: str) -> None:
        refused = refusal_of(said, self._protocol)
        if self.refused is not None and self.refused.is_certain and refused is None:
            return  # of another connection, or in fewer words
        if refused is None or refused.is_certain:
            self.hangs_up_since = None
        elif self.hangs_up_since is None:
            self.hangs_up_since = time.monotonic()
        self.refused = refused
        self.text = _LOG_SUFFIX.sub("", said)

    def raise_refusal(self, brokers: str) -> None:
        """Raise where waiting does not help.

        ``SettingsError`` for what is certain, ``BrokerUnavailableError`` for what has looked like a
        refusal for ten seconds.
        """
        refused = self.refused
        if refused is None:
            return
        if refused.is_certain:
            raise SettingsError(
                [
                    Problem(
                        refused.setting,
                        "",
                        "settings",
                        f"the Kafka broker at {brokers} refuses the connection: {refused.fix} "
                        f"({self.text})",
                    )
                ]
            )
        since = self.hangs_up_since
        if since is not None and time.monotonic() - since >= _HANGS_UP_SECONDS:
            raise BrokerUnavailableError(
                f"no Kafka broker at {brokers} answered for {_HANGS_UP_SECONDS:g} s: {self.why()}"
            )

    def why(self) -> str:
        """Return the reason, with what to do about it where that is known."""
        return self.text if self.refused is None else f"{self.text}. {self.refused.fix}"


def connect_admin(
    settings: Settings,
    wait_seconds: float | None,
    announce: Callable[[str], None] | None = None,
) -> AdminClient:
    """Return an admin client of which a broker has answered.

    ``wait_seconds`` None waits for ever. ``announce`` is called every ten seconds.
    Raises ``BrokerUnavailableError`` when the wait is over, ``SettingsError`` when a broker refuses
    the connection for good.
    """
    reason = _LastReason(settings.kafka.get("security.protocol", "PLAINTEXT"))
    # Each attempt is logged, some twenty a second; the last reason says it all, so none goes on.
    log = logging.Logger("firstseen.connection", logging.INFO)  # noqa: LOG001 - of this client alone
    log.addHandler(reason)
    admin = AdminClient(admin_config(settings, error_cb=reason, logger=log))
    started = said = time.monotonic()
    while True:
        waited = time.monotonic() - started
        left = _ASK_SECONDS if wait_seconds is None else min(_ASK_SECONDS, wait_seconds - waited)
        try:
            if left > 0:
                admin.list_topics(timeout=left)
                return admin
        except KafkaException:
            for _ in range(_LINES_A_POLL):
                if not admin.poll(0):  # brings the reason
                    break
        now = time.monotonic()
        reason.raise_refusal(settings.brokers)
        if wait_seconds is not None and now - started >= wait_seconds:
            raise BrokerUnavailableError(
                f"no Kafka broker at {settings.brokers} answered within {wait_seconds:g} s: "
                f"{reason.why()}. Start it, or set brokers (FIRSTSEEN_BROKERS, --broker)"
            )
        if announce and now - said >= _SAY_SECONDS:
            announce(f"waiting for a Kafka broker at {settings.brokers}: {reason.why()}")
            said = now
