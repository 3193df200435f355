"""Makes and merges segment files while the worker works: one step at a time, in a thread.

New documents of a shard stand in memory; once there are enough of them they become a file, and
files of about one size become one. The rows are copied on the event loop, which takes milliseconds;
sorting and writing them does not hold it up; then the index exchanges them for the file.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from simhash_core.index.document_index import DocumentIndex
from simhash_core.index.memtable import Rows
from streams.store.segment_file import SegmentDamagedError
from streams.store.shard_segments import FILE_DOCUMENTS, ShardSegments, documents_limit
from streams.store.shard_store import ShardStore

logger = logging.getLogger(__name__)


class KeptShard(NamedTuple):
    """A shard that is open: its slot in the index, its store, its files.

    ``standby_before``: of a standby, the sequence number before which its index has what its store
    has; the store may be ahead of it there, and removals with it. None for a shard that is owned.
    """

    slot: int
    store: ShardStore
    segments: ShardSegments
    standby_before: int | None = None

    @property
    def highest(self) -> int:
        """The highest sequence number that index and store both have."""
        if self.standby_before is None:
            return self.store.highest
        return min(self.store.highest, self.standby_before - 1)

    def gone(self, first: int, last: int) -> Sequence[int]:
        """Return what was removed between two sequence numbers, and so is not in a new file."""
        return self.store.gone(first, last) if self.standby_before is None else ()


class _Work(NamedTuple):
    """What becomes a file: rows of a shard from one sequence number to another.

    ``gone``: what was removed between them, and is not in the rows.
    """

    shard: KeptShard
    rows: Iterable[Rows]
    first: int
    last: int
    gone: Sequence[int]


class SegmentKeeper:
    """The segment files of all shards of a worker. On the event loop."""

    def __init__(self, index: DocumentIndex) -> None:
        """Nothing is done before ``step``."""
        self._index = index
        self._is_at_work = False

    async def step(self, shards: Callable[[], Iterable[KeptShard]]) -> bool:
        """Make one file, if there is one to make; return whether one was made.

        ``shards`` returns those that are open, which may be others once the file is written.
        """
        if self._is_at_work:
            return False
        work = next(filter(None, map(self._next_work, shards())), None)
        if work is None:
            return False
        shard = work.shard
        self._is_at_work = True
        try:
            file = await asyncio.to_thread(shard.segments.write, work.rows, work.first, work.last)
            if file is None:
                return False
            if not any(each.store is shard.store for each in shards()):
                file.path.unlink(missing_ok=True)  # the shard was closed meanwhile
                return False
            segment = shard.segments.map(file, shard.slot)
            shard.segments.taken(file)
            self._index.attach(shard.slot, segment, work.first, work.last)
            shard.store.forget_gone(work.gone)
        except (OSError, SegmentDamagedError) as error:
            logger.warning("no segment file can be written: %s", error)
            return False
        finally:
            self._is_at_work = False
        return True

    def _next_work(self, shard: KeptShard) -> _Work | None:
        slot, segments = shard.slot, shard.segments
        segments.drop_before(self._index.dropped_before)
        merged = segments.to_merge()
        if merged:
            first, last = merged[0].head.first, merged[-1].head.last
            left = self._index.live_rows(slot, first, last)
            return _Work(shard, left, first, last, shard.gone(first, last))
        if self._index.documents_in_memory(slot) < FILE_DOCUMENTS:
            return None
        limit = documents_limit(segments.scheme)
        highest = shard.highest
        rows = self._index.extract(slot, segments.next, highest, limit)
        if rows.documents < FILE_DOCUMENTS:
            return None  # the others are not committed yet
        last = highest if rows.documents < limit else int(rows.sequences[-1])
        return _Work(shard, [rows], segments.next, last, shard.gone(segments.next, last))
