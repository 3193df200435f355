"""The topics that Firstseen needs, and what each must be.

=============  ==========  ==================================================================
topic          partitions  settings
=============  ==========  ==================================================================
raw            any         as you wish: it is yours
unique         any         room for a raw record and Firstseen's headers; any time of a record
duplicates     any         the same, since a duplicate may carry its body
dead letters   any         the same
probes         P, fixed    deleted by age, and kept for long enough to survive a stand-still
changelog      P, fixed    compacted; its tombstones kept for as long
=============  ==========  ==================================================================

An output bears the time of its raw record, and Kafka 4 refuses times more than an hour ahead of its
clock unless a topic is told otherwise. One refused record would stop a shard for good.

P is the number of shards. The bucket of a document is found by it, so it is fixed for the life of
an index.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from streams.flow_settings import KIB
from streams.settings import Settings

STANDSTILL_MS: Final = 7 * 24 * 60 * 60 * 1000
"""How long all workers may stand still, or one be away from its state, without loss."""

_FRAMING_BYTES: Final = 64 * KIB
"""What Kafka adds to a message; its limit is of the batch around it."""

TIMES_AHEAD: Final = "message.timestamp.after.max.ms"
TIMES_PAST: Final = "message.timestamp.before.max.ms"
"""How far from the broker's clock a record's time may be. Known to Kafka since 3.6."""

_ANY_TIME_MS: Final = 2**63 - 1


class TopicPlan(NamedTuple):
    """What a topic must be. ``partitions`` None: any number.

    ``config`` are Kafka's names and values for the making of it; ``least_bytes`` and
    ``least_retention_ms`` are the limits below which it cannot be used. ``times_of`` is the topic
    whose records it must take at whatever time they bear.
    """

    name: str
    partitions: int | None
    config: Mapping[str, str]
    fixed_partitions: bool = False
    cleanup_policy: str | None = None
    least_bytes: int = 0
    least_retention_ms: int = 0
    times_of: str | None = None

    def without(self, name: str) -> TopicPlan:
        """Return the same plan less one setting for the making of it."""
        return self._replace(config={k: v for k, v in self.config.items() if k != name})


def topic_plans(
    settings: Settings, partitions: int | None = None, raw_partitions: int | None = None
) -> list[TopicPlan]:
    """Return what each topic must be.

    ``partitions``: of the internal topics, and of outputs that are made; ``raw_partitions``: of the
    raw topic, the same unless given. None: whatever there is will do.
    """
    topics = settings.topics
    largest = settings.largest_message_bytes + _FRAMING_BYTES
    size = {"max.message.bytes": str(largest)}
    output = {**size, TIMES_AHEAD: str(_ANY_TIME_MS)}
    nothing: Mapping[str, str] = MappingProxyType({})
    standstill = str(STANDSTILL_MS)
    return [
        TopicPlan(topics.raw, raw_partitions or partitions, nothing),
        TopicPlan(topics.unique, partitions, output, least_bytes=largest, times_of=topics.raw),
        TopicPlan(topics.duplicates, partitions, output, least_bytes=largest, times_of=topics.raw),
        TopicPlan(
            topics.dead_letters,
            partitions and 1,
            output,
            least_bytes=largest,
            times_of=topics.raw,
        ),
        TopicPlan(
            topics.probes,
            partitions,
            {**size, "cleanup.policy": "delete", "retention.ms": standstill},
            fixed_partitions=True,
            cleanup_policy="delete",
            least_bytes=largest,
            least_retention_ms=STANDSTILL_MS,
        ),
        TopicPlan(
            topics.changelog,
            partitions,
            {**size, "cleanup.policy": "compact", "delete.retention.ms": standstill},
            fixed_partitions=True,
            cleanup_policy="compact",
            least_bytes=largest,
        ),
    ]
