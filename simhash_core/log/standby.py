"""A copy of a shard that another worker owns: it reads the log only, and its reports count as well.

What the owner commits, the copy's store takes in from the changelog. The changelog may be ahead of
what is read of the log here. Then the store may have let go of entries that the index still has:
such an entry was taken out, or has expired, by a packet that is decided, and no report on what is
before that packet counts any more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from simhash_core.entries import Entry
from simhash_core.index.document_index import DocumentIndex
from simhash_core.log.records import Progress
from simhash_core.log.shard_copy import EntryStore, ShardCopy


class Standby(ShardCopy):
    """A copy of another worker's shard.

    ``progress``: of the owner, as far as the log was read here; a session reads from there.
    ``is_outdated``: the raw topic was created again; the copy is to be opened again.
    """

    def __init__(
        self,
        progress: Progress,
        slot: int,
        store: EntryStore,
        index: DocumentIndex,
        log_end: int,
    ) -> None:
        """``slot``: of the entries in ``index`` that were committed with ``progress``.

        ``log_end``: of the log, before the changelog was read as far as ``progress``.
        """
        super().__init__(progress, slot, store, index, log_end)
        self.progress = progress
        self.is_outdated = False
        self._commits: deque[Progress] = deque()

    def owner_committed(self, progress: Progress, removed: Iterable[int]) -> None:
        """Note that the store has taken in a commit of the owner."""
        if progress.chain != self.chain:
            self.is_outdated = True
            return
        self.committed(progress, removed)
        self._commits.append(progress)

    def catch_up(self, decided_before: int) -> bool:
        """Let the progress follow what was read of the log; return whether it is the owner's.

        What was read in sessions that this copy had no part in does not count: it has not applied
        it.
        """
        while self.in_session and self._commits and self._commits[0].position <= decided_before:
            self.progress = self._commits.popleft()
        return not self._commits

    def entry(self, sequence: int) -> Entry | None:
        """Return an entry; None for one that the store has let go of."""
        try:
            return ShardCopy.entry(self, sequence)
        except KeyError:
            return None
