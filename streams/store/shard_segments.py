"""The segment files of one shard: which exist, which are missing, and how they are made.

::

    <directory of the shard>/segments/<first>-<last>.segment      sequence numbers, 16 hex digits

The files cover entries without a gap, from the first sequence number to the last of the last file.
Later entries are in memory only, and are read from the store's rows when the shard is opened.
"""

from __future__ import annotations

import logging
import mmap
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import numpy as np
import xxhash
from numpy.typing import NDArray

from simhash_core.errors import ErrorReason, FirstseenError, UsageError
from simhash_core.fingerprints.blocks import BlockScheme
from simhash_core.index.memtable import Rows, joined
from simhash_core.index.packed_columns import ROWS_LIMIT
from simhash_core.index.segment import (
    Column,
    Layout,
    Segment,
    build_segment,
    columns_of,
    segment_of,
)
from streams.store.row_codec import EntryPrints

# ---- A segment of the index in a file (docs/formats.md, "Segment files").
#
# ::
#
#     magic (8)  bytes of the head (4)  XXH3-64 of the head (8)  head (MessagePack)
#     columns, each from a multiple of 64 on
#
# The head has the owner, the range of entries, and the type, shape, place and checksum of each
# column. Numbers are little-endian. A file never changes: it is written under another name, then
# renamed. Columns are mapped into memory, so the operating system reads and caches what look-ups
# touch.
#
# A file is derived from the rows of the store, so one that is damaged, of another version or of
# another index is deleted and made again.

MAGIC: Final = b"fsseg\x00\x00\x02"  # the last byte is the version of the format

_NUMBER_BYTES: Final = 8
_LENGTH_BYTES: Final = 4
_ALIGNED: Final = 64
_READ_BYTES: Final = 4 << 20
_HEAD_AT: Final = len(MAGIC) + _LENGTH_BYTES + _NUMBER_BYTES
_TYPES: Final = ("|u1", "<u2", "<u4", "<u8", "<i8")


class SegmentDamagedError(FirstseenError):
    reason = ErrorReason.FORMAT


class SegmentOwner(msgspec.Struct, frozen=True, array_like=True):
    """The owner of a segment; ``identity`` is the index's, ``partition`` the raw topic's."""

    identity: str
    application_id: str
    partition: int


class StoredColumn(msgspec.Struct, frozen=True, array_like=True):
    """The place of a column in the file; ``checksum`` is XXH3-64 of its bytes."""

    name: str
    dtype: str
    shape: list[int]
    start: int
    checksum: int


class SegmentHead(msgspec.Struct, frozen=True, array_like=True):
    """A file with all entries from ``first`` to ``last``, of which ``documents`` are decidable."""

    owner: SegmentOwner
    first: int
    last: int
    documents: int
    block_shift: int
    band_shift: int
    tag_distance: int
    range_tag_bits: int
    columns: list[StoredColumn]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(SegmentHead).decode


def write_segment(
    path: Path, owner: SegmentOwner, first: int, last: int, segment: Segment, *, with_times: bool
) -> int:
    """Write a segment file, all or nothing; return its size in bytes. Raises ``OSError``."""
    layout, columns = columns_of(segment, with_times=with_times)
    arrays = {name: _little_endian(column) for name, column in columns.items()}
    stored = _placed(owner, first, last, layout, arrays)
    head = _encode(stored)
    beside = path.with_suffix(".writing")
    with beside.open("wb") as file:
        file.write(MAGIC)
        file.write(len(head).to_bytes(_LENGTH_BYTES, "little"))
        file.write(xxhash.xxh3_64_intdigest(head).to_bytes(_NUMBER_BYTES, "little"))
        file.write(head)
        for column in stored.columns:
            file.seek(column.start)
            file.write(_bytes_of(arrays[column.name]))
        file.truncate(_end(stored))
        file.flush()
        os.fsync(file.fileno())
    beside.rename(path)
    return _end(stored)


def read_head(path: Path) -> SegmentHead:
    """Read and check the head. Raises ``SegmentDamagedError`` and ``OSError``."""
    with path.open("rb") as file:
        start = file.read(_HEAD_AT)
        if start[: len(MAGIC)] != MAGIC or len(start) < _HEAD_AT:
            raise SegmentDamagedError(f"{path}: no segment of version {MAGIC[-1]}")
        size = int.from_bytes(start[len(MAGIC) : len(MAGIC) + _LENGTH_BYTES], "little")
        head = file.read(size)
        end = file.seek(0, os.SEEK_END)
    if xxhash.xxh3_64_digest(head) != start[-_NUMBER_BYTES:][::-1]:
        raise SegmentDamagedError(f"{path}: the head is damaged")
    try:
        decoded = _decode(head)
    except msgspec.DecodeError as error:
        raise SegmentDamagedError(f"{path}: the head cannot be read: {error}") from error
    if _end(decoded) != end:
        raise SegmentDamagedError(f"{path}: {end} bytes, and {_end(decoded)} are said to be there")
    return decoded


def check_columns(path: Path, head: SegmentHead) -> None:
    """Check the checksums of all columns. Raises ``SegmentDamagedError`` and ``OSError``."""
    with path.open("rb", buffering=0) as file:
        for column in head.columns:
            file.seek(column.start)
            left = _size(column)
            digest = xxhash.xxh3_64()
            while left:
                part = file.read(min(left, _READ_BYTES))
                if not part:
                    break
                digest.update(part)
                left -= len(part)
            if left or digest.intdigest() != column.checksum:
                raise SegmentDamagedError(f"{path}: the column {column.name} is damaged")


def map_segment(path: Path, head: SegmentHead, scheme: BlockScheme, slot: int) -> Segment:
    """Map a file's segment, in one slot of an index; raise ``SegmentDamagedError``, ``OSError``."""
    with path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    columns = {each.name: _mapped(mapped, each) for each in head.columns}
    layout = Layout(
        head.documents, head.block_shift, head.band_shift, head.tag_distance, head.range_tag_bits
    )
    try:
        return segment_of(scheme, slot, layout, columns)
    except (UsageError, ValueError) as error:
        raise SegmentDamagedError(f"{path}: {error}") from error


def _mapped(mapped: mmap.mmap, column: StoredColumn) -> Column:
    if column.dtype not in _TYPES:
        raise SegmentDamagedError(f"the column {column.name} has the type {column.dtype}")
    count = int(np.prod(column.shape))
    flat: NDArray[np.unsignedinteger] = np.frombuffer(
        mapped, dtype=np.dtype(column.dtype), count=count, offset=column.start
    )
    return flat.reshape(column.shape)


def _placed(
    owner: SegmentOwner, first: int, last: int, layout: Layout, arrays: dict[str, Column]
) -> SegmentHead:
    """Return the head with the place of each column, which depends on the head's own size."""
    stored = [
        StoredColumn(
            name,
            array.dtype.str,
            list(array.shape),
            2**63,  # as long as any place in MessagePack
            xxhash.xxh3_64_intdigest(_bytes_of(array)),
        )
        for name, array in arrays.items()
    ]
    head = SegmentHead(owner, first, last, *layout, stored)
    start = _HEAD_AT + len(_encode(head))
    placed = []
    for column in stored:
        start = -(-start // _ALIGNED) * _ALIGNED
        placed.append(msgspec.structs.replace(column, start=start))
        start += _size(column)
    return msgspec.structs.replace(head, columns=placed)


def _size(column: StoredColumn) -> int:
    return int(np.prod(column.shape)) * np.dtype(column.dtype).itemsize


def _end(head: SegmentHead) -> int:
    last = head.columns[-1]
    return last.start + _size(last)


def _little_endian(column: Column) -> Column:
    contiguous = np.ascontiguousarray(column)
    return contiguous.astype(contiguous.dtype.newbyteorder("<"), copy=False)


def _bytes_of(array: Column) -> memoryview | bytes:
    return array.reshape(-1).view(np.uint8).data if array.size else b""


logger = logging.getLogger(__name__)

DIRECTORY: Final = "segments"
FILE_DOCUMENTS: Final = 1 << 18  # new documents of a shard that are worth a file

FILE_BYTES_LIMIT: Final = 3 << 27
"""The rough limit of a file; it bounds the memory and the time of a merge."""

_SUFFIX: Final = ".segment"
_BUCKET_BYTES: Final = 6
_MERGED_FILES: Final = 4


class SegmentFile(NamedTuple):
    path: Path
    head: SegmentHead


def segment_paths(store: Path) -> list[Path]:
    return sorted((store / DIRECTORY).glob(f"*{_SUFFIX}"))


def documents_limit(scheme: BlockScheme) -> int:
    a_document = 2 + scheme.bits // 8 + scheme.all_buckets * _BUCKET_BYTES
    documents = max(FILE_BYTES_LIMIT // a_document, FILE_DOCUMENTS)
    return min(documents, ROWS_LIMIT - FILE_DOCUMENTS)  # a file may be somewhat longer


class ShardSegments:
    """Blocking, for one thread. ``tail`` has unfiled documents until they are in the index."""

    def __init__(
        self, shard: Path, owner: SegmentOwner, scheme: BlockScheme, *, with_times: bool = False
    ) -> None:
        self.scheme = scheme
        self.files: list[SegmentFile] = []
        self.tail: list[EntryPrints] = []
        self._store = shard
        self._directory = shard / DIRECTORY
        self._owner = owner
        self._with_times = with_times

    @property
    def next(self) -> int:
        return self.files[-1].head.last + 1 if self.files else 0

    def find(self, highest: int, expired_before: int = 0) -> None:
        """Find the valid files; delete the others, and all files after a gap.

        ``highest`` is the store's highest sequence number: a file beyond it belongs to a deleted
        store. Entries below ``expired_before`` need no file.
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
        # Where files overlap, as after an interrupted merge, take the one that covers more.
        segments.sort(key=lambda each: (each.head.first, -each.head.last))
        for each in segments:
            start = self.next if self.files else expired_before
            if each.head.first == start or (not self.files and each.head.first < start):
                self.files.append(each)
            else:
                each.path.unlink(missing_ok=True)

    def map(self, file: SegmentFile, slot: int) -> Segment:
        """Raises ``SegmentDamagedError`` and ``OSError``."""
        return map_segment(file.path, file.head, self.scheme, slot)

    def write(self, rows: Iterable[Rows], first: int, last: int) -> SegmentFile | None:
        """Write a file for the entries from ``first`` to ``last``; None without documents."""
        parts = [each for each in rows if each.documents]
        if not parts:
            return None
        segment = build_segment(self.scheme, joined(parts))
        path = self._directory / f"{first:016x}-{last:016x}{_SUFFIX}"
        self._directory.mkdir(exist_ok=True)
        write_segment(path, self._owner, first, last, segment, with_times=self._with_times)
        return SegmentFile(path, read_head(path))

    def taken(self, file: SegmentFile) -> None:
        kept = []
        for each in self.files:
            if file.head.first <= each.head.first and each.head.last <= file.head.last:
                if each.path != file.path:
                    each.path.unlink(missing_ok=True)
            else:
                kept.append(each)
        self.files = sorted([*kept, file], key=lambda each: each.head.first)

    def drop_before(self, sequence: int) -> None:
        """Delete files whose entries are all below ``sequence``, but never the last file."""
        while len(self.files) > 1 and self.files[0].head.last < sequence:
            self.files.pop(0).path.unlink(missing_ok=True)

    def to_merge(self) -> Sequence[SegmentFile]:
        """Return adjacent files that should be merged, () for none."""
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


_TIMES: Final = 4  # the index of the column of times
