"""The entries of a shard as one worker knows them, as far as the log decided them.

Entries are in the worker's index from the moment that they are decided, and in the shard's store
once they are committed with their outputs. Between the two they are here. So are those that were
taken out, until the store has let go of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np

from simhash_core.entries import Entry
from simhash_core.index.document_index import DocumentIndex
from simhash_core.index.prints import prints_of
from simhash_core.log.packets import NO_OFFSET, Packet
from simhash_core.log.records import Progress
from simhash_core.log.replica import Decided
from simhash_core.log.sequence import log_offset_of
from simhash_core.log.unique_documents import UniqueDocuments, UniqueRows


class EntryStore(Protocol):
    """The committed entries of one shard."""

    def entries(self, sequences: Sequence[int]) -> list[Entry]:
        """Return entries by sequence number; raises ``KeyError`` for one that is not there."""
        ...

    def by_content(self, digest: bytes) -> list[int]:
        """Return the sequence numbers of the undecidable documents of a content, rising."""
        ...

    def by_ids(self, ids: Sequence[bytes]) -> list[list[int]]:
        """Return the sequence numbers of the entries with each of these ids, rising."""
        ...


class ShardCopy:
    """Entries of one shard: those in its store, and those that are not there yet."""

    def __init__(
        self,
        progress: Progress,
        slot: int,
        store: EntryStore,
        index: DocumentIndex,
        log_end: int | None = None,
    ) -> None:
        """``slot``: of the entries in ``index`` that were committed with ``progress``.

        ``log_end``: of the log, before it was known that ``progress`` is the last; None: that of
        the first session.
        """
        self.chain = progress.chain
        self.slot = slot
        self.store = store
        self.in_session = False
        self._log_end = log_end
        self._index = index
        self._first = progress.next
        self._applied = NO_OFFSET
        self._uncommitted = UniqueDocuments()
        self._removed: set[int] = set()

    @property
    def partition(self) -> int:
        """The raw partition."""
        return self.chain.partition

    @property
    def removed(self) -> frozenset[int]:
        """Entries that were taken out, by sequence number; the store may still have them."""
        return frozenset(self._removed)

    def begin(self, log_end: int) -> None:
        """Take part from now on; ``log_end``: of the log."""
        self.in_session = True
        if self._log_end is None:
            self._log_end = log_end

    def apply(self, decided: Decided) -> None:
        """Add the unique documents of a packet of this shard to the index, if they are not there.

        Those that the packet itself takes out again are among them, until ``remove``. The raw topic
        may have been created again, and this worker not know it: then all that came to the log
        since the shard was opened is added, of whichever topic. What came before is in the store.
        """
        packet, matches = decided.item, decided.decision.matches
        assert isinstance(packet, Packet)
        is_own = packet.chain == self.chain
        is_new = self._log_end is not None and decided.offset >= self._log_end
        if matches is None or decided.offset <= self._applied or not (is_own or is_new):
            return
        self._applied = decided.offset
        if decided.offset < log_offset_of(self._index.dropped_before):
            return  # it is read again, and has expired since
        columns = packet.columns
        unique = columns.are_documents
        if is_own:
            unique &= columns.offsets >= self._first  # what is before was committed, and is there
        unique[[match.row for match in matches]] = False
        if not unique.any():
            return
        uniques = UniqueRows(decided.offset, packet, np.flatnonzero(unique))
        self._uncommitted.add(uniques)
        rows = uniques.decidable
        prints = prints_of(self._index.scheme, columns, rows)
        self._index.add(self.slot, uniques.sequences(rows), prints)

    def remove(self, sequences: Sequence[int], *, may_come: bool = False) -> None:
        """Take entries out; without effect for those that are not there any more.

        ``may_come``: a commit under way may still bring one of them to the store. It is hidden
        until ``committed`` says that it is removed.
        """
        for sequence in sequences:
            entry = self._uncommitted.entry(sequence)
            if entry is None:
                entry = self._stored(sequence)
            if entry is not None or may_come:  # else the store has let go of it
                self._uncommitted.remove(sequence)
                self._removed.add(sequence)
        self._index.remove(self.slot, np.array(sequences, dtype=np.uint64))

    def committed(self, progress: Progress, removed: Iterable[int]) -> None:
        """Learn that the store has all before ``progress``, and ``removed`` no longer."""
        self._removed.difference_update(removed)
        for unique in self._uncommitted.packets():
            if unique.packet.chain != progress.chain:
                continue
            if unique.packet.last >= progress.next:
                break
            self._uncommitted.forget(unique.log_offset)

    def entry(self, sequence: int) -> Entry | None:
        """Return an entry of this shard, committed or not."""
        entry = self._uncommitted.entry(sequence)
        return self.store.entries([sequence])[0] if entry is None else entry

    def by_content(self, digest: bytes) -> set[int]:
        """Return the sequence numbers of the undecidable documents of a content."""
        sequences = {*self._uncommitted.by_content(digest), *self.store.by_content(digest)}
        return sequences - self._removed

    def with_ids(self, ids: Sequence[bytes]) -> list[set[int]]:
        """Return the sequence numbers of the entries of each id."""
        return [
            {*uncommitted, *stored} - self._removed
            for uncommitted, stored in zip(
                self._uncommitted.with_ids(ids), self.store.by_ids(ids), strict=True
            )
        ]

    def _stored(self, sequence: int) -> Entry | None:
        try:
            return self.store.entries([sequence])[0]
        except KeyError:
            return None
