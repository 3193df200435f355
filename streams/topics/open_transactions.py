"""Partitions that committed readers cannot read to their ends, since a transaction is open there.

Each partition has a *last stable offset*: where the first transaction begins that has no end yet.
Committed readers stop there. A transaction of a producer that is alive ends soon; one whose
producer died is aborted when its time is over (``transaction.timeout.ms``). One that stays open
for longer is *hung*: the broker lost the marker that ends it, and it stays until an operator ends
it (docs/operations.md, "HungTransaction").
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, NamedTuple

from confluent_kafka.admin import AdminClient

from simhash_core.documents import TopicPartition
from streams.topics.admin import partitions_of
from streams.topics.watermarks import BrokerWatermarks, Watermarks

_MOMENT_SECONDS: Final = 5.0
"""The transactions of running workers end within this time."""

_OFFSETS_TOPIC: Final = "__consumer_offsets"
"""Where brokers keep the committed offsets of groups, which transactions write to as well."""


class OpenTransaction(NamedTuple):
    """The first transaction of a partition that has no end.

    Attributes:
        partition: Its partition.
        offset: The offset of its first record: the last stable offset.
        end: The offset after the last record of the partition.
    """

    partition: TopicPartition
    offset: int
    end: int

    def __str__(self) -> str:
        """What it is and what it hides, in one line."""
        return (
            f"{self.partition}: a transaction is open since offset {self.offset}, so committed "
            f"readers do not see the {self.end - self.offset} offsets from there on"
        )


HUNG_ADVICE: Final = (
    "Apache Kafka 4.3.0, 4.3.1 and 4.4.0 can lose the end of a transaction when a broker is killed "
    "(KAFKA-20734). 'HungTransaction' in docs/operations.md says how to find out, and how to end "
    "it without a loss: an abort would hide its records from committed readers"
)
"""Why a transaction may never end, and what to do; a sentence or two for people."""


def open_transactions(
    watermarks: Mapping[TopicPartition, Watermarks],
) -> dict[TopicPartition, OpenTransaction]:
    """Return the open transactions that the watermarks of partitions show."""
    return {
        partition: OpenTransaction(partition, marks.readable_end, marks.end)
        for partition, marks in watermarks.items()
        if marks.readable_end < marks.end
    }


def partitions_to_check(
    admin: AdminClient, topics: Iterable[str], group_id: str
) -> list[TopicPartition]:
    """Return the partitions of those topics that exist, and the one with a group's offsets.

    The latter is left out where the broker does not show its topic.
    """
    counts = partitions_of(admin, [*topics, _OFFSETS_TOPIC])
    of_offsets = counts.pop(_OFFSETS_TOPIC, 0)
    partitions = [TopicPartition(name, each) for name in counts for each in range(counts[name])]
    if of_offsets:
        partitions.append(TopicPartition(_OFFSETS_TOPIC, _java_hash(group_id) % of_offsets))
    return partitions


def _java_hash(text: str) -> int:
    """Return Java's ``text.hashCode() & 0x7FFFFFFF``, by which Kafka places groups."""
    units = text.encode("utf-16-be")
    number = 0
    for at in range(0, len(units), 2):
        number = number * 31 + int.from_bytes(units[at : at + 2], "big")
    return number & 0x7FFF_FFFF


def lasting_transactions(
    broker: BrokerWatermarks,
    partitions: Collection[TopicPartition],
    pause: Callable[[float], object] = time.sleep,
) -> list[OpenTransaction]:
    """Return the transactions that stay open for some seconds; at once if none is open.

    ``pause`` is called with the seconds between the two requests. Raises
    ``BrokerUnavailableError``.
    """
    before = open_transactions(broker.of(partitions)) if partitions else {}
    if not before:
        return []
    pause(_MOMENT_SECONDS)
    after = open_transactions(broker.of(list(before)))
    return [each for partition, each in after.items() if each.offset == before[partition].offset]
