"""A segment of the index in a file (docs/formats.md, "Segment files").

::

    magic (8)  bytes of the head (4)  XXH3-64 of the head (8)  head (MessagePack)
    columns, each from a multiple of 64 on

The head says whose the segment is, which entries it covers, and of each column its type, shape,
place and checksum. Numbers are little-endian. Nothing in a file is changed: it is written beside,
and renamed. Columns are mapped into memory, so that the operating system reads what look-ups touch,
and keeps it as long as there is room.

A file is derived from the rows of the store: one that is damaged, of another version or of another
index is deleted and made again.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
import xxhash
from numpy.typing import NDArray

from simhash_core.errors import ErrorReason, FirstseenError, UsageError
from simhash_core.fingerprints.blocks import BlockScheme
from simhash_core.index.segment import Segment
from simhash_core.index.segment_columns import Column, Layout, columns_of, segment_of

MAGIC: Final = b"fsseg\x00\x00\x02"
"""The last byte is the version of the format."""

_NUMBER_BYTES: Final = 8
_LENGTH_BYTES: Final = 4
_ALIGNED: Final = 64
_READ_BYTES: Final = 4 << 20
_HEAD_AT: Final = len(MAGIC) + _LENGTH_BYTES + _NUMBER_BYTES
_TYPES: Final = ("|u1", "<u2", "<u4", "<u8", "<i8")


class SegmentDamagedError(FirstseenError):
    """A segment file that is damaged, of another version, or not of this index."""

    reason = ErrorReason.FORMAT


class SegmentOwner(msgspec.Struct, frozen=True, array_like=True):
    """Whose a segment is. ``identity``: of the index. ``partition``: of the raw topic."""

    identity: str
    application_id: str
    partition: int


class StoredColumn(msgspec.Struct, frozen=True, array_like=True):
    """Where a column is. ``start``: in the file. ``checksum``: XXH3-64 of its bytes."""

    name: str
    dtype: str
    shape: list[int]
    start: int
    checksum: int


class SegmentHead(msgspec.Struct, frozen=True, array_like=True):
    """What a file says of itself: all entries from ``first`` to ``last`` are in it.

    Both are sequence numbers; ``documents`` are the decidable ones among the entries.
    """

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
    """Write a segment to a file, whole or not at all; return its bytes. Raises ``OSError``."""
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
    """Return what a file says of itself. Raises ``SegmentDamagedError`` and ``OSError``."""
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
    """Compare all columns with their checksums. Raises ``SegmentDamagedError`` and ``OSError``."""
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
    """Return the segment in a file, mapped into memory, its documents in one slot of an index.

    Raises ``SegmentDamagedError`` and ``OSError``.
    """
    with path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    columns = {each.name: _mapped(mapped, each) for each in head.columns}
    layout = Layout(
        head.documents,
        head.block_shift,
        head.band_shift,
        head.tag_distance,
        head.range_tag_bits,
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
    """Return the head, with the place of each column: where it ends depends on its own size."""
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
