"""Waits for a broker, within a limit if there is one, and reports why it waits.

If a broker refuses the password, the authority or the certificate, the wait ends at once with an
error that names the setting. If a broker only closes connections, the wait ends after ten seconds.
"""

from __future__ import annotations

import logging
import re
import time
import tomllib
from collections.abc import Callable
from importlib.resources import files
from typing import Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException

from streams.errors import BrokerUnavailableError, Problem, SettingsError
from streams.kafka.client_config import client_config
from streams.kafka.clients import AdminClient
from streams.settings.settings import Settings

# ---- Why a broker refuses a client: the library's message, and the setting to change.
#
# The reasons in ``refusals.toml`` are certain: a wrong password stays wrong. Another is likely: a
# broker that closes the connection at once may need TLS, or may be starting or stopping.

_WANTS_MORE: Final = (
    "the broker closed the connection. If it answers other clients, set another "
    "kafka.security.protocol than {protocol}: {others}"
)


class ConnectionRefusal(NamedTuple):
    """Which ``setting`` to change, and how; ``is_certain``: waiting does not help."""

    setting: str
    fix: str
    is_certain: bool


_REFUSALS: Final = tomllib.loads((files(__package__) / "refusals.toml").read_text("utf-8"))
_HANGS_UP: Final = re.compile(
    r"disconnected\b.*in state (apiversion_query|ssl_handshake|up)", re.IGNORECASE
)
_OTHERS: Final = {
    "PLAINTEXT": "SSL, SASL_SSL or SASL_PLAINTEXT",
    "SASL_PLAINTEXT": "SASL_SSL",
    "SSL": "SASL_SSL, or PLAINTEXT without encryption",
    "SASL_SSL": "SASL_PLAINTEXT without encryption, or SSL without a password",
}


def refusal_of(message: str, protocol: str) -> ConnectionRefusal | None:
    """Return what the library's message means; None if there is just no broker."""
    for each in _REFUSALS["refusal"]:
        if re.search(each["message"], message, re.IGNORECASE):
            return ConnectionRefusal(each["setting"], each["fix"], is_certain=True)
    if _HANGS_UP.search(message):
        fix = _WANTS_MORE.format(
            protocol=protocol, others=_OTHERS.get(protocol, "see its listeners")
        )
        return ConnectionRefusal("kafka.security.protocol", fix, is_certain=False)
    return None


_ASK_SECONDS: Final = 1.0
_LOG_SECONDS: Final = 10.0
_HANGS_UP_SECONDS: Final = 10.0
_LINES_A_POLL: Final = 100
_LOG_PREFIX: Final = re.compile(r"^FAIL \[[^]]*\]: (\[[^]]*\]: )?")
_LOG_SUFFIX: Final = re.compile(r" \(after \d+ms in state (\w+)\)$")


class _LastReason(logging.Handler):
    """Keeps the client's last problem; only its log says that a broker closed the connection."""

    def __init__(self, protocol: str) -> None:
        super().__init__(logging.INFO)
        self.text = "no answer"
        self.refused: ConnectionRefusal | None = None
        self.hangs_up_since: float | None = None
        self._protocol = protocol

    def __call__(self, error: KafkaError) -> None:
        # "All brokers are down" only sums up the errors of the brokers.
        if error.code() != KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001 - the library's own name for it
            self._note(error.str())

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if message.startswith("FAIL "):
            self._note(_LOG_PREFIX.sub("", message))

    def _note(self, message: str) -> None:
        refused = refusal_of(message, self._protocol)
        if self.refused is not None and self.refused.is_certain and refused is None:
            return  # it is from another connection, or has fewer details
        if refused is None or refused.is_certain:
            self.hangs_up_since = None
        elif self.hangs_up_since is None:
            self.hangs_up_since = time.monotonic()
        self.refused = refused
        self.text = _LOG_SUFFIX.sub("", message)

    def raise_refusal(self, brokers: str) -> None:
        """Raise ``SettingsError``, or ``BrokerUnavailableError`` for a likely refusal."""
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
        return self.text if self.refused is None else f"{self.text}. {self.refused.fix}"


def connect_admin(
    settings: Settings, wait_seconds: float | None, announce: Callable[[str], None] | None = None
) -> AdminClient:
    """Return an admin client once a broker has responded; ``announce`` is called every ten seconds.

    Raises ``BrokerUnavailableError`` after the wait, ``SettingsError`` for a certain refusal.
    """
    reason = _LastReason(settings.kafka.get("security.protocol", "PLAINTEXT"))
    # Some twenty attempts per second are logged. No line is passed on, because the last reason is
    # enough.
    log = logging.Logger("firstseen.connection", logging.INFO)  # noqa: LOG001 - of this client alone
    log.addHandler(reason)
    admin = AdminClient(client_config(settings, error_cb=reason, logger=log))
    started = logged_at = time.monotonic()
    while True:
        waited = time.monotonic() - started
        left = _ASK_SECONDS if wait_seconds is None else min(_ASK_SECONDS, wait_seconds - waited)
        try:
            if left > 0:
                admin.list_topics(timeout=left)
                return admin
        except KafkaException:
            for _ in range(_LINES_A_POLL):
                if not admin.poll(0):  # this also receives the reason
                    break
        now = time.monotonic()
        reason.raise_refusal(settings.brokers)
        if wait_seconds is not None and now - started >= wait_seconds:
            raise BrokerUnavailableError(
                f"no Kafka broker at {settings.brokers} answered within {wait_seconds:g} s: "
                f"{reason.why()}. Start it, or set brokers (FIRSTSEEN_BROKERS, --broker)"
            )
        if announce and now - logged_at >= _LOG_SECONDS:
            announce(f"waiting for a Kafka broker at {settings.brokers}: {reason.why()}")
            logged_at = now
