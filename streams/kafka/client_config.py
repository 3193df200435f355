"""From settings to the configuration of each Kafka client.

All clients are librdkafka's, of workers and of commands. They get every property that the user
passed on, except those of the other kind of client: librdkafka would warn of each. What Firstseen's
guarantees rest on overrides it; ``kafka_properties.RESERVED`` refuses it earlier, with a reason.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from streams.settings.settings import Settings

LIBRDKAFKA: Final = "firstseen.librdkafka"
"""The logger of the library's own lines."""

logger = logging.getLogger(LIBRDKAFKA)
# A command that sets up no logging reports errors itself; Python would print them a second time.
logger.addHandler(logging.NullHandler())

_NO_PROPERTIES: Final = frozenset({"logger", "on_commit", "on_delivery"})
"""What a client takes beside properties; the names of callbacks end in ``_cb`` otherwise."""

_MS: Final = 1000
_KIB: Final = 1024
_MIB: Final = 1024 * _KIB
_PREFETCH_KIB: Final = 16 * _KIB
"""Raw records that librdkafka holds in advance; a fetch may exceed it."""
_PARTITION_FETCH_BYTES: Final = 2 * _MIB
"""Of raw records in one fetch: more than a batch, else each fetch ends with a small one."""
_REFRESH_MS: Final = 5000
"""How soon it is found that a topic was deleted, or has more partitions."""
_REJOIN_MS: Final = 60_000
"""How long a rebalance waits for a member that does not join again: 5 minutes by default, in which
nobody reads anything."""
_HEARTBEAT_MS: Final = 500
"""How soon a member learns that the group rebalances; at most a third of the session."""

# librdkafka's CONFIGURATION.md, column C/P.
_OF_CONSUMERS: Final = frozenset(
    {
        "auto.offset.reset",
        "check.crcs",
        "coordinator.query.interval.ms",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "enable.partition.eof",
        "fetch.error.backoff.ms",
        "fetch.max.bytes",
        "fetch.message.max.bytes",
        "fetch.min.bytes",
        "fetch.queue.backoff.ms",
        "fetch.wait.max.ms",
        "group.id",
        "group.instance.id",
        "group.protocol",
        "group.protocol.type",
        "group.remote.assignor",
        "heartbeat.interval.ms",
        "isolation.level",
        "max.partition.fetch.bytes",
        "max.poll.interval.ms",
        "partition.assignment.strategy",
        "queued.max.messages.kbytes",
        "queued.min.messages",
        "session.timeout.ms",
    }
)
_OF_PRODUCERS: Final = frozenset(
    {
        "acks",
        "batch.num.messages",
        "batch.size",
        "compression.codec",
        "compression.level",
        "compression.type",
        "delivery.timeout.ms",
        "enable.gapless.guarantee",
        "enable.idempotence",
        "linger.ms",
        "message.send.max.retries",
        "message.timeout.ms",
        "partitioner",
        "queue.buffering.backpressure.threshold",
        "queue.buffering.max.kbytes",
        "queue.buffering.max.messages",
        "queue.buffering.max.ms",
        "queuing.strategy",
        "request.required.acks",
        "request.timeout.ms",
        "retries",
        "sticky.partitioning.linger.ms",
        "transaction.timeout.ms",
        "transactional.id",
    }
)
# Second names of properties that are set here: one of the two must go.
_SAME: Final[Mapping[str, str]] = MappingProxyType(
    {
        "queue.buffering.max.ms": "linger.ms",
        "compression.codec": "compression.type",
    }
)


def admin_config(settings: Settings, **extra: Any) -> dict[str, Any]:  # noqa: ANN401 - as below
    """Return the configuration of an admin client.

    ``extra`` is what the client must have: its underscores stand for dots (``group_id="x"``),
    except in the names of callbacks, and it overrides what was passed on. The log of the library
    goes to ``firstseen.librdkafka`` whenever the client polls.
    """
    return _config(settings, _OF_CONSUMERS | _OF_PRODUCERS, extra)


def consumer_config(settings: Settings, **extra: Any) -> dict[str, Any]:  # noqa: ANN401 - numbers, texts, callbacks
    """Return the configuration of a consumer; ``extra`` as in ``admin_config``."""
    return _config(settings, _OF_PRODUCERS, extra)


def producer_config(settings: Settings, **extra: Any) -> dict[str, Any]:  # noqa: ANN401 - numbers, texts, callbacks
    """Return the configuration of a producer; ``extra`` as in ``admin_config``."""
    return _config(settings, _OF_CONSUMERS, extra)


def changelog_group(settings: Settings) -> str:
    """Return the group that readers of internal topics have, for the client insists on one.

    Nothing is committed to it; that it begins with the application id lets one ACL cover all.
    """
    return f"{settings.application_id}.changelog-reader"


def raw_consumer_config(settings: Settings, worker: str) -> dict[str, Any]:
    """Return the configuration of the consumer of raw records, a member of the group.

    ``worker``: its name there, by which other workers and operators know it.
    """
    session_ms = int(settings.session_timeout_seconds * _MS)
    static = (
        {}
        if settings.group_instance_id is None
        else {"group_instance_id": settings.group_instance_id}
    )
    return {
        "queued.max.messages.kbytes": _PREFETCH_KIB,
        # While a batch is gathered, a partition with so many records here is not fetched: else each
        # record that comes ends a fetch of all partitions. Fewer would delay a slow stream.
        "queued.min.messages": 4,
        "max.partition.fetch.bytes": _PARTITION_FETCH_BYTES,
        # A full queue is looked at again after this time: the default of a second is a gap.
        "fetch.queue.backoff.ms": 20,
        "topic.metadata.refresh.interval.ms": _REFRESH_MS,
        "max.poll.interval.ms": max(_REJOIN_MS, 2 * session_ms),
        **consumer_config(
            settings,
            client_id=worker,
            group_id=settings.application_id,
            partition_assignment_strategy="cooperative-sticky",
            session_timeout_ms=session_ms,
            heartbeat_interval_ms=min(_HEARTBEAT_MS, session_ms // 3),
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            enable_auto_offset_store=False,
            # So that a partition without records is known to be at its end, and not waited for.
            enable_partition_eof=True,
            # Also makes the broker hold back offsets of transactions that have not ended.
            isolation_level="read_committed",
            **static,
        ),
    }


def log_reader_config(settings: Settings) -> dict[str, Any]:
    """Return the configuration of a reader of one internal partition, outside any group."""
    return {
        # A broker answers as soon as there is a byte, so a long wait only spares requests.
        "fetch.wait.max.ms": 500,
        "topic.metadata.refresh.interval.ms": _REFRESH_MS,
        "fetch.queue.backoff.ms": 20,
        "queued.max.messages.kbytes": _PREFETCH_KIB,
        **consumer_config(
            settings,
            # The client insists on one; it is never joined, and nothing is committed to it. That it
            # begins with the application id lets one ACL cover all.
            group_id=f"{settings.application_id}.log-reader",
            fetch_min_bytes=1,
            auto_offset_reset="error",
            enable_auto_commit=False,
            enable_auto_offset_store=False,
            isolation_level="read_committed",
        ),
    }


def appender_config(settings: Settings) -> dict[str, Any]:
    """Return the configuration of the producer of packets, control records and reports."""
    return {
        "compression.type": "lz4",
        **producer_config(
            settings,
            acks="all",
            enable_idempotence=True,
            linger_ms=0,
            message_timeout_ms=int(settings.send_timeout_seconds * _MS),
        ),
    }


def output_config(settings: Settings) -> dict[str, Any]:
    """Return the configuration of the producer of outputs, in transactions or without."""
    return {
        "compression.type": "lz4",
        # Kafka's own choice by key, so that outputs lie where other clients would put them.
        "partitioner": "murmur2_random",
        # A commit sends at once what is left, so this delays nothing. What is sent before it is
        # waited for by a thread of the client that polls without a pause (see ``appender``).
        "linger.ms": 100,
        **producer_config(settings, acks="all"),
    }


def _config(
    settings: Settings, foreign: frozenset[str], extra: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what was passed on and what the client must have, less ``foreign`` properties."""
    config = {
        "client.id": settings.application_id,
        "message.max.bytes": settings.largest_message_bytes,
        "logger": logger,
        **settings.kafka,
        "bootstrap.servers": settings.brokers,
        **{_property(name): value for name, value in extra.items()},
    }
    return {_SAME.get(name, name): value for name, value in config.items() if name not in foreign}


def _property(name: str) -> str:
    is_callback = name in _NO_PROPERTIES or name.endswith("_cb")
    return name if is_callback else name.replace("_", ".")
