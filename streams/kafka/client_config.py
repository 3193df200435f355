"""Configurations of all Kafka clients, from the settings.

Every client of workers and commands gets all of the user's properties: librdkafka ignores those for
another kind of client. Properties that Firstseen's guarantees need override the user's;
``kafka_properties.RESERVED`` refuses those earlier, with a reason.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from confluent_kafka import ThrottleEvent

from streams.settings.settings import GroupProtocol, Settings

LIBRDKAFKA: Final = "firstseen.librdkafka"  # the logger of the library's log lines

logger = logging.getLogger(LIBRDKAFKA)
# A command without logging reports errors itself; Python would print them again.
logger.addHandler(logging.NullHandler())
# Properties for producers are ignored by consumers, and the reverse, as they should be.
logger.addFilter(lambda record: "and will be ignored by this" not in record.getMessage())

_NO_PROPERTIES: Final = frozenset({"logger", "on_commit", "on_delivery"})
"""Constructor arguments that are not properties; the names of other callbacks end in ``_cb``."""

_MS: Final = 1000
_KIB: Final = 1024
_MIB: Final = 1024 * _KIB
_PREFETCH_KIB: Final = 16 * _KIB
"""librdkafka fetches so many raw records in advance; the last fetch may exceed the limit."""
_FETCH_BYTES: Final = _MIB
"""The limit of one fetch for all partitions of a broker. An answer must come within
``socket.timeout.ms``, and a late one is requested again: with the library's 16 MiB, a worker whose
link carries less than 4 MB/s would read nothing. With 256 KiB, a backlog of 64 partitions took a
fifth longer, because a fetch then had records of one partition."""
_REFRESH_MS: Final = 5000  # how soon a deleted topic or a new partition is noticed
_REJOIN_MS: Final = 20_000
"""How long a rebalance waits for a member that does not rejoin; nothing is read meanwhile. The
default is 5 minutes. It is longer than a revocation takes (``RawConsumer``)."""
_RECONNECT_MAX_MS: Final = 500
"""The longest pause between two connection attempts. The default, 10 s, is longer than a session.
It is at most a sixth of the session, so that a member reconnects in time."""
_BACKOFF: Final = "reconnect.backoff.ms"
_SETUP_MIN_MS: Final = 1000  # the library's minimum for setting up a connection
_REQUEST_MIN_MS: Final = 2000
"""The shortest time-out of a request: a second more than a broker holds a consumer's fetch."""
_HEARTBEAT_MS: Final = 250
"""How soon a member learns of a rebalance; less than a third of the shortest session."""

_THROTTLE_LOG_SECONDS: Final = 60.0


class _ThrottleLog:
    """Logs that a broker delays this process for a quota, at most once a minute."""

    def __init__(self) -> None:
        self._next = 0.0

    def note(self, event: ThrottleEvent) -> None:
        if event.throttle_time and time.monotonic() >= self._next:
            self._next = time.monotonic() + _THROTTLE_LOG_SECONDS
            logger.warning(
                "%s delays this client's requests by %.1f s for a quota (of bytes or of request "
                "time): all clients of this user or client.id share it. See kafka-configs.sh "
                "--describe for clients and users; raise it, or expect a slow or idle worker",
                event.broker_name,
                event.throttle_time,
            )


_THROTTLES: Final = _ThrottleLog()

# Aliases of properties that are set here: only one of the two names may remain.
_SAME: Final[Mapping[str, str]] = MappingProxyType(
    {"queue.buffering.max.ms": "linger.ms", "compression.codec": "compression.type"}
)


def client_config(settings: Settings, **extra: Any) -> dict[str, Any]:  # noqa: ANN401 - numbers, texts, callbacks
    """Return the configuration of a client of any kind.

    ``extra`` overrides the user's properties; its underscores stand for dots (``group_id="x"``),
    except in names of callbacks. When the client polls, the library logs to
    ``firstseen.librdkafka``.
    """
    config = {
        "client.id": settings.application_id,
        "message.max.bytes": settings.largest_message_bytes,
        "logger": logger,
        "throttle_cb": _THROTTLES.note,
        "reconnect.backoff.max.ms": _reconnect_max_ms(settings),
        **settings.kafka,
        "bootstrap.servers": settings.brokers,
        **{_property(name): value for name, value in extra.items()},
    }
    return {_SAME.get(name, name): value for name, value in config.items()}


def changelog_group(settings: Settings) -> str:
    """Return a group id that begins with the application id, so that one ACL covers it."""
    return f"{settings.application_id}.changelog-reader"


def raw_consumer_config(settings: Settings, worker: str) -> dict[str, Any]:
    """Return the configuration of a group member, named ``worker``, that reads raw records."""
    session_ms = int(settings.session_timeout_seconds * _MS)
    instance = settings.group_instance_id
    static = {} if instance is None else {"group_instance_id": instance}
    if settings.group_protocol is GroupProtocol.CONSUMER:
        membership: dict[str, Any] = {"group_protocol": "consumer"}  # the rest is the brokers'
    else:
        membership = {
            "partition_assignment_strategy": "cooperative-sticky",
            "session_timeout_ms": session_ms,
            "heartbeat_interval_ms": _HEARTBEAT_MS,
        }
    config = {
        "queued.max.messages.kbytes": _PREFETCH_KIB,
        # A partition with this many records is not fetched while a batch is gathered; otherwise
        # each new record would end a fetch of all partitions. A lower number would delay a slow
        # stream.
        "queued.min.messages": 4,
        # Not less for one partition: it would end each fetch with a small batch.
        "max.partition.fetch.bytes": _FETCH_BYTES,
        "fetch.max.bytes": _FETCH_BYTES,
        # How soon a full queue is checked again: the default of one second would leave a gap.
        "fetch.queue.backoff.ms": 20,
        "topic.metadata.refresh.interval.ms": _REFRESH_MS,
        "max.poll.interval.ms": max(_REJOIN_MS, 2 * session_ms),
        **_answers_within_session(session_ms),
        **client_config(
            settings,
            client_id=worker,
            group_id=settings.application_id,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            enable_auto_offset_store=False,
            # The client then reports when it has read a partition to its end.
            enable_partition_eof=True,
            # The broker then also holds back offsets that an open transaction commits.
            isolation_level="read_committed",
            **membership,
            **static,
        ),
    }
    # The library refuses a larger value, although a consumer reads larger messages all the same.
    return {**config, "message.max.bytes": config["fetch.max.bytes"]}


def _answers_within_session(session_ms: int) -> dict[str, int]:
    """Return time-outs that let a member try the next broker before its session ends.

    By default, setting up a connection may take 30 s, and a request a minute.
    """
    return {
        "socket.connection.setup.timeout.ms": max(_SETUP_MIN_MS, session_ms // 2),
        "socket.timeout.ms": max(_REQUEST_MIN_MS, session_ms * 2 // 3),
    }


def log_reader_config(settings: Settings) -> dict[str, Any]:
    return {
        # A broker responds as soon as there is a byte, so a long wait only saves requests.
        "fetch.wait.max.ms": 500,
        "topic.metadata.refresh.interval.ms": _REFRESH_MS,
        "fetch.queue.backoff.ms": 20,
        "queued.max.messages.kbytes": _PREFETCH_KIB,
        **client_config(
            settings,
            # The client needs a group id, but never joins or commits. The id begins with the
            # application id, so that one ACL covers it.
            group_id=f"{settings.application_id}.log-reader",
            fetch_min_bytes=1,
            auto_offset_reset="error",
            enable_auto_commit=False,
            enable_auto_offset_store=False,
            # The client then reports when it has read a partition to its end.
            enable_partition_eof=True,
            isolation_level="read_committed",
        ),
    }


def appender_config(settings: Settings) -> dict[str, Any]:
    return {
        "compression.type": "lz4",
        # A broker that was cut off resets no connection. After this time its successors are known,
        # and unanswered records are sent to them. A record that arrives twice does no harm.
        "topic.metadata.refresh.interval.ms": _REFRESH_MS,
        **_answers_within_session(int(settings.session_timeout_seconds * _MS)),
        **client_config(
            settings,
            acks="all",
            enable_idempotence=True,
            linger_ms=0,
            message_timeout_ms=int(settings.send_timeout_seconds * _MS),
        ),
    }


def output_config(settings: Settings) -> dict[str, Any]:
    return {
        "compression.type": "lz4",
        # Kafka's own partitioner by key: outputs go to the same partitions as those of other
        # clients.
        "partitioner": "murmur2_random",
        # A commit flushes, so this delays nothing. Sending earlier would make a client thread poll
        # without a pause (see ``Appender``).
        "linger.ms": 100,
        **client_config(settings, acks="all"),
    }


def _reconnect_max_ms(settings: Settings) -> int:
    longest = min(_RECONNECT_MAX_MS, int(settings.session_timeout_seconds * _MS) // 6)
    # The library rejects a first pause that is longer than the longest pause.
    first = settings.kafka.get(_BACKOFF, "")
    return max(longest, int(first)) if first.isdecimal() else longest


def _property(name: str) -> str:
    is_callback = name in _NO_PROPERTIES or name.endswith("_cb")
    return name if is_callback else name.replace("_", ".")
