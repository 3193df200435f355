"""The topics that Firstseen needs, and what each must be.

=============  ==========  ==================================================================
topic          partitions  settings
=============  ==========  ==================================================================
raw            any         as you wish: it is yours
unique         any         room for a raw record and Firstseen's headers; any time of a record;
                           kept for ``output_retention_ms``
duplicates     any         the same, since a duplicate may carry its body
tagged         any         the same; with ``mode=tag``, in place of the two
dead letters   any         the same
log            1           kept until the leader deletes what no shard needs any more
reports        1           deleted by age, soon: a new leader asks again
changelog      as raw      compacted
=============  ==========  ==================================================================

An output has the time of its raw record, and Kafka 4 refuses times more than an hour ahead of its
clock unless the topic allows them. One refused record would stop a shard for good. Records on
internal topics bear the broker's time: clocks of workers do not matter.

Brokers delete by that time, too: a record of last year is deleted within minutes where records are
kept for a week. So the outputs keep records for ever, unless the settings say otherwise.

Outputs, log and changelog have three copies of each partition where there are as many brokers, and
a write counts once two have it. A log that lost its end has lost the order of documents.

Changelog partition p belongs to raw partition p. When the raw topic gets more partitions, workers
add them to the changelog (``streams.topics.shard_topics``).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from streams.settings.flow import KIB, MIB
from streams.settings.settings import Settings

STANDSTILL_MS: Final = 7 * 24 * 60 * 60 * 1000
"""How long a worker may be away from its state without reading the changelog from its start."""

FOR_EVER_MS: Final = -1
"""The ``retention.ms`` of a topic whose records age does not delete."""

REPORTS_KEPT_MS: Final = 60 * 60 * 1000
REPORTS_KEPT_MIN_MS: Final = 10 * 60 * 1000
"""Longer than a leader may be behind with reading reports."""

_SEGMENT_BYTES: Final = 128 * MIB
_SEGMENT_MS: Final = 10 * 60 * 1000
"""Kafka deletes whole segments, so those of topics that are deleted from are small."""

_FRAMING_BYTES: Final = 64 * KIB
"""What Kafka adds to a message; its limit is of the batch around it."""

_BATCH_BYTES: Final = 1_000_000
"""librdkafka's ``batch.size``: how many bytes of small messages it sends as one."""

TIMES_AHEAD: Final = "message.timestamp.after.max.ms"
TIMES_PAST: Final = "message.timestamp.before.max.ms"
"""How far from the broker's clock a record's time may be. Known to Kafka since 3.6."""

_ANY_TIME_MS: Final = 2**63 - 1

REPLICAS: Final = 3
"""Copies of each partition, where there are as many brokers: one may be away for long, and another
fail meanwhile."""

MIN_IN_SYNC: Final = "min.insync.replicas"
"""How many copies must have a record before a write of it counts."""


class TopicPlan(NamedTuple):
    """What a topic must be. ``partitions`` None: any number.

    Attributes:
        config: Kafka's names and values for its creation.
        fixed_partitions: It must have this number.
        min_message_bytes: It cannot be used with a lower ``max.message.bytes``.
        min_retention_ms: It cannot be used with a lower ``retention.ms``. ``FOR_EVER_MS``: nothing
            in it may be deleted by age or size.
        output_retention_ms: How long the settings say that it keeps records; a lower
            ``retention.ms`` is warned about.
        times_of: The topic whose records it must take at whatever time they bear.
        shards_of: The topic whose partitions it must have one each for.
        is_durable: Nothing can replace a lost record of it, so it needs copies.
    """

    name: str
    partitions: int | None
    config: Mapping[str, str]
    fixed_partitions: bool = False
    cleanup_policy: str | None = None
    min_message_bytes: int = 0
    min_retention_ms: int = 0
    output_retention_ms: int | None = None
    times_of: str | None = None
    shards_of: str | None = None
    is_durable: bool = True

    def config_for(self, replicas: int) -> dict[str, str]:
        """Return the settings for its creation with so many copies."""
        durable = self.is_durable and replicas >= REPLICAS
        return dict(self.config) | ({MIN_IN_SYNC: str(REPLICAS - 1)} if durable else {})

    def without(self, name: str) -> TopicPlan:
        """Return the same plan less one setting for the making of it."""
        return self._replace(config={k: v for k, v in self.config.items() if k != name})


def topic_plans(
    settings: Settings, partitions: int | None = None, raw_partitions: int | None = None
) -> list[TopicPlan]:
    """Return what each topic must be.

    ``partitions``: of topics that are made; ``raw_partitions``: of the raw topic and the changelog,
    the same unless given. None: whatever there is will do.
    """
    topics = settings.topics
    shards = raw_partitions or partitions
    nothing: Mapping[str, str] = MappingProxyType({})
    return [
        TopicPlan(topics.raw, shards, nothing, is_durable=False),
        *(
            _output(
                settings, name, partitions and (1 if name == topics.dead_letters else partitions)
            )
            for name in settings.output_topics
        ),
        _internal(
            settings,
            topics.log,
            1,
            {
                "cleanup.policy": "delete",
                "retention.ms": str(FOR_EVER_MS),
                "retention.bytes": str(FOR_EVER_MS),
                "segment.bytes": str(_SEGMENT_BYTES),
            },
        )._replace(fixed_partitions=True, min_retention_ms=FOR_EVER_MS),
        _internal(
            settings,
            topics.reports,
            1,
            {
                "cleanup.policy": "delete",
                "retention.ms": str(REPORTS_KEPT_MS),
                "segment.bytes": str(_SEGMENT_BYTES),
                "segment.ms": str(_SEGMENT_MS),
            },
        )._replace(fixed_partitions=True, min_retention_ms=REPORTS_KEPT_MIN_MS, is_durable=False),
        _internal(
            settings,
            topics.changelog,
            shards,
            {"cleanup.policy": "compact", "delete.retention.ms": str(STANDSTILL_MS)},
        )._replace(shards_of=topics.raw),
    ]


def _output(settings: Settings, name: str, partitions: int | None) -> TopicPlan:
    batch_bytes = int(settings.kafka.get("batch.size", _BATCH_BYTES))
    min_message_bytes = max(settings.largest_output_bytes, batch_bytes) + _FRAMING_BYTES
    return TopicPlan(
        name,
        partitions,
        {
            "max.message.bytes": str(min_message_bytes),
            "retention.ms": str(settings.output_retention_ms),
            TIMES_AHEAD: str(_ANY_TIME_MS),
        },
        min_message_bytes=min_message_bytes,
        output_retention_ms=settings.output_retention_ms,
        times_of=settings.topics.raw,
    )


def _internal(
    settings: Settings, name: str, partitions: int | None, config: Mapping[str, str]
) -> TopicPlan:
    min_message_bytes = settings.largest_internal_bytes + _FRAMING_BYTES
    return TopicPlan(
        name,
        partitions,
        {
            "max.message.bytes": str(min_message_bytes),
            "message.timestamp.type": "LogAppendTime",
            **config,
        },
        cleanup_policy=config["cleanup.policy"],
        min_message_bytes=min_message_bytes,
    )
