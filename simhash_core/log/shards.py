"""The shards that one worker owns, and its standby copies of other workers' shards."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, Protocol

import numpy as np
from numpy.typing import NDArray

from simhash_core.documents import Entry
from simhash_core.index.document_index import DocumentIndex
from simhash_core.index.key_filter import Column, KeyFilter, id_key
from simhash_core.index.prints import Prints, prints_of
from simhash_core.log.records import NO_OFFSET, Bundle, Decision, Packet, Progress, log_offset_of
from simhash_core.log.shard_stream import DecidedPacket, Ready, Record, ShardStream, StreamNews
from simhash_core.log.unique_documents import UniqueDocuments, UniqueRows, unique_rows


class EntryStore(Protocol):
    """The committed entries of one shard; all methods return sequence numbers in rising order."""

    def entries(self, sequences: Sequence[int]) -> list[Entry]:
        """Raises ``KeyError`` if an entry is missing."""
        ...

    def by_content(self, digest: bytes) -> list[int]:
        """Return only undecidable documents."""
        ...

    def by_ids(self, ids: Sequence[bytes]) -> list[list[int]]: ...

    def filter_by(self, column: Column) -> None:
        """Note the keys of later entries, then those of earlier ones, and complete the column.

        Keys of contents are noted for undecidable documents only. While the column is incomplete,
        the store is asked for every key.
        """
        ...

    @property
    def ids_ready(self) -> bool:
        """Whether earlier entries have keys by id; such keys are noted when they are made."""
        ...


class ShardCopy:
    """The entries of one shard, as one worker knows them.

    Entries are in the worker's index once they are decided, and in the shard's store once they are
    committed with their outputs. A copy holds the decided entries that are not committed yet, and
    the removed entries that the store still has.
    """

    def __init__(
        self,
        progress: Progress,
        slot: int,
        store: EntryStore,
        index: DocumentIndex,
        column: Column,
        log_end: int | None = None,
    ) -> None:
        """``log_end`` is that before ``progress`` was read; None: that of the first session."""
        self.chain = progress.chain
        self.column = column
        self.slot = slot
        self.store = store
        self.in_session = False
        self.may_lack_entries = False
        """Whether the store may lack entries that the index still has: it was a standby's."""
        self._log_end = log_end
        self._index = index
        self._first = progress.next
        self._applied = NO_OFFSET
        self._uncommitted = UniqueDocuments()
        self._removed: set[int] = set()
        self._removed_early: set[int] = set()  # of these, in a commit before their documents
        self._notes_ids = False
        store.filter_by(column)

    @property
    def partition(self) -> int:
        return self.chain.partition

    @property
    def removed(self) -> frozenset[int]:
        """Removed entries by sequence number; the store may still have them."""
        return frozenset(self._removed)

    def begin(self, log_end: int) -> None:
        self.in_session = True
        if self._log_end is None:
            self._log_end = log_end

    def apply(self, decided: DecidedPacket) -> None:
        """Add the unique documents of a packet of this shard to the index.

        This includes documents that the packet itself removes; ``remove`` removes them. If the raw
        topic was created again and this worker does not know it yet, packets of any topic are
        added; the store has the earlier ones.
        """
        offset, packet = decided.log_offset, decided.packet
        if self._was_applied(offset) or not self._concerns(offset, packet):
            return
        self._applied = offset
        if offset < log_offset_of(self._index.dropped_before):
            return  # the log is read again, and this packet has expired since
        columns = packet.columns
        unique = unique_rows(columns, decided.matches)
        if packet.chain == self.chain:
            # Earlier documents are committed and in the store.
            unique &= columns.offsets >= self._first
        if not unique.any():
            return
        uniques = UniqueRows(offset, packet, np.flatnonzero(unique))
        self._uncommitted.add(uniques)
        self.column.note(digest for digest, _ in uniques.repeatable())
        if self._notes_ids:
            self.column.note(id_key(name) for name, _ in uniques.with_ids())
        self._show(uniques)

    def _concerns(self, offset: int, packet: Packet) -> bool:
        is_new = self._log_end is not None and offset >= self._log_end
        return packet.chain == self.chain or is_new

    def _was_applied(self, offset: int) -> bool:
        return offset <= self._applied

    def _show(self, uniques: UniqueRows) -> None:
        rows = uniques.decidable
        prints = prints_of(self._index.scheme, uniques.columns, rows)
        self._index.add(self.slot, uniques.sequences(rows), prints)

    def remove(self, sequences: Sequence[int], *, may_be_stored: bool = False) -> None:
        """Remove entries; entries that no longer exist have no effect.

        ``may_be_stored``: a commit in flight may still store an entry, which stays hidden until
        ``committed``.
        """
        for sequence in sequences:
            if may_be_stored or self._entry_if_known(sequence) is not None:
                self._removed.add(sequence)
        self._index.remove(self.slot, np.array(sequences, dtype=np.uint64))

    def committed(self, progress: Progress, removed: Iterable[int]) -> None:
        """Note that the store has everything before ``progress``, and no longer has ``removed``.

        A removal may be committed before its document. Another owner, which has read less of the
        log, then commits that document with its entry, and removes it later.
        """
        removed = set(removed)
        early = {each for each in removed if log_offset_of(each) in self._uncommitted}
        self._removed -= removed - early
        self._removed_early |= early
        stored: list[int] = []
        for unique in self._uncommitted.each():
            packet = unique.documents
            assert isinstance(packet, Packet)
            if packet.chain != progress.chain:
                continue
            if packet.last >= progress.next:
                break
            stored.append(unique.log_offset)
        for log_offset in stored:
            self._uncommitted.forget(log_offset)
        if self._removed_early:
            left = {e for e in self._removed_early if log_offset_of(e) in self._uncommitted}
            done = self._removed_early - left
            self._removed_early = left
            # If the store has the entry, its owner is still to remove it.
            self._removed -= {each for each in done if self._entry_if_known(each) is None}

    def entry(self, sequence: int) -> Entry | None:
        """Return an entry, or None if the store may lack it; otherwise raise ``KeyError``."""
        return self._entry_if_known(sequence) if self.may_lack_entries else self._entry(sequence)

    def by_content(self, digest: bytes) -> set[int]:
        sequences = {*self._uncommitted.by_content(digest), *self.store.by_content(digest)}
        return sequences - self._removed

    def note_ids(self) -> None:
        """Note ids from now on; most streams never look one up."""
        if not self._notes_ids:
            self._notes_ids = True
            for each in self._uncommitted.each():
                self.column.note(id_key(name) for name, _ in each.with_ids())

    def with_ids(self, ids: Sequence[bytes]) -> list[set[int]]:
        return [
            {*uncommitted, *stored} - self._removed
            for uncommitted, stored in zip(
                self._uncommitted.with_ids(ids), self.store.by_ids(ids), strict=True
            )
        ]

    def _entry(self, sequence: int) -> Entry:
        entry = self._uncommitted.entry(sequence)
        return self.store.entries([sequence])[0] if entry is None else entry

    def _entry_if_known(self, sequence: int) -> Entry | None:
        """Return an entry, or None if the store no longer has it."""
        try:
            return self._entry(sequence)
        except KeyError:
            return None


class Standby:
    """A copy of another worker's shard; its reports count like those of the owner.

    The store gets the owner's commits from the changelog, which may be further than this worker has
    read the log. Then the store may lack entries that the index still has. A decided packet removed
    them or made them expire, and reports on packets before that one no longer count.

    ``progress`` is the owner's, as far as this worker has read the log. ``is_outdated`` says that
    the raw topic was created again, so the copy must be opened again.
    """

    def __init__(self, copy: ShardCopy, progress: Progress) -> None:
        """``progress`` is the last that the store of ``copy`` has."""
        copy.may_lack_entries = True
        self.copy = copy
        self.progress = progress
        self.is_outdated = False
        self._commits: deque[Progress] = deque()

    @property
    def in_session(self) -> bool:
        return self.copy.in_session

    def apply(self, decided: DecidedPacket) -> None:
        if self.in_session:
            self.copy.apply(decided)

    def remove(self, sequences: Sequence[int]) -> None:
        if self.in_session:
            self.copy.remove(sequences)

    def owner_committed(self, progress: Progress, removed: Iterable[int]) -> None:
        if progress.chain != self.copy.chain:
            self.is_outdated = True
            return
        self.copy.committed(progress, removed)
        self._commits.append(progress)

    def catch_up(self, decided_before: int) -> bool:
        """Advance to what this copy read; return whether its progress equals the owner's."""
        while self._commits and self._has_read(self._commits[0].position, decided_before):
            self.progress = self._commits.popleft()
        return not self._commits

    def _has_read(self, position: int, decided_before: int) -> bool:
        # Packets that were read in sessions without this copy do not count, because it did not
        # apply them.
        return self.in_session and position <= decided_before

    def is_level(self, progress: Progress, decided_before: int) -> bool:
        has_all = self.catch_up(decided_before) and self.progress == progress
        return has_all and not self.is_outdated


class OwnedShard(Generic[Record]):
    """A shard that this worker owns; it takes no documents until a session begins.

    If the shard was a standby of this worker, ``copy`` takes part in look-ups before that.
    """

    def __init__(self, stream: ShardStream[Record], copy: ShardCopy) -> None:
        self.stream = stream
        self.copy = copy
        self.in_session = False

    @property
    def partition(self) -> int:
        return self.stream.chain.partition

    @property
    def slot(self) -> int:
        return self.copy.slot

    def begin(self, log_end: int) -> None:
        self.stream.restart()
        self.in_session = True
        self.copy.begin(log_end)

    def decided(self, decided: DecidedPacket) -> None:
        if self.copy.in_session:
            self.copy.apply(decided)
        if self.in_session and self._is_own(decided.packet):
            self.stream.decided(decided)

    def skipped(self, packet: Packet) -> None:
        """Note a packet that does not count."""
        if self.in_session and self._is_own(packet):
            self.stream.skipped(packet)

    def _is_own(self, packet: Packet) -> bool:
        """Return whether a packet is of this topic, not of an earlier one with the same name."""
        return packet.chain == self.stream.chain

    def remove(self, sequences: list[int]) -> None:
        if self.copy.in_session:
            self.copy.remove(sequences, may_be_stored=self.in_session)
        if self.in_session:
            self.stream.remove(sequences)

    def commit(self, ready: Ready[Record], progress: Progress) -> None:
        self.copy.committed(progress, ready.removed)
        self.stream.advance(progress, ready.removed)


class HeldShards(Generic[Record]):
    """Shards by partition; a worker has a shard either as owner or as standby."""

    def __init__(self, worker: str, index: DocumentIndex, *, expires: bool) -> None:
        self.owned: dict[int, OwnedShard[Record]] = {}
        self.standbys: dict[int, Standby] = {}
        self._worker = worker
        self._index = index
        self._expires = expires
        self._by_slot: dict[int, ShardCopy] = {}
        self._filter = KeyFilter()
        self._by_column: dict[int, ShardCopy] = {}
        self._session: list[ShardCopy] | None = None
        self._ids_noted = False  # those of all copies in ``_session``
        self._reported: list[int] = []
        self.news = StreamNews()

    def fill_slot(self, committed: Iterable[tuple[NDArray[np.uint64], Prints]]) -> int:
        """Return a new slot of the index with committed entries, hidden from look-ups."""
        slot = self._index.open_slot(visible=False)
        for sequences, prints in committed:
            self._index.add(slot, sequences, prints)
        return slot

    def own(
        self, progress: Progress, store: EntryStore, slot: int, log_end: int | None = None
    ) -> OwnedShard[Record]:
        """Add an owned shard; ``log_end`` is the end of the log before the shard was opened."""
        copy = ShardCopy(progress, slot, store, self._index, self._filter.open(), log_end)
        return self._own(progress, copy)

    def add_standby(
        self, progress: Progress, store: EntryStore, slot: int, log_end: int
    ) -> Standby:
        """Add a standby; ``log_end`` is the end of the log before the changelog was read."""
        copy = ShardCopy(progress, slot, store, self._index, self._filter.open(), log_end)
        self._by_slot[slot] = self._by_column[copy.column.number] = copy
        return self._stand_by(copy, progress)

    def promote(self, progress: Progress, decided_before: int) -> OwnedShard[Record] | None:
        """Own a shard that was a standby; drop it and return None if it is behind ``progress``."""
        standby = self.standbys.pop(progress.chain.partition, None)
        if standby is None:
            return None
        if not standby.is_level(progress, decided_before):
            self._forget(standby.copy)
            return None
        return self._own(progress, standby.copy)

    def demote(self, partition: int) -> bool:
        """Make an owned shard a standby; drop it and return False if it is in no session."""
        shard = self.owned.pop(partition)
        self.news.forget(partition)
        if not shard.copy.in_session:
            self._forget(shard.copy)
            return False
        self._stand_by(shard.copy, shard.stream.committed)
        return True

    def drop(self, partition: int) -> None:
        shard = self.owned.pop(partition, None)
        if shard is not None:
            self.news.forget(partition)
            self._forget(shard.copy)

    def drop_standby(self, partition: int) -> None:
        standby = self.standbys.pop(partition, None)
        if standby is not None:
            self._forget(standby.copy)

    def _forget(self, copy: ShardCopy) -> None:
        self._index.drop_slot(copy.slot)
        del self._by_slot[copy.slot]
        del self._by_column[copy.column.number]
        self._filter.close(copy.column)
        self._session = None

    def _own(self, progress: Progress, copy: ShardCopy) -> OwnedShard[Record]:
        stream: ShardStream[Record] = ShardStream(
            progress, self._worker, expires=self._expires, news=self.news
        )
        shard = OwnedShard(stream, copy)
        self.owned[shard.partition] = shard
        self._by_slot[copy.slot] = self._by_column[copy.column.number] = copy
        self._session = None
        return shard

    def _stand_by(self, copy: ShardCopy, progress: Progress) -> Standby:
        standby = self.standbys[copy.partition] = Standby(copy, progress)
        self._session = None
        return standby

    # ---- a session

    def begin(self, log_end: int) -> None:
        for shard in self.owned.values():
            shard.begin(log_end)
        for standby in self.standbys.values():
            standby.copy.begin(log_end)
        self._session = None
        for copy in self._in_session():
            self._index.show_slot(copy.slot)

    def progresses(self, decided_before: int) -> list[Progress]:
        for standby in self.standbys.values():
            standby.catch_up(decided_before)
        standbys = (standby.progress for standby in self.standbys.values())
        return [*(shard.stream.committed for shard in self.owned.values()), *standbys]

    def decided(self, offset: int, bundle: Bundle, decision: Decision) -> None:
        for at, segment in enumerate(bundle.segments):
            partition = segment.chain.partition
            shard, standby = self.owned.get(partition), self.standbys.get(partition)
            if shard is None and standby is None:
                continue
            packet = bundle.packet(at)
            if at in decision.skipped:
                if shard is not None:
                    shard.skipped(packet)
                continue
            decided = DecidedPacket.of(offset, packet, decision)
            if shard is not None:
                shard.decided(decided)
            if standby is not None:
                standby.apply(decided)
        removed: dict[int, list[int]] = {}
        for removal in decision.removals:
            removed.setdefault(removal.partition, []).append(removal.sequence)
        for partition, sequences in removed.items():
            self._remove(partition, sequences)

    def _remove(self, partition: int, sequences: list[int]) -> None:
        shard, standby = self.owned.get(partition), self.standbys.get(partition)
        if shard is not None:
            shard.remove(sequences)
        if standby is not None:
            standby.remove(sequences)

    # ---- look-ups

    @property
    def reported(self) -> list[int]:
        self._in_session()
        return self._reported

    def entry(self, slot: int, sequence: int) -> Entry | None:
        """Return an entry of the shard with this slot; None if it is gone."""
        return self._by_slot[slot].entry(sequence)

    def by_content(self, digest: bytes) -> list[tuple[int, int]]:
        """Return the sequence numbers, rising, and slots of undecidable documents."""
        return sorted(
            (sequence, copy.slot)
            for copy in self._that_may_have(digest)
            for sequence in copy.by_content(digest)
        )

    def with_ids(self, ids: Sequence[bytes]) -> list[list[tuple[int, int]]]:
        rows = {copy: [*range(len(ids))] for copy in self._without_ids()}
        unfiltered = {*rows}
        for row, name in enumerate(ids):
            for copy in self._that_may_have(id_key(name)):
                if copy not in unfiltered:
                    rows.setdefault(copy, []).append(row)
        entries: list[list[tuple[int, int]]] = [[] for _ in ids]
        for copy, some in rows.items():
            for row, sequences in zip(some, copy.with_ids([ids[row] for row in some]), strict=True):
                entries[row] += [(copy.partition, sequence) for sequence in sequences]
        return entries

    def _without_ids(self) -> list[ShardCopy]:
        """Return the copies that take part and whose ids are not all noted yet."""
        if self._ids_noted:
            return []
        copies = self._in_session()
        for copy in copies:
            copy.note_ids()
        without = [copy for copy in copies if not copy.store.ids_ready]
        self._ids_noted = not without
        return without

    def _that_may_have(self, key: bytes) -> Iterator[ShardCopy]:
        copies = (self._by_column[number] for number in self._filter.columns(key))
        return (copy for copy in copies if self._takes_part(copy))

    def _in_session(self) -> list[ShardCopy]:
        """Return the copies that take part; cached for look-ups, as they seldom change."""
        if self._session is None:
            owned = (shard.copy for shard in self.owned.values())
            copies = [*owned, *(standby.copy for standby in self.standbys.values())]
            self._ids_noted = False
            self._session = [copy for copy in copies if self._takes_part(copy)]
            self._reported = sorted(copy.partition for copy in self._session)
        return self._session

    def _takes_part(self, copy: ShardCopy) -> bool:
        return copy.in_session
