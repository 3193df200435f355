"""Packets: documents of one raw partition as columns, each packet a link of that partition's chain.

A packet says which raw offset its sender believes to be the last in the log (``previous``). It
counts only if that is so at its place in the log: compare-and-append. So a packet that was appended
twice, or by a worker that no longer owns the partition, or on a wrong guess, is skipped by all.

A packet covers all raw offsets after ``previous`` up to ``last``. Those that it has no row for hold
no document: they could not be read, are tombstones, or were never there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from simhash_core.document_columns import DocumentColumns
from simhash_core.documents import SourcePosition
from simhash_core.entries import Entry

NO_OFFSET: Final = -1
"""The offset before the first."""


class Chain(NamedTuple):
    """The raw partition whose packets follow each other.

    ``topic_id``: the id that the broker gave to the topic; a topic that was deleted and created
    again under the same name begins chains of its own. Empty where a broker knows none.
    """

    topic: str
    topic_id: str
    partition: int


class Sender(NamedTuple):
    """Who sent a packet: a worker's own name for this life of it, and a number that rises."""

    worker: str
    number: int


@dataclass(frozen=True, slots=True, eq=False)
class Packet:
    """Documents of one raw partition. ``previous`` and ``last``: raw offsets (see above)."""

    chain: Chain
    sender: Sender
    previous: int
    last: int
    columns: DocumentColumns

    def __len__(self) -> int:
        """Return the number of documents."""
        return len(self.columns)

    def source(self, row: int) -> SourcePosition:
        """Return the source position of a document."""
        return SourcePosition(
            self.chain.topic, self.chain.partition, int(self.columns.offsets[row])
        )


def entry_of(packet: Packet, row: int) -> Entry:
    """Return a document of a packet as an entry of the index."""
    columns = packet.columns
    return Entry(
        packet.source(row),
        columns.document_id(row),
        int(columns.times_ms[row]),
        b"" if columns.undecidable[row] else columns.fingerprints[row].tobytes(),
        columns.digest(row),
        columns.sketches[row],
        columns.scope(row),
    )


class Heads:
    """The last raw offset in the log of each chain, by the packets that count."""

    def __init__(self, heads: Iterable[tuple[Chain, int]] = ()) -> None:
        """Begin with the heads of a control record."""
        self._last = dict(heads)

    def counts(self, packet: Packet) -> bool:
        """Return whether a packet continues its chain."""
        return packet.previous == self.last(packet.chain) and packet.last > packet.previous

    def advance(self, packet: Packet) -> None:
        """Take in a packet that counts."""
        self._last[packet.chain] = packet.last

    def last(self, chain: Chain) -> int:
        """Return the last raw offset of a chain in the log, ``NO_OFFSET`` where there is none."""
        return self._last.get(chain, NO_OFFSET)

    def partitions(self) -> set[int]:
        """Return the raw partitions that have any document in the log: the shards."""
        return {chain.partition for chain in self._last}

    def items(self) -> list[tuple[Chain, int]]:
        """Return all heads, for a control record."""
        return sorted(self._last.items())
