"""Partitions whose last records are hidden from committed readers by an open transaction.

Committed readers stop at the *last stable offset*, where the first open transaction begins. A
transaction of a live producer ends soon; the broker aborts one of a dead producer after
``transaction.timeout.ms``. One that stays open longer is *hung*: the broker lost its end marker,
and an operator must end it (docs/operations.md, "HungTransaction").
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, NamedTuple

from simhash_core.documents import TopicPartition
from streams.kafka.clients import AdminClient
from streams.topics.admin import partitions_of
from streams.topics.watermarks import BrokerWatermarks, Watermarks

_MOMENT_SECONDS: Final = 5.0  # running workers end their transactions within this time

_OFFSETS_TOPIC: Final = "__consumer_offsets"


class OpenTransaction(NamedTuple):
    """A partition's first open transaction: its ``offset``, and the ``end`` of the partition."""

    partition: TopicPartition
    offset: int
    end: int

    def __str__(self) -> str:
        return (
            f"{self.partition}: a transaction is open since offset {self.offset}, so committed "
            f"readers do not see the {self.end - self.offset} offsets from there on"
        )


HUNG_ADVICE: Final = (
    "Apache Kafka 4.3.0, 4.3.1 and 4.4.0 can lose the end of a transaction when a broker is killed "
    "(KAFKA-20734). 'HungTransaction' in docs/operations.md says how to find out, and how to end "
    "it without a loss: an abort would hide its records from committed readers"
)
"""Why a transaction may never end, and what to do."""


def open_transactions(
    watermarks: Mapping[TopicPartition, Watermarks],
) -> dict[TopicPartition, OpenTransaction]:
    return {
        partition: OpenTransaction(partition, marks.readable_end, marks.end)
        for partition, marks in watermarks.items()
        if marks.readable_end < marks.end
    }


def partitions_to_check(
    admin: AdminClient, topics: Iterable[str], group_id: str
) -> list[TopicPartition]:
    """Return the existing topics' partitions, and the one of the group's offsets, if shown."""
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
    """Return transactions that stay open for some seconds; raise ``BrokerUnavailableError``."""
    before = open_transactions(broker.of(partitions)) if partitions else {}
    if not before:
        return []
    pause(_MOMENT_SECONDS)
    after = open_transactions(broker.of(list(before)))
    return [each for partition, each in after.items() if each.offset == before[partition].offset]
