"""A shard on the worker that owns it: its stream, and its entries as far as the log decided them.

Entries are in the worker's index from the moment that they are decided, and in the shard's store
once they are committed with their outputs. Between the two they are here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

import numpy as np

from simhash_core.entries import Entry
from simhash_core.index.document_index import DocumentIndex
from simhash_core.log.packets import NO_OFFSET, Packet
from simhash_core.log.recent_uniques import entry_of
from simhash_core.log.records import Progress
from simhash_core.log.replica import Decided
from simhash_core.log.sequence import index_of, log_offset_of, sequence_number, sequence_numbers
from simhash_core.log.shard_stream import ShardStream

Record = TypeVar("Record")


class EntryStore(Protocol):
    """The committed entries of one shard."""

    def entries(self, sequences: Sequence[int]) -> list[Entry]:
        """Return entries by sequence number; raises ``KeyError`` for one that is not there."""
        ...

    def by_content(self, digest: bytes) -> int | None:
        """Return the sequence number of the undecidable document with this content digest."""
        ...


class Shard(Generic[Record]):
    """A shard that this worker owns: its stream, and its entries in the worker's index."""

    def __init__(self, progress: Progress, worker: str, slot: int, store: EntryStore) -> None:
        """``slot``: of its committed entries in the index.

        Until the session begins that reads the log from its position, the shard takes in nothing
        and is not reported on.
        """
        self.stream: ShardStream[Record] = ShardStream(progress, worker)
        self.slot = slot
        self.store = store
        self.in_session = False
        self._applied = NO_OFFSET
        self._uncommitted: dict[int, Packet] = {}
        self._contents: dict[bytes, int] = {}

    @property
    def partition(self) -> int:
        """The raw partition."""
        return self.stream.chain.partition

    def apply(self, decided: Decided, index: DocumentIndex) -> None:
        """Add the unique documents of a packet to the index, unless they are there."""
        packet, matches = decided.item, decided.decision.matches
        assert isinstance(packet, Packet)
        if matches is None or decided.offset <= self._applied:
            return
        self._applied = decided.offset
        columns = packet.columns
        unique = columns.offsets >= self.stream.next  # what is before was committed, and is there
        unique[[match.row for match in matches]] = False
        if not unique.any():
            return
        self._uncommitted[decided.offset] = packet
        rows = np.flatnonzero(unique & (columns.undecidable == 0))
        sequences = sequence_numbers(decided.offset, len(packet))[rows]
        index.add(self.slot, sequences, columns.fingerprints[rows])
        for row in np.flatnonzero(unique & (columns.undecidable != 0)).tolist():
            self._contents[columns.digest(row)] = sequence_number(decided.offset, row)

    def committed(self, progress: Progress) -> None:
        """Learn that everything before ``progress`` is in the store."""
        self.stream.advance(progress)
        for offset in list(self._uncommitted):
            packet = self._uncommitted[offset]
            if packet.last >= progress.next:
                break
            del self._uncommitted[offset]
            for row in np.flatnonzero(packet.columns.undecidable).tolist():
                digest = packet.columns.digest(row)
                if self._contents.get(digest) == sequence_number(offset, row):
                    del self._contents[digest]

    def entry(self, sequence: int) -> Entry:
        """Return an entry of this shard, committed or not."""
        packet = self._uncommitted.get(log_offset_of(sequence))
        if packet is not None:
            return entry_of(packet, index_of(sequence))
        return self.store.entries([sequence])[0]

    def by_content(self, digest: bytes) -> int | None:
        """Return the sequence number of the undecidable document of a content, None for none."""
        sequence = self._contents.get(digest)
        return self.store.by_content(digest) if sequence is None else sequence


class ShardEntries:
    """The entries of all shards of a worker, by their slots."""

    def __init__(self, shards: dict[int, Shard[Record]]) -> None:
        """``shards`` is the worker's own dict, which changes as shards come and go."""
        self._shards = shards

    def entries(self, slot: int, sequences: Sequence[int]) -> list[Entry]:
        """Return entries of the shard with this slot."""
        shard = next(each for each in self._shards.values() if each.slot == slot)
        return [shard.entry(sequence) for sequence in sequences]

    def by_content(self, digest: bytes) -> tuple[int, Entry] | None:
        """Return the earliest undecidable document of a content."""
        found = [
            (sequence, shard)
            for shard in self._shards.values()
            if (sequence := shard.by_content(digest)) is not None
        ]
        if not found:
            return None
        sequence, shard = min(found, key=lambda each: each[0])
        return sequence, shard.entry(sequence)
