"""Rows of entries: written for a whole packet at once, read one at a time or by their thousands.

The value of an entry has its numbers, fingerprint and digest at fixed places, and behind them what
differs in length::

    version (1)  words (1)  undecidable (1)  fingerprint (8 × words)  content digest (16)
    source (4)  offset (8)  event time (8)  bytes of the id (4)  bytes of the sketch (4)
    id  sketch

Numbers are little-endian. ``undecidable`` is 0, or why the document is (``REASON_CODES``): its
fingerprint is zero then. ``source`` is the number of the raw partition in this store.
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


class EntryRows(NamedTuple):
    """Keys and values, in step."""

    keys: list[bytes]
    values: list[bytes]


class Fingerprints(NamedTuple):
    """Of decidable entries: ``sequences`` uint64 (n,), ``words`` uint64 (n, bits / 64)."""

    sequences: NDArray[np.uint64]
    words: NDArray[np.uint64]


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
            ("source", "<u4"),
            ("offset", "<i8"),
            ("time_ms", "<i8"),
            ("id_bytes", "<u4"),
            ("sketch_bytes", "<u4"),
        ]
    )


@cache
def _layout(words: int) -> struct.Struct:
    """Return the same for one entry."""
    return struct.Struct(f"<BBB{words * WORD_BYTES}s{DIGEST_BYTES}sIqqII")


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
    fixed["offset"] = columns.offsets
    fixed["time_ms"] = columns.times_ms
    fixed["id_bytes"] = np.diff(columns.ids.bounds)
    fixed["sketch_bytes"] = np.diff(columns.sketches.bounds)
    all_keys, all_fixed = keys.tobytes(), fixed.tobytes()
    size, key_size = fixed.itemsize, keys.itemsize
    return EntryRows(
        [all_keys[at : at + key_size] for at in range(0, len(all_keys), key_size)],
        [
            all_fixed[at : at + size] + document_id + sketch
            for at, document_id, sketch in zip(
                range(0, len(all_fixed), size), columns.ids, columns.sketches, strict=True
            )
        ],
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
            sketch_bytes,
        ) = layout.unpack_from(value)
        id_end = layout.size + id_bytes
        if len(value) != id_end + sketch_bytes:
            raise StateDecodeError(f"the entry in {shown(value)} has {len(value)} bytes")
        name = sources[source]
        document_id = value[layout.size : id_end].decode()
    except (struct.error, KeyError, UnicodeDecodeError) as error:
        raise StateDecodeError(f"the entry in {shown(value)} cannot be read: {error}") from error
    return Entry(
        SourcePosition(name.topic, name.partition, offset),
        document_id,
        time_ms,
        b"" if undecidable else fingerprint,
        digest,
        value[id_end:],
    )


def read_fingerprints(keys: Sequence[bytes], values: Sequence[bytes], words: int) -> Fingerprints:
    """Return the fingerprints of rows of entries, without decoding any.

    Raises ``StateDecodeError`` for what is no such row, or has a fingerprint of another width. What
    differs in length is not looked at: it is read when the entry is.
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
    decidable = rows["undecidable"] == 0
    sequences = np.frombuffer(all_keys, dtype=_KEY)["sequence"].astype(np.uint64)
    fingerprints = np.frombuffer(rows["fingerprint"].tobytes(), dtype=np.uint64)
    return Fingerprints(sequences[decidable], fingerprints.reshape(len(values), words)[decidable])


def _refuse(keys: Sequence[bytes], values: Sequence[bytes], size: int) -> None:
    """Raise ``StateDecodeError`` for the first row that is too short or has no key of an entry."""
    for key, value in zip(keys, values, strict=True):
        entry_sequence(key)
        _check_head(value)
        if len(value) < size:
            raise StateDecodeError(f"the entry in {shown(value)} ends early")


def _check_head(value: bytes) -> None:
    if len(value) < _HEAD_BYTES or value[0] != FORMAT_VERSION:
        raise StateDecodeError(f"the entry in {shown(value)} is not of version {FORMAT_VERSION}")


def _as_void(rows: NDArray[np.uint64] | NDArray[np.uint8]) -> NDArray[np.void]:
    """Return each row as one item of its bytes."""
    width = rows.shape[1] * rows.itemsize
    return np.ascontiguousarray(rows).view(f"V{width}").reshape(len(rows))
