"""Merges segments and writes segment files while the worker runs.

When there are enough new documents in memory, they are written to a file; files of similar size are
merged. The event loop marks the rows, and sorts them in short steps with pauses; only where the
steps would be long, a thread takes them. (A thread waits for Python's interpreter lock before each
step while the event loop is busy, and delays documents ten times as long.) A thread writes the
file. Then the index uses it, the stores of the shards name it, and the old files are deleted.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from simhash_core.fingerprints.blocks import BlockScheme
from simhash_core.index.bucket_columns import Result, Steps, completed
from simhash_core.index.document_index import DocumentIndex, Filing
from simhash_core.index.segment import SLOT_NUMBERS, Segment, build_segment
from streams.store.row_store import StoreClosedError
from streams.store.shard_segments import (
    FILE_DOCUMENTS,
    FiledShard,
    SegmentDamagedError,
    SegmentFile,
    ShardSegments,
    WorkerSegments,
    documents_limit,
)
from streams.store.shard_store import ShardStore

logger = logging.getLogger(__name__)


class KeptShard(NamedTuple):
    slot: int
    store: ShardStore
    segments: ShardSegments
    # For a standby: the index has entries below this number, but the store may have more. None: an
    # owned shard.
    standby_before: int | None = None
    # Entries that the index no longer has, and the store may have until the next commit.
    removed: Collection[int] = ()

    @property
    def highest(self) -> int:
        if self.standby_before is None:
            return self.store.highest
        return min(self.store.highest, self.standby_before - 1)

    def gone(self, ranges: Iterable[tuple[int, int]]) -> list[int]:
        """Return the removed entries that a new file does not contain."""
        if self.standby_before is not None:
            return []
        return [sequence for each in ranges for sequence in self.store.gone(*each)]


_Removed = Sequence[tuple[ShardStore, Sequence[int]]]


class _Work(NamedTuple):
    """The ranges of each shard that become one file, and the files that it replaces."""

    filing: Filing
    shards: Sequence[tuple[KeptShard, list[tuple[int, int]]]]
    replaced: Sequence[SegmentFile] = ()


INLINE_DOCUMENTS: Final = 4096
"""Segments up to this size are merged at once, in 4 ms."""
_LOOP_DOCUMENTS: Final = 2 * FILE_DOCUMENTS
"""Segments up to this size are built on the event loop; a step takes up to 10 ms."""
_DOCUMENTS_A_TURN: Final = FILE_DOCUMENTS // 2
"""Steps of small segments are taken together: in a backlog, each turn of the loop takes long."""
_PAUSE_SECONDS: Final = 0.005
"""The pause after each turn."""
_COMMIT_PAUSE_SECONDS: Final = 0.1
_COMMIT_PAUSES: Final = 50
"""How often a finished file waits for a commit before it is given up."""


async def _taken(steps: Steps[Result], documents: int) -> Result:
    """Return the result of a computation about this many documents."""
    if documents > _LOOP_DOCUMENTS:
        return await asyncio.to_thread(completed, steps)
    together = max(1, _DOCUMENTS_A_TURN // max(1, documents))
    while True:
        try:
            for _ in range(together):
                next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result
        await asyncio.sleep(_PAUSE_SECONDS)


class SegmentKeeper:
    def __init__(self, index: DocumentIndex) -> None:
        """``step`` does the long merges of ``index`` from now on."""
        self._index = index
        index.inline_documents = INLINE_DOCUMENTS
        self._is_at_work = False
        self._uncommitted: _Removed = ()

    async def step(self, shards: Callable[[], Iterable[KeptShard]]) -> bool:
        """Merge segments and write at most one file; return whether a file was written.

        ``shards`` returns the open shards.
        """
        if self._is_at_work:
            return False
        self._is_at_work = True
        try:
            if (merge := self._index.next_merge()) is not None:
                self._index.merged(merge, await _taken(merge.build(), merge.most_documents))
            kept = [*shards()]
            if not kept or _are_stored(self._uncommitted):
                return False
            files = kept[0].segments.files
            for each in kept:
                files.note(each.segments.partition)
            work = self._merged_file(kept, files) or self._new_file(kept)
            return work is not None and await self._made(work, files, shards)
        except StoreClosedError:
            return False  # a shard was closed, so the file is of no use
        except (OSError, SegmentDamagedError) as error:
            logger.warning("no segment file can be written: %s", error)
            return False
        finally:
            self._index.end_filing()
            self._is_at_work = False

    async def _made(
        self, work: _Work, files: WorkerSegments, shards: Callable[[], Iterable[KeptShard]]
    ) -> bool:
        filed = [FiledShard(each.segments.partition, ranges) for each, ranges in work.shards]
        gone = [each.gone(ranges) for each, ranges in work.shards]
        removed = [(each.store, [*each.removed]) for each, _ in work.shards]
        numbers = {each.slot: number for number, (each, _) in enumerate(work.shards)}
        steps = _filed_segment(files.scheme, work.filing, numbers)
        segment = await _taken(steps, work.filing.most_documents)
        file = await asyncio.to_thread(files.write, segment, filed)
        if not await self._are_committed(removed):
            files.delete(file)
            return False
        here = {id(each.store): each for each in shards() if not each.store.closed}
        claiming = [each for each, _ in work.shards]
        free = (self._is_free(each, claiming, [*here.values()]) for each in work.replaced)
        having = [
            (each, ranges, left)
            for (each, ranges), left in zip(work.shards, gone, strict=True)
            if id(each.store) in here
        ]
        if not having or not all(free):
            files.delete(file)
            return False
        self._index.filed(file.segment, numbers)
        for shard, ranges, _ in having:
            shard.segments.remove(work.replaced)
            shard.segments.taken(file, ranges)
        for shard, _, left in having:
            with contextlib.suppress(StoreClosedError):
                shard.store.set_filed(shard.segments.filed(), left)
        for each in work.replaced:
            files.delete(each)
        return True

    async def _are_committed(self, removed: _Removed) -> bool:
        """Wait for the commit of removals that the log had when a file was begun.

        The file does not have these entries, and nothing else says so. If brokers lost this part of
        the log, the entries would remain in the store, and look-ups would not find them.
        """
        for _ in range(_COMMIT_PAUSES):
            if not _are_stored(removed):
                return True
            await asyncio.sleep(_COMMIT_PAUSE_SECONDS)
        self._uncommitted = removed  # until then no other file is begun
        return False

    def _new_file(self, shards: Sequence[KeptShard]) -> _Work | None:
        """Return the rows in memory to write to a file; None if there are too few."""
        if self._index.documents_in_memory < FILE_DOCUMENTS:
            return None
        ranges = {each.slot: (each.segments.next, each.highest) for each in shards}
        limit = documents_limit(shards[0].segments.files.scheme)
        filing = self._index.filing(ranges, FILE_DOCUMENTS, limit)
        if filing is None or filing.last is None:
            return None  # some entries are not committed yet
        last = filing.last
        return _Work(
            filing,
            [
                (each, [(each.segments.next, int(last[each.slot]))])
                for each in shards
                if each.slot in filing.documents
            ],
        )

    def _merged_file(self, shards: Sequence[KeptShard], files: WorkerSegments) -> _Work | None:
        """Delete files without visible rows; then return files to merge into one."""
        expired = self._index.dropped_before
        documents: dict[int, int] = {}
        for file in [*files.files.values()]:
            claiming = [each for each in shards if each.segments.ranges_in([file], expired)]
            if not self._is_free(file, claiming, shards):
                continue
            if count := self._index.claimed(file.segment)[0]:
                documents[file.checksum] = count
            elif not claiming:
                for each in shards:
                    each.segments.remove([file])
                files.delete(file)
        merged = files.to_merge(documents)
        if not merged:
            return None
        taken = [(each, each.segments.ranges_in(merged, expired)) for each in shards]
        filing = self._index.file_merge(each.segment for each in merged)
        return _Work(filing, [each for each in taken if each[1]], merged)

    def _is_free(
        self, file: SegmentFile, claiming: Sequence[KeptShard], here: Sequence[KeptShard]
    ) -> bool:
        """Return whether only ``claiming`` shards have rows of a file, or may open with them."""
        claimed = self._index.claimed(file.segment)[1]
        if not here or not claimed <= {each.slot for each in claiming}:
            return False
        partitions = {each.segments.partition for each in here}
        return here[0].segments.files.is_settled(file, partitions)


def _are_stored(removed: _Removed) -> bool:
    return any(store.has(each) for store, some in removed if not store.closed for each in some)


def _filed_segment(
    scheme: BlockScheme, filing: Filing, numbers: Mapping[int, int]
) -> Steps[Segment]:
    """Return the segment to write, whose slots are the ``numbers`` of its shards."""
    rows = yield from filing.rows()
    of_slots = np.zeros(SLOT_NUMBERS, dtype=np.uint16)
    for slot, number in numbers.items():
        of_slots[slot] = number
    return (yield from build_segment(scheme, rows._replace(slots=of_slots[rows.slots])))
