"""Segments of buckets as files beside a shard's database (docs/formats.md, "State on disk").

A file is derived from the entries in the database and never changed: one that is missing or damaged
costs time, not documents. The database holds the list of those that count, with a digest of each,
so a file is read only if it is, byte for byte, the one that was written for this state.

Files are mapped into memory: what is looked up often stays there, and the system takes the rest
away when it needs the room. Opening reads each file whole in the ordinary way first, so that a
damaged disk is met as an error there.
"""

from __future__ import annotations

import logging
import mmap
import os
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import numpy as np
import xxhash
from numpy.typing import NDArray

from simhash_core.bucket_segment import BucketSegment
from streams.state_codec import SegmentRecord

logger = logging.getLogger(__name__)

MAGIC: Final = b"fsbucket"
SEGMENT_FORMAT: Final = 1
_HEADER: Final = struct.Struct("<8s7Q")
"""Magic; format, documents, words of a fingerprint, rows, directory, keys, shift."""

_SUFFIX: Final = ".buckets"
_UNFINISHED: Final = ".unfinished"
_READ_BYTES: Final = 1 << 20
_ALIGNED_BYTES: Final = 8


class SegmentFileError(Exception):
    """A file that is not the segment that it should be; the message says why."""


def segment_name(first: int, record: SegmentRecord) -> str:
    """Return the name of a segment's file."""
    return f"{first:016x}-{record.digest.hex()[:16]}{_SUFFIX}"


def first_order(segment: BucketSegment) -> int:
    """Return the lowest order of the documents of a segment."""
    return int(segment.orders.min())


def write_segment(directory: Path, segment: BucketSegment, *, sync: bool) -> SegmentRecord:
    """Write a segment to its file, which appears whole or not at all. Raises ``OSError``."""
    directory.mkdir(exist_ok=True)
    first = first_order(segment)
    unfinished = directory / f"{first:016x}{_UNFINISHED}"
    digest = xxhash.xxh3_128()
    try:
        with unfinished.open("wb") as file:
            for part in _parts(segment):
                digest.update(part)
                file.write(part)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        record = SegmentRecord(segment.documents, int(segment.orders.max()), digest.digest())
        unfinished.rename(directory / segment_name(first, record))
    except OSError:
        unfinished.unlink(missing_ok=True)
        raise
    return record


def read_segment(directory: Path, first: int, record: SegmentRecord) -> BucketSegment:
    """Map the file of a segment. Raises ``SegmentFileError`` for one that is not as recorded."""
    path = directory / segment_name(first, record)
    try:
        with path.open("rb") as file:
            digest = xxhash.xxh3_128()
            while chunk := file.read(_READ_BYTES):
                digest.update(chunk)
            if digest.digest() != record.digest:
                raise SegmentFileError(f"{path}: its digest is not the one recorded")
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise SegmentFileError(f"{path}: {error.strerror or error}") from error
    return _mapped_segment(path, mapped)


def remove_others(directory: Path, kept: Iterable[str]) -> None:
    """Delete all files of segments but those named, also what a crash left half written."""
    names = set(kept)
    try:
        found = list(directory.iterdir()) if directory.exists() else []
        for path in found:
            if path.name not in names and path.suffix in {_SUFFIX, _UNFINISHED}:
                path.unlink(missing_ok=True)
    except OSError as error:
        # They are not in the list of those that count, so they only take room.
        logger.warning("%s: files of no more use cannot be deleted: %s", directory, error)


def bytes_on_disk(segment: BucketSegment) -> int:
    """Return the size of a segment's file."""
    return sum(len(part) for part in _parts(segment))


def _parts(segment: BucketSegment) -> list[bytes | memoryview]:
    """Return what a file holds: the header, and each column from a multiple of 8 bytes on."""
    documents, words = segment.fingerprints.shape
    header = _HEADER.pack(
        MAGIC,
        SEGMENT_FORMAT,
        documents,
        words,
        len(segment.rows),
        len(segment.directory),
        len(segment.keys),
        segment.shift,
    )
    parts: list[bytes | memoryview] = [header]
    columns = (
        segment.orders.astype("<u8", copy=False),
        segment.fingerprints,
        segment.rows.astype("<u4", copy=False),
        segment.directory.astype("<u4", copy=False),
        segment.keys.astype("<u4", copy=False),
    )
    for column in columns:
        if column.size:
            parts.append(np.ascontiguousarray(column).reshape(-1).view(np.uint8).data)
            parts.append(bytes(-column.nbytes % _ALIGNED_BYTES))
    return parts


def _mapped_segment(path: Path, mapped: mmap.mmap) -> BucketSegment:
    magic, form, documents, words, rows, directory, keys, shift = _HEADER.unpack_from(mapped)
    if (magic, form) != (MAGIC, SEGMENT_FORMAT):
        raise SegmentFileError(f"{path}: format {form} of {magic!r} is not read here")
    at = _HEADER.size

    def column(dtype: str, count: int) -> NDArray[np.generic]:
        nonlocal at
        values = np.frombuffer(mapped, dtype=dtype, count=count, offset=at)
        at += values.nbytes + -values.nbytes % _ALIGNED_BYTES
        return values

    orders = column("<u8", documents)
    fingerprints = column("=u8", documents * words).reshape(documents, words)
    return BucketSegment(
        shift,
        orders.astype(np.uint64, copy=False),
        fingerprints.astype(np.uint64, copy=False),
        column("<u4", rows).astype(np.uint32, copy=False),
        column("<u4", directory).astype(np.uint32, copy=False),
        column("<u4", keys).astype(np.uint32, copy=False),
    )
