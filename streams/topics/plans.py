"""The topics that Firstseen needs, and their required settings.

=============  ==========  ==================================================================
topic          partitions  settings
=============  ==========  ==================================================================
raw            any         the user's
unique         any         room for a raw record and Firstseen's headers; any time of a record;
                           kept for ``output_retention_ms``
duplicates     any         the same, since a duplicate may carry its body
tagged         any         the same; with ``mode=tag``, in place of the two
dead letters   any         the same
log            1           kept until the leader deletes what no shard needs any more
reports        1           deleted by age, soon: a new leader asks again
changelog      as raw      compacted
=============  ==========  ==================================================================

An output has its raw record's time. Kafka 4 refuses times more than an hour ahead of its clock
unless the topic allows them, and one refused record would stop a shard for ever. Brokers also
delete by that time: with a retention of a week, a record of last year is deleted within minutes. So
outputs are kept for ever by default. Internal topics have the broker's time, so workers' clocks do
not matter.

Outputs, log and changelog have three copies of each partition where there are as many brokers, and
a write counts once two have it. A log that lost its end has lost the order of documents.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from streams.settings.settings import KIB, MIB, Settings

STANDSTILL_MS: Final = 7 * 24 * 60 * 60 * 1000
"""How long a worker may be away without having to read the whole changelog again."""

FOR_EVER_MS: Final = -1  # the ``retention.ms`` of a topic that deletes nothing by age

REPORTS_KEPT_MS: Final = 60 * 60 * 1000
REPORTS_KEPT_MIN_MS: Final = 10 * 60 * 1000
"""This is longer than a leader may be behind with reading reports."""

_SEGMENT_BYTES: Final = 128 * MIB
_SEGMENT_MS: Final = 10 * 60 * 1000
"""Kafka deletes whole segments, so topics with deletions have small ones."""

_FRAMING_BYTES: Final = 64 * KIB  # what Kafka adds to a message; its limit is for the whole batch

_BATCH_BYTES: Final = 1_000_000
"""librdkafka's ``batch.size``: the bytes of small messages in one batch."""

TIMES_AHEAD: Final = "message.timestamp.after.max.ms"
TIMES_PAST: Final = "message.timestamp.before.max.ms"
"""How far a record's time may be from the broker's clock; since Kafka 3.6."""

ANY_TIME_MS: Final = 2**63 - 1

REPLICAS: Final = 3
"""Copies of each partition, if there are as many brokers: one broker may be away for long while
another fails."""

MIN_IN_SYNC: Final = "min.insync.replicas"
"""How many copies must have a record before its write counts."""


class TopicPlan(NamedTuple):
    name: str
    partitions: int | None  # None: any number
    # Kafka's settings at creation; with another cleanup.policy or a lower max.message.bytes the
    # topic cannot be used.
    config: Mapping[str, str]
    fixed_partitions: bool = False
    sized_by: str = "batch.bundles"  # the setting that max.message.bytes follows
    read_bytes: int | None = None  # records that are larger are not read
    min_retention_ms: int = 0  # the lowest usable retention.ms; FOR_EVER_MS: no deletion
    output_retention_ms: int | None = None  # as in the settings; a lower retention.ms is noted
    times_of: str | None = None  # the topic whose records' times it must accept
    shards_of: str | None = None  # it needs one partition for each of this topic
    is_durable: bool = True  # a lost record cannot be replaced, so it needs copies

    def config_for(self, replicas: int) -> dict[str, str]:
        durable = self.is_durable and replicas >= REPLICAS
        return dict(self.config) | ({MIN_IN_SYNC: str(REPLICAS - 1)} if durable else {})

    def without(self, name: str) -> TopicPlan:
        return self._replace(config={k: v for k, v in self.config.items() if k != name})


def topic_plans(
    settings: Settings, partitions: int | None = None, raw_partitions: int | None = None
) -> list[TopicPlan]:
    """Return the plan of each topic.

    ``partitions`` is for topics that are created; ``raw_partitions``, for the raw topic and the
    changelog, is by default the same. None accepts any number.
    """
    topics = settings.topics
    shards = raw_partitions or partitions
    nothing: Mapping[str, str] = MappingProxyType({})
    return [
        TopicPlan(
            topics.raw, shards, nothing, read_bytes=settings.max_record_bytes, is_durable=False
        ),
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
    largest, sized_by = settings.largest_output_bytes, "max_record_bytes"
    if name == settings.topics.dead_letters and settings.largest_dead_letter_bytes > largest:
        largest, sized_by = settings.largest_dead_letter_bytes, "dead_letter_bytes"
    return TopicPlan(
        name,
        partitions,
        {
            "max.message.bytes": str(max(largest, batch_bytes) + _FRAMING_BYTES),
            "retention.ms": str(settings.output_retention_ms),
            TIMES_AHEAD: str(ANY_TIME_MS),
        },
        sized_by=sized_by,
        output_retention_ms=settings.output_retention_ms,
        times_of=settings.topics.raw,
    )


def _internal(
    settings: Settings, name: str, partitions: int | None, config: Mapping[str, str]
) -> TopicPlan:
    return TopicPlan(
        name,
        partitions,
        {
            "max.message.bytes": str(settings.largest_internal_bytes + _FRAMING_BYTES),
            "message.timestamp.type": "LogAppendTime",
            **config,
        },
    )
