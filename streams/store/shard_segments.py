"""The segment files of one shard: which there are, which are missing, and how they are made.

::

    <directory of the shard>/segments/<first>-<last>.segment      sequence numbers, 16 hex digits

The files cover entries without a gap, from the first sequence number to the last of the last file;
what is above stands in memory alone, and is read from the rows of the store when it is opened.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from simhash_core.fingerprints.blocks import BlockScheme
from simhash_core.index.memtable import Rows, joined
from simhash_core.index.row_numbers import ROWS_LIMIT
from simhash_core.index.segment import Segment, build_segment
from streams.store.entry_rows import EntryPrints
from streams.store.segment_file import (
    SegmentDamagedError,
    SegmentHead,
    SegmentOwner,
    check_columns,
    map_segment,
    read_head,
    write_segment,
)

logger = logging.getLogger(__name__)

DIRECTORY: Final = "segments"
FILE_DOCUMENTS: Final = 1 << 18
"""New documents of a shard that are worth a file."""

FILE_BYTES_LIMIT: Final = 3 << 27
"""A file is no longer, about: it bounds the memory and the time of a merge."""

_SUFFIX: Final = ".segment"
_BUCKET_BYTES: Final = 6
_MERGED_FILES: Final = 4


class SegmentFile(NamedTuple):
    """A file that was checked."""

    path: Path
    head: SegmentHead


def segment_paths(store: Path) -> list[Path]:
    """Return the segment files beside a store, in the directory ``store``, in their order."""
    return sorted((store / DIRECTORY).glob(f"*{_SUFFIX}"))


def documents_limit(scheme: BlockScheme) -> int:
    """Return how many documents a file may have."""
    a_document = 2 + scheme.bits // 8 + scheme.all_buckets * _BUCKET_BYTES
    documents = max(FILE_BYTES_LIMIT // a_document, FILE_DOCUMENTS)
    return min(documents, ROWS_LIMIT - FILE_DOCUMENTS)  # a file may be somewhat longer


class ShardSegments:
    """The files of one shard. Blocking; one thread at a time.

    ``tail``: documents above the files that were read, until they are in the index.
    """

    def __init__(
        self, shard: Path, owner: SegmentOwner, scheme: BlockScheme, *, with_times: bool = False
    ) -> None:
        """Look at nothing yet. ``shard``: the directory of its store."""
        self.scheme = scheme
        self.files: list[SegmentFile] = []
        self.tail: list[EntryPrints] = []
        self._store = shard
        self._directory = shard / DIRECTORY
        self._owner = owner
        self._with_times = with_times

    @property
    def next(self) -> int:
        """The first sequence number that no file covers."""
        return self.files[-1].head.last + 1 if self.files else 0

    def find(self, highest: int, expired_before: int = 0) -> None:
        """Find the files that are whole; delete others, and all that are behind a gap.

        ``highest``: sequence number in the store; a file that goes beyond it is of another life of
        the store. ``expired_before``: no file need cover what is below.
        """
        self.files = []
        segments = []
        for path in segment_paths(self._store):
            try:
                segments.append(self._checked(path, highest))
            except (SegmentDamagedError, OSError) as error:
                logger.warning("rebuilding a segment file: %s", error)
                path.unlink(missing_ok=True)
        for path in self._directory.glob("*.writing"):
            path.unlink(missing_ok=True)
        # Of files that overlap, as after a merge that did not end, the one that covers more.
        segments.sort(key=lambda each: (each.head.first, -each.head.last))
        for each in segments:
            start = self.next if self.files else expired_before
            if each.head.first == start or (not self.files and each.head.first < start):
                self.files.append(each)
            else:
                each.path.unlink(missing_ok=True)

    def map(self, file: SegmentFile, slot: int) -> Segment:
        """Return the segment in a file. Raises ``SegmentDamagedError`` and ``OSError``."""
        return map_segment(file.path, file.head, self.scheme, slot)

    def write(self, rows: Iterable[Rows], first: int, last: int) -> SegmentFile | None:
        """Write documents to a file that covers entries from one number to another.

        None, and no file, where there are no documents. ``taken`` makes it one of ``files``. Raises
        ``OSError``.
        """
        parts = [each for each in rows if each.documents]
        if not parts:
            return None
        segment = build_segment(self.scheme, joined(parts))
        path = self._directory / f"{first:016x}-{last:016x}{_SUFFIX}"
        self._directory.mkdir(exist_ok=True)
        write_segment(path, self._owner, first, last, segment, with_times=self._with_times)
        return SegmentFile(path, read_head(path))

    def taken(self, file: SegmentFile) -> None:
        """Take a file that was written in, and delete those that it covers."""
        kept = []
        for each in self.files:
            if file.head.first <= each.head.first and each.head.last <= file.head.last:
                if each.path != file.path:
                    each.path.unlink(missing_ok=True)
            else:
                kept.append(each)
        self.files = sorted([*kept, file], key=lambda each: each.head.first)

    def drop_before(self, sequence: int) -> None:
        """Delete the files of which nothing is left but the last: all is below a number."""
        while len(self.files) > 1 and self.files[0].head.last < sequence:
            self.files.pop(0).path.unlink(missing_ok=True)

    def to_merge(self) -> Sequence[SegmentFile]:
        """Return files, neighbours, that should become one; none are empty."""
        limit = documents_limit(self.scheme)
        sizes = [each.head.documents for each in self.files]
        for stop in range(len(sizes), _MERGED_FILES - 1, -1):
            run = sizes[stop - _MERGED_FILES : stop]
            if max(run) < _MERGED_FILES * min(run) and sum(run) <= limit:
                return self.files[stop - _MERGED_FILES : stop]
        return ()

    def _checked(self, path: Path, highest: int) -> SegmentFile:
        head = read_head(path)
        if head.owner != self._owner:
            raise SegmentDamagedError(f"{path}: it is of another shard or another index")
        if head.last > highest:
            raise SegmentDamagedError(f"{path}: it has entries that the store does not have")
        if self._with_times != (head.columns[_TIMES].shape != [0]):
            raise SegmentDamagedError(f"{path}: it was made with another window")
        check_columns(path, head)
        return SegmentFile(path, head)


_TIMES: Final = 4
"""The number of the column of times."""
