"""The segment files of a worker: which exist, which rows of each shard they have, their format.

::

    <state_dir>/<application id>/segments/<checksum of the head, 16 hex digits>.segment

A file has rows of all shards of the worker, so the number of files grows with the entries and not
with the shards. The store of each shard says which files have its entries, from the first sequence
number without a gap. Later entries are in memory only, and are read from the store's rows when the
shard is opened. Look-ups ignore rows of a shard whose store does not name the file; the next merge
drops them.
"""

from __future__ import annotations

import fcntl
import logging
import mmap
import os
import threading
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import numpy as np
import xxhash
from numpy.typing import NDArray

from simhash_core.errors import ErrorReason, FirstseenError, UsageError
from simhash_core.fingerprints.blocks import BlockScheme
from simhash_core.index.bucket_columns import ROWS_LIMIT
from simhash_core.index.segment import (
    Column,
    Layout,
    Segment,
    columns_of,
    segment_of,
)
from streams.store.row_codec import EntryPrints

# ---- A segment of the index in a file (docs/formats.md, "Segment files").
#
# A file never changes: it is written under another name, then renamed. Columns are mapped into
# memory, so the operating system reads and caches what look-ups touch. The checksum of the head,
# which has those of the columns, is the name of the file: a store that names a file never gets
# another one.

MAGIC: Final = b"fsseg\x00\x00\x03"  # the last byte is the version of the format

_NUMBER_BYTES: Final = 8
_LENGTH_BYTES: Final = 4
_ALIGNED: Final = 64
_READ_BYTES: Final = 4 << 20
_HEAD_AT: Final = len(MAGIC) + _LENGTH_BYTES + _NUMBER_BYTES
_TYPES: Final = ("|u1", "<u2", "<u4", "<u8", "<i8")


class SegmentDamagedError(FirstseenError):
    reason = ErrorReason.FORMAT


class SegmentOwner(msgspec.Struct, frozen=True, array_like=True):
    identity: str  # of the index
    application_id: str


class FiledShard(msgspec.Struct, frozen=True, array_like=True):
    """All entries of a raw partition in some ranges of sequence numbers, rising and separate."""

    partition: int
    ranges: list[tuple[int, int]]  # first and last


class StoredColumn(msgspec.Struct, frozen=True, array_like=True):
    name: str
    dtype: str
    shape: list[int]
    start: int  # in the file
    checksum: int  # XXH3-64 of its bytes

    @property
    def size(self) -> int:
        return int(np.prod(self.shape)) * np.dtype(self.dtype).itemsize

    @property
    def end(self) -> int:
        return self.start + self.size


class SegmentHead(msgspec.Struct, frozen=True, array_like=True):
    owner: SegmentOwner
    shards: list[FiledShard]
    documents: int  # the number of decidable ones
    block_shift: int
    band_shift: int
    tag_distance: int
    range_tag_bits: int
    columns: list[StoredColumn]

    @property
    def checksum(self) -> int:
        return xxhash.xxh3_64_intdigest(_encode(self))

    @property
    def end(self) -> int:
        return self.columns[-1].end

    def number(self, partition: int) -> int | None:
        """Return the number by which rows of the file name a shard, None if it has none."""
        numbers = (n for n, each in enumerate(self.shards) if each.partition == partition)
        return next(numbers, None)


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(SegmentHead).decode


def write_segment(
    directory: Path,
    owner: SegmentOwner,
    shards: Sequence[FiledShard],
    segment: Segment,
    *,
    with_times: bool,
) -> Path:
    """Write a file, all or nothing; slots are indexes of ``shards``. Raises ``OSError``."""
    layout, columns = columns_of(segment, with_times=with_times, shards=len(shards))
    arrays = {name: _little_endian(column) for name, column in columns.items()}
    stored = _placed(owner, shards, layout, arrays)
    head = _encode(stored)
    path = directory / f"{stored.checksum:016x}{_SUFFIX}"
    beside = path.with_suffix(_WRITING)
    with beside.open("wb") as file:
        file.write(MAGIC)
        file.write(len(head).to_bytes(_LENGTH_BYTES, "little"))
        file.write(stored.checksum.to_bytes(_NUMBER_BYTES, "little"))
        file.write(head)
        for column in stored.columns:
            file.seek(column.start)
            file.write(_bytes_of(arrays[column.name]))
        file.truncate(stored.end)
        file.flush()
        os.fsync(file.fileno())
    beside.rename(path)
    return path


def read_head(path: Path) -> SegmentHead:
    """Read and check the head. Raises ``SegmentDamagedError`` and ``OSError``."""
    with path.open("rb") as file:
        start = file.read(_HEAD_AT)
        if start[: len(MAGIC)] != MAGIC or len(start) < _HEAD_AT:
            raise SegmentDamagedError(f"{path}: not a segment of version {MAGIC[-1]}")
        size = int.from_bytes(start[len(MAGIC) : len(MAGIC) + _LENGTH_BYTES], "little")
        head = file.read(size)
        end = file.seek(0, os.SEEK_END)
    if xxhash.xxh3_64_digest(head) != start[-_NUMBER_BYTES:][::-1]:
        raise SegmentDamagedError(f"{path}: the head is damaged")
    try:
        decoded = _decode(head)
    except msgspec.DecodeError as error:
        raise SegmentDamagedError(f"{path}: the head cannot be read: {error}") from error
    if decoded.end != end:
        raise SegmentDamagedError(f"{path}: {end} bytes, but its head gives {decoded.end}")
    return decoded


def check_columns(path: Path, head: SegmentHead) -> None:
    """Check the checksums of all columns. Raises ``SegmentDamagedError`` and ``OSError``."""
    with path.open("rb", buffering=0) as file:
        for column in head.columns:
            file.seek(column.start)
            left = column.size
            digest = xxhash.xxh3_64()
            while left:
                part = file.read(min(left, _READ_BYTES))
                if not part:
                    break
                digest.update(part)
                left -= len(part)
            if left or digest.intdigest() != column.checksum:
                raise SegmentDamagedError(f"{path}: the column {column.name} is damaged")


def map_segment(path: Path, head: SegmentHead, scheme: BlockScheme) -> Segment:
    """Map a file's segment, without slots; raise ``SegmentDamagedError``, ``OSError``."""
    with path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    columns = {each.name: _mapped(mapped, each) for each in head.columns}
    layout = Layout(
        len(head.shards),
        head.documents,
        head.block_shift,
        head.band_shift,
        head.tag_distance,
        head.range_tag_bits,
    )
    try:
        return segment_of(scheme, layout, columns)
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
    owner: SegmentOwner,
    shards: Sequence[FiledShard],
    layout: Layout,
    arrays: dict[str, Column],
) -> SegmentHead:
    """Return the head with the offset of each column, which depends on the head's own size."""
    stored = [
        StoredColumn(
            name,
            array.dtype.str,
            list(array.shape),
            2**63,  # as long as any offset in MessagePack
            xxhash.xxh3_64_intdigest(_bytes_of(array)),
        )
        for name, array in arrays.items()
    ]
    head = SegmentHead(owner, [*shards], *layout[1:], stored)
    start = _HEAD_AT + len(_encode(head))
    placed = []
    for column in stored:
        start = -(-start // _ALIGNED) * _ALIGNED
        placed.append(msgspec.structs.replace(column, start=start))
        start += column.size
    return msgspec.structs.replace(head, columns=placed)


def _little_endian(column: Column) -> Column:
    contiguous = np.ascontiguousarray(column)
    return contiguous.astype(contiguous.dtype.newbyteorder("<"), copy=False)


def _bytes_of(array: Column) -> memoryview | bytes:
    return array.reshape(-1).view(np.uint8).data if array.size else b""


logger = logging.getLogger(__name__)

DIRECTORY: Final = "segments"
FILE_DOCUMENTS: Final = 1 << 18  # new documents of a worker for which a file is written

FILE_BYTES_LIMIT: Final = 3 << 27
"""The approximate limit of a file; it bounds the memory and the time of a merge."""

KEPT_SECONDS: Final = 300.0
"""How long a file keeps rows of a shard that is not open, as it may come back or open late."""

_SUFFIX: Final = ".segment"
_WRITING: Final = ".writing"
_LOCK: Final = "lock"
_BUCKET_BYTES: Final = 6
_MERGED_FILES: Final = 4
_locks: Final[dict[Path, int]] = {}  # of this process, until it ends


class SegmentFile(NamedTuple):
    path: Path
    head: SegmentHead
    checksum: int
    segment: Segment


class FiledRange(NamedTuple):
    """The record in a store that a file has all entries from ``first`` to ``last``."""

    first: int
    last: int
    checksum: int


def segments_directory(shard: Path) -> Path:
    """Return the directory for segment files of the worker that has the store in ``shard``."""
    return shard.with_name(DIRECTORY)


def segment_paths(directory: Path) -> list[Path]:
    return sorted(directory.glob(f"*{_SUFFIX}"))


def documents_limit(scheme: BlockScheme) -> int:
    a_document = 2 + scheme.bits // 8 + scheme.all_buckets * _BUCKET_BYTES
    documents = max(FILE_BYTES_LIMIT // a_document, FILE_DOCUMENTS)
    return min(documents, ROWS_LIMIT - FILE_DOCUMENTS)  # a file may be slightly longer


class WorkerSegments:
    """The segment files of one worker. ``find`` and ``write`` block; any thread may call them."""

    def __init__(
        self, directory: Path, owner: SegmentOwner, scheme: BlockScheme, *, with_times: bool = False
    ) -> None:
        self.scheme = scheme
        self.files: dict[int, SegmentFile] = {}
        self._directory = directory
        self._owner = owner
        self._with_times = with_times
        self._lock = threading.Lock()
        self._unread: list[Path] | None = None  # None: the directory is not listed yet
        self._seen: dict[int, float] = {}
        self._read_at = 0.0

    def find(
        self, partition: int, interrupted: threading.Event | None = None
    ) -> Mapping[int, SegmentFile]:
        """Return the valid files by checksum and delete the others; raise ``InterruptedError``."""
        with self._lock:
            self.note(partition)
            if self._unread is None:
                self._read_at = time.monotonic()
                self._unread = self._listed()
            while self._unread:
                if interrupted is not None and interrupted.is_set():
                    raise InterruptedError
                self._read(self._unread.pop())
            return self.files

    def _listed(self) -> list[Path]:
        if not self._directory.exists() or not self._is_locked():
            return []
        for path in self._directory.glob(f"*{_WRITING}"):
            path.unlink(missing_ok=True)
        return segment_paths(self._directory)

    def _read(self, path: Path) -> None:
        try:
            file = self._checked(path)
            self.files[file.checksum] = file
        except (SegmentDamagedError, OSError) as error:
            logger.warning("rebuilding a segment file: %s", error)
            path.unlink(missing_ok=True)

    def _is_locked(self) -> bool:
        """Return whether this process has the lock on the files, which it keeps until its end."""
        path = self._directory / _LOCK
        if path in _locks:
            return True
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            logger.warning("%s: another process uses it, so its files are not used", path.parent)
            return False
        _locks[path] = descriptor
        return True

    def _checked(self, path: Path) -> SegmentFile:
        head = read_head(path)
        if head.owner != self._owner:
            raise SegmentDamagedError(f"{path}: it is of another index")
        if self._with_times != (head.columns[_TIMES].shape != [0]):
            raise SegmentDamagedError(f"{path}: it was made with another window")
        check_columns(path, head)
        return SegmentFile(path, head, head.checksum, map_segment(path, head, self.scheme))

    def write(self, segment: Segment, shards: Sequence[FiledShard]) -> SegmentFile:
        """Write a file; the slots of ``segment`` are indexes of ``shards``. Raises ``OSError``."""
        self._directory.mkdir(parents=True, exist_ok=True)
        if not self._is_locked():
            raise OSError(f"{self._directory}: another process uses it")
        path = write_segment(
            self._directory, self._owner, shards, segment, with_times=self._with_times
        )
        head = read_head(path)
        file = SegmentFile(path, head, head.checksum, map_segment(path, head, self.scheme))
        self.files[file.checksum] = file
        return file

    def delete(self, file: SegmentFile) -> None:
        """Delete a file; it stays readable where it is mapped."""
        if self.files.pop(file.checksum, None) is not None:
            file.path.unlink(missing_ok=True)

    # ---- which files to merge, on the event loop

    def note(self, partition: int) -> None:
        """Note that this worker has a shard."""
        self._seen[partition] = time.monotonic()

    def is_settled(self, file: SegmentFile, here: Collection[int]) -> bool:
        """Whether no shard of the file, apart from those ``here``, may want its rows again."""
        before = time.monotonic() - KEPT_SECONDS
        return all(
            each.partition in here or self._seen.get(each.partition, self._read_at) < before
            for each in file.head.shards
        )

    def to_merge(self, documents: Mapping[int, int]) -> Sequence[SegmentFile]:
        """Return files of similar size to merge into one, () for none.

        ``documents`` are those in the index, by checksum of the files that may be merged. A file
        that mostly has rows of shards that left, or expired rows, is merged alone.
        """
        sizes = sorted(documents.values())
        files = [self.files[each] for each in sorted(documents, key=documents.__getitem__)]
        for size, file in zip(sizes, files, strict=True):
            if 2 * size <= file.head.documents:
                return [file]
        limit = documents_limit(self.scheme)
        for stop in range(_MERGED_FILES, len(sizes) + 1):
            run = sizes[stop - _MERGED_FILES : stop]
            if run[-1] < _MERGED_FILES * run[0] and sum(run) <= limit:
                return files[stop - _MERGED_FILES : stop]
        return ()


class FiledClaim(NamedTuple):
    first: int
    last: int
    file: SegmentFile


class ShardSegments:
    """What the files have of one shard; ``tail`` has its other entries until they are indexed."""

    def __init__(self, files: WorkerSegments, partition: int) -> None:
        self.files = files
        self.partition = partition
        self.claims: list[FiledClaim] = []
        self.tail: list[EntryPrints] = []
        self.next = 0

    def find(
        self,
        filed: Sequence[FiledRange],
        highest: int,
        expired_before: int,
        interrupted: threading.Event | None,
    ) -> None:
        """Find which files have entries of the shard; nothing after a gap counts.

        ``filed`` are the ranges that the store has recorded; they cannot be right above
        ``highest``, its highest sequence number. Entries below ``expired_before`` need no file.
        """
        self.claims, self.next = [], 0
        files = self.files.find(self.partition, interrupted)
        for first, last, checksum in sorted(filed):
            if last < expired_before:
                continue
            file = files.get(checksum)
            is_next = first == self.next if self.claims else first <= expired_before
            if file is None or not is_next or last > highest:
                break
            number = file.head.number(self.partition)
            if number is None or (first, last) not in file.head.shards[number].ranges:
                break
            self.claims.append(FiledClaim(first, last, file))
            self.next = last + 1

    def ranges_in(self, files: Collection[SegmentFile], after: int = 0) -> list[tuple[int, int]]:
        """Return the ranges in some files from ``after`` on, with adjacent ranges joined."""
        checksums = {each.checksum for each in files}
        ranges: list[tuple[int, int]] = []
        for first, last, file in self.claims:
            if file.checksum not in checksums or last < after:
                continue
            if ranges and ranges[-1][1] + 1 == first:
                ranges[-1] = ranges[-1][0], last
            else:
                ranges.append((first, last))
        return ranges

    def taken(self, file: SegmentFile, ranges: Iterable[tuple[int, int]]) -> None:
        """Record that a new file has these ranges."""
        claims = [*self.claims, *(FiledClaim(*each, file) for each in ranges)]
        self.claims = sorted(claims, key=lambda each: each.first)
        self.next = max(self.next, self.claims[-1].last + 1)

    def filed(self) -> list[FiledRange]:
        """Return the ranges that the store should record."""
        return [FiledRange(first, last, file.checksum) for first, last, file in self.claims]

    def remove(self, files: Collection[SegmentFile]) -> None:
        checksums = {each.checksum for each in files}
        self.claims = [each for each in self.claims if each.file.checksum not in checksums]


_TIMES: Final = 5  # the index of the column of times
