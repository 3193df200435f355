"""The shards in the index of one worker: those that it owns, and standbys of others' shards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Generic

import numpy as np
from numpy.typing import NDArray

from simhash_core.entries import Entry
from simhash_core.index.document_index import DocumentIndex
from simhash_core.index.prints import Prints
from simhash_core.log.outputs import Record
from simhash_core.log.packets import Packet
from simhash_core.log.records import Progress
from simhash_core.log.replica import Decided
from simhash_core.log.shard import Shard
from simhash_core.log.shard_copy import EntryStore, ShardCopy
from simhash_core.log.shard_stream import ShardStream
from simhash_core.log.standby import Standby


class HeldShards(Generic[Record]):
    """Shards by partition. Of one partition a worker has the shard or a standby, never both."""

    def __init__(self, worker: str, index: DocumentIndex, *, expires: bool) -> None:
        """``expires``: entries do."""
        self.owned: dict[int, Shard[Record]] = {}
        self.standbys: dict[int, Standby] = {}
        self._worker = worker
        self._index = index
        self._expires = expires
        self._by_slot: dict[int, ShardCopy] = {}

    @property
    def bands(self) -> int:
        """The bands of sketches that the index has buckets of."""
        return self._index.scheme.bands

    # ---- they come and go

    def fill_slot(self, committed: Iterable[tuple[NDArray[np.uint64], Prints]]) -> int:
        """Return a new slot of the index with committed entries, which no look-up sees yet."""
        slot = self._index.open_slot(visible=False)
        for sequences, prints in committed:
            self._index.add(slot, sequences, prints)
        return slot

    def own(
        self, progress: Progress, store: EntryStore, slot: int, log_end: int | None = None
    ) -> Shard[Record]:
        """Take in a shard whose committed entries are in ``slot``.

        ``log_end``: the end of the log, read before the shard was opened.
        """
        return self._own(progress, ShardCopy(progress, slot, store, self._index, log_end))

    def stand_by(self, progress: Progress, store: EntryStore, slot: int, log_end: int) -> Standby:
        """Take in a copy of another worker's shard, whose entries are in ``slot``.

        ``log_end``: the end of the log, read before the changelog was read.
        """
        standby = Standby(progress, slot, store, self._index, log_end)
        self.standbys[standby.partition] = standby
        self._by_slot[slot] = standby
        return standby

    def promote(self, progress: Progress, decided_before: int) -> Shard[Record] | None:
        """Own a shard that was a standby.

        None where it is not as far as ``progress``, which the owner before committed last: it is
        gone, and the shard is to be opened like any other. ``decided_before``: what was read.
        """
        standby = self.standbys.pop(progress.chain.partition, None)
        if standby is None:
            return None
        is_level = standby.catch_up(decided_before) and standby.progress == progress
        if standby.is_outdated or not is_level:
            self._forget(standby)
            return None
        return self._own(progress, standby)

    def drop(self, partition: int) -> None:
        """Let a shard go; without effect where it is not owned."""
        shard = self.owned.pop(partition, None)
        if shard is not None:
            self._forget(shard.copy)

    def drop_standby(self, partition: int) -> None:
        """Let a standby go; without effect where there is none."""
        standby = self.standbys.pop(partition, None)
        if standby is not None:
            self._forget(standby)

    def _forget(self, copy: ShardCopy) -> None:
        self._index.drop_slot(copy.slot)
        del self._by_slot[copy.slot]

    def _own(self, progress: Progress, copy: ShardCopy) -> Shard[Record]:
        stream: ShardStream[Record] = ShardStream(progress, self._worker, expires=self._expires)
        shard = Shard(stream, copy)
        self.owned[shard.partition] = shard
        self._by_slot[copy.slot] = copy
        return shard

    # ---- a session

    def begin(self, log_end: int) -> None:
        """Let all take part from now on; ``log_end``: of the log."""
        for shard in self.owned.values():
            shard.begin(log_end)
        for standby in self.standbys.values():
            standby.begin(log_end)
        for copy in self._in_session():
            self._index.show_slot(copy.slot)

    def progresses(self, decided_before: int) -> list[Progress]:
        """Return from where each has to read the log; ``decided_before``: what was read."""
        for standby in self.standbys.values():
            standby.catch_up(decided_before)
        standbys = (standby.progress for standby in self.standbys.values())
        return [*(shard.stream.committed for shard in self.owned.values()), *standbys]

    def decided(self, decided: Decided) -> None:
        """Take in what the log says of a packet."""
        packet = decided.item
        assert isinstance(packet, Packet)
        shard = self.owned.get(packet.chain.partition)
        if shard is not None:
            shard.decided(decided)
        standby = self.standbys.get(packet.chain.partition)
        if standby is not None and standby.in_session:
            standby.apply(decided)
        removed: dict[int, list[int]] = {}
        for removal in decided.decision.removals:
            removed.setdefault(removal.partition, []).append(removal.sequence)
        for partition, sequences in removed.items():
            self._remove(partition, sequences)

    def _remove(self, partition: int, sequences: list[int]) -> None:
        shard, standby = self.owned.get(partition), self.standbys.get(partition)
        if shard is not None:
            shard.remove(sequences)
        if standby is not None and standby.in_session:
            standby.remove(sequences)

    # ---- look-ups

    @property
    def reported(self) -> list[int]:
        """The partitions that a report is on."""
        return sorted(copy.partition for copy in self._in_session())

    def entries(self, slot: int, sequences: Sequence[int]) -> list[Entry]:
        """Return entries of the shard with this slot, without those that are gone by now."""
        entries = map(self._by_slot[slot].entry, sequences)
        return [entry for entry in entries if entry is not None]

    def by_content(self, digest: bytes) -> list[tuple[int, Entry]]:
        """Return the undecidable documents of a content, the earliest first."""
        entries = [
            (sequence, entry)
            for copy in self._in_session()
            for sequence in copy.by_content(digest)
            if (entry := copy.entry(sequence)) is not None
        ]
        return sorted(entries, key=lambda each: each[0])

    def with_ids(self, ids: Sequence[bytes]) -> list[list[tuple[int, int]]]:
        """Return partition and sequence number of the entries of each id."""
        entries: list[list[tuple[int, int]]] = [[] for _ in ids]
        for copy in self._in_session():
            for known, sequences in zip(entries, copy.with_ids(ids), strict=True):
                known += [(copy.partition, sequence) for sequence in sequences]
        return entries

    def _in_session(self) -> Iterator[ShardCopy]:
        copies = [*(shard.copy for shard in self.owned.values()), *self.standbys.values()]
        return (copy for copy in copies if copy.in_session)
