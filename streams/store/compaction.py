"""Merges segments, and makes segment files, while the worker runs: one step at a time, in a thread.

New documents of a shard are in memory, in segments that are merged as they become many; enough of
them become a file, and files of similar size are merged. The event loop copies the rows, which
takes milliseconds; a thread sorts and writes them; then the index replaces them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from simhash_core.index.document_index import DocumentIndex
from simhash_core.index.memtable import Rows
from streams.store.row_store import StoreClosedError
from streams.store.shard_segments import (
    FILE_DOCUMENTS,
    SegmentDamagedError,
    ShardSegments,
    documents_limit,
)
from streams.store.shard_store import ShardStore

logger = logging.getLogger(__name__)


class KeptShard(NamedTuple):
    slot: int
    store: ShardStore
    segments: ShardSegments
    # None for an owned shard. For a standby, the sequence number up to which the index has what the
    # store has; the store may be ahead.
    standby_before: int | None = None

    @property
    def highest(self) -> int:
        if self.standby_before is None:
            return self.store.highest
        return min(self.store.highest, self.standby_before - 1)

    def gone(self, first: int, last: int) -> Sequence[int]:
        """Return the removed sequence numbers that a new file does not have."""
        return self.store.gone(first, last) if self.standby_before is None else ()


class _Work(NamedTuple):
    """Rows from ``first`` to ``last`` that become a file, without the removed ones, ``gone``."""

    shard: KeptShard
    rows: Iterable[Rows]
    first: int
    last: int
    gone: Sequence[int]


INLINE_DOCUMENTS: Final = 4096
"""Segments that the event loop merges itself, in 25 ms."""


class SegmentKeeper:
    def __init__(self, index: DocumentIndex) -> None:
        """From now on ``step`` does the merges of ``index`` that take long."""
        self._index = index
        index.inline_documents = INLINE_DOCUMENTS
        self._is_at_work = False

    async def step(self, shards: Callable[[], Iterable[KeptShard]]) -> bool:
        """Merge, and make at most one file; return whether one was made.

        ``shards`` returns open ones.
        """
        if self._is_at_work:
            return False
        self._is_at_work = True
        try:
            if (merge := self._index.next_merge()) is not None:
                self._index.merged(merge, await asyncio.to_thread(merge.build))
            work = next(filter(None, map(self._next_work, shards())), None)
            return work is not None and await self._made(work, shards)
        except StoreClosedError:
            return False  # whoever closed it has no use for the file
        except (OSError, SegmentDamagedError) as error:
            logger.warning("no segment file can be written: %s", error)
            return False
        finally:
            self._is_at_work = False

    async def _made(self, work: _Work, shards: Callable[[], Iterable[KeptShard]]) -> bool:
        shard = work.shard
        file = await asyncio.to_thread(shard.segments.write, work.rows, work.first, work.last)
        if file is None:
            return False
        if shard.store.closed or all(each.store is not shard.store for each in shards()):
            file.path.unlink(missing_ok=True)  # the shard was closed meanwhile
            return False
        segment = shard.segments.map(file, shard.slot)
        shard.segments.taken(file)
        self._index.attach(shard.slot, segment, work.first, work.last)
        shard.store.forget_gone(work.gone)
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
