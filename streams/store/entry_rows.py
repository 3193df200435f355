"""Rows of entries: written for a whole packet at once, read one at a time or by their thousands.

The value of an entry has its numbers, fingerprint and digest at fixed places, and behind them what
differs in length::

    version (1)  words (1)  undecidable (1)  fingerprint (8 × words)  content digest (16)
    source (2)  offset (8)  event time (8)  bytes of the id (2)
    id  sketch
    scope  bytes of the scope (2)

Numbers are little-endian. ``undecidable`` is 0, or why the document is (``REASON_CODES``): its
fingerprint is zero then; its highest bit says that there is a scope, and without it the last line
is not there. ``source`` is the number of the raw partition in this store.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simhash_core.documents import SourcePosition
from simhash_core.entries import Entry
from simhash_core.index.prints import BAND_KEY_BYTES, NO_BAND, Prints
from streams.store.columns_codec import DIGEST_BYTES, WORD_BYTES
from streams.store.entry_block import EntryBlock
from streams.store.state_codec import (
    ENTRY_TAG,
    FORMAT_VERSION,
    SourceName,
    StateDecodeError,
    entry_sequence,
    shown,
)

_KEY: Final = np.dtype([("tag", "S1"), ("sequence", ">u8")])
_HEAD_BYTES: Final = 3
_HAS_SCOPE: Final = 0x80
_LENGTH_BYTES: Final = 2
SOURCES_LIMIT: Final = 1 << 16
"""Raw partitions that the entries of a store can have come from."""


class EntryRows(NamedTuple):
    """Keys and values, in step."""

    keys: list[bytes]
    values: list[bytes]


class EntryPrints(NamedTuple):
    """Of decidable entries: ``sequences`` uint64 (n,), and what the index holds of them."""

    sequences: NDArray[np.uint64]
    prints: Prints


@cache
def _fixed(words: int) -> np.dtype[np.void]:
    """Return what stands at fixed places in a value."""
    return np.dtype(
        [
            ("version", "u1"),
            ("words", "u1"),
            ("undecidable", "u1"),
            ("fingerprint", f"V{words * WORD_BYTES}"),
            ("digest", f"V{DIGEST_BYTES}"),
            ("source", "<u2"),
            ("offset", "<i8"),
            ("time_ms", "<i8"),
            ("id_bytes", "<u2"),
        ]
    )


@cache
def _layout(words: int) -> struct.Struct:
    """Return the same for one entry."""
    return struct.Struct(f"<BBB{words * WORD_BYTES}s{DIGEST_BYTES}sHqqH")


def encode_entry_rows(block: EntryBlock, source: int) -> EntryRows:
    """Return the rows of entries, whose raw partition has this number in the store."""
    columns = block.columns
    count, words = columns.fingerprints.shape
    keys = np.empty(count, dtype=_KEY)
    keys["tag"] = ENTRY_TAG
    keys["sequence"] = block.sequences
    fixed = np.zeros(count, dtype=_fixed(words))
    fixed["version"] = FORMAT_VERSION
    fixed["words"] = words
    fixed["undecidable"] = columns.undecidable
    fixed["fingerprint"] = _as_void(columns.fingerprints)
    fixed["digest"] = _as_void(columns.digests)
    fixed["source"] = source
    scopes = [] if columns.scopes is None else list(columns.scopes)
    for row in (row for row, scope in enumerate(scopes) if scope):
        fixed["undecidable"][row] |= _HAS_SCOPE
    fixed["offset"] = columns.offsets
    fixed["time_ms"] = columns.times_ms
    fixed["id_bytes"] = np.diff(columns.ids.bounds)
    all_keys, all_fixed = keys.tobytes(), fixed.tobytes()
    size, key_size = fixed.itemsize, keys.itemsize
    values = [
        all_fixed[at : at + size] + document_id + sketch
        for at, document_id, sketch in zip(
            range(0, len(all_fixed), size), columns.ids, columns.sketches, strict=True
        )
    ]
    for row, scope in enumerate(scopes):
        if scope:
            values[row] += scope + len(scope).to_bytes(_LENGTH_BYTES, "little")
    return EntryRows(
        [all_keys[at : at + key_size] for at in range(0, len(all_keys), key_size)], values
    )


def decode_entry(value: bytes, sources: Mapping[int, SourceName]) -> Entry:
    """Return the entry in a value; ``sources``: raw partitions by number.

    Raises ``StateDecodeError``.
    """
    _check_head(value)
    layout = _layout(value[1])
    try:
        (
            _,
            _,
            undecidable,
            fingerprint,
            digest,
            source,
            offset,
            time_ms,
            id_bytes,
        ) = layout.unpack_from(value)
        id_end = layout.size + id_bytes
        sketch_end, scope_end = len(value), len(value)
        if undecidable & _HAS_SCOPE:
            scope_end -= _LENGTH_BYTES
            sketch_end = scope_end - int.from_bytes(value[scope_end:], "little")
        if sketch_end < id_end:
            raise StateDecodeError(f"the entry in {shown(value)} has {len(value)} bytes")
        name = sources[source]
        document_id = value[layout.size : id_end].decode()
        scope = value[sketch_end:scope_end].decode()
    except (struct.error, KeyError, UnicodeDecodeError) as error:
        raise StateDecodeError(f"the entry in {shown(value)} cannot be read: {error}") from error
    return Entry(
        SourcePosition(name.topic, name.partition, offset),
        document_id,
        time_ms,
        b"" if undecidable & ~_HAS_SCOPE else fingerprint,
        digest,
        value[id_end:sketch_end],
        scope,
    )


def read_prints(
    keys: Sequence[bytes], values: Sequence[bytes], words: int, bands: int = 0
) -> EntryPrints:
    """Return the prints of rows of entries, without decoding any; ``bands``: of a sketch.

    Raises ``StateDecodeError`` for what is no such row, or has a fingerprint of another width. What
    differs in length is not looked at, but for the bands: it is read when the entry is.
    """
    fixed = _fixed(words)
    size = fixed.itemsize
    joined = b"".join([value[:size] for value in values])
    all_keys = b"".join(keys)
    # None of the slices is longer than it must be: where their sum is right, each is.
    if len(joined) != size * len(values) or len(all_keys) != _KEY.itemsize * len(keys):
        _refuse(keys, values, size)
    rows = np.frombuffer(joined, dtype=fixed)
    if np.any(rows["version"] != FORMAT_VERSION) or np.any(rows["words"] != words):
        at = int(np.flatnonzero((rows["version"] != FORMAT_VERSION) | (rows["words"] != words))[0])
        _check_head(values[at])
        raise StateDecodeError(
            f"entry {entry_sequence(keys[at])} has a fingerprint of {values[at][1] * 64} bits, and "
            f"here they have {words * 64}"
        )
    decidable = np.flatnonzero(rows["undecidable"] & ~np.uint8(_HAS_SCOPE) == 0)
    sequences = np.frombuffer(all_keys, dtype=_KEY)["sequence"].astype(np.uint64)
    fingerprints = np.frombuffer(rows["fingerprint"].tobytes(), dtype=np.uint64)
    prints = Prints(
        fingerprints.reshape(len(values), words)[decidable],
        _bands(rows[decidable], [values[at] for at in decidable.tolist()] if bands else (), bands),
        rows["time_ms"][decidable].astype(np.int64),
    )
    return EntryPrints(sequences[decidable], prints)


def _bands(rows: NDArray[np.void], values: Sequence[bytes], bands: int) -> NDArray[np.uint32]:
    """Return the keys of bands, which stand at the end of each sketch."""
    size = bands * BAND_KEY_BYTES
    sketches = rows.dtype.itemsize + rows["id_bytes"].astype(np.intp)
    scoped = (rows["undecidable"] & _HAS_SCOPE) != 0
    ends = np.fromiter(map(len, values), dtype=np.intp, count=len(values))
    if bands and len(rows) and not scoped.any() and np.all(ends - size >= sketches):
        joined = b"".join([value[-size:] for value in values])
        return np.frombuffer(joined, dtype="<u4").reshape(len(rows), bands)
    keys = np.full((len(rows), bands), NO_BAND, dtype=np.uint32)
    for row, (value, start) in enumerate(zip(values, sketches.tolist(), strict=False)):
        end = len(value)
        if scoped[row]:
            end -= _LENGTH_BYTES + int.from_bytes(value[-_LENGTH_BYTES:], "little")
        if end - size >= start:
            keys[row] = np.frombuffer(value, dtype="<u4", count=bands, offset=end - size)
    return keys


def _refuse(keys: Sequence[bytes], values: Sequence[bytes], size: int) -> None:
    """Raise ``StateDecodeError`` for the first row that is too short or has no key of an entry."""
    for key, value in zip(keys, values, strict=True):
        entry_sequence(key)
        _check_head(value)
        if len(value) < size:
            raise StateDecodeError(f"the entry in {shown(value)} ends early")


def sequences_in(keys: Sequence[bytes]) -> NDArray[np.uint64]:
    """Return the sequence numbers in keys of entries, uint64."""
    return np.frombuffer(b"".join(keys), dtype=_KEY)["sequence"].astype(np.uint64)


def ids_in(values: Sequence[bytes], words: int) -> list[bytes]:
    """Return the ids of rows of entries, in UTF-8, without decoding anything else."""
    size = _fixed(words).itemsize
    at = size - _LENGTH_BYTES
    return [value[size : size + value[at] + 256 * value[at + 1]] for value in values]


def is_undecidable(value: bytes) -> bool:
    """Return whether an entry has no fingerprint, without decoding it."""
    return bool(value[_HEAD_BYTES - 1] & ~_HAS_SCOPE)


def _check_head(value: bytes) -> None:
    if len(value) < _HEAD_BYTES or value[0] != FORMAT_VERSION:
        raise StateDecodeError(f"the entry in {shown(value)} is not of version {FORMAT_VERSION}")


def _as_void(rows: NDArray[np.uint64] | NDArray[np.uint8]) -> NDArray[np.void]:
    """Return each row as one item of its bytes."""
    width = rows.shape[1] * rows.itemsize
    return np.ascontiguousarray(rows).view(f"V{width}").reshape(len(rows))
