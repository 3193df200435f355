"""Rows of entries in bulk: orders and fingerprints of thousands, without decoding any."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simhash_core.entries import Entry
from streams.state_codec import (
    ENTRY_HEAD_BYTES,
    ENTRY_TAG,
    ORDER_BYTES,
    ROW_VERSION,
    StateDecodeError,
    decode_entry,
    entry_order,
)

_KEY_BYTES: Final = len(ENTRY_TAG) + ORDER_BYTES


class EntryRows(NamedTuple):
    """What of entries is indexed.

    ``orders``: uint64; ``fingerprints``: uint64 words (rows, bits / 64); of documents that have
    one. ``undecidable``: order and entry of the others.
    """

    orders: NDArray[np.uint64]
    fingerprints: NDArray[np.uint64]
    undecidable: list[tuple[int, Entry]]


def read_entry_rows(keys: Sequence[bytes], values: Sequence[bytes], bits: int) -> EntryRows:
    """Return what is indexed of rows of entries, whose fingerprints have ``bits`` bits or none.

    Raises ``StateDecodeError`` for what is no such row. What follows a fingerprint is not looked
    at: it is read when the entry is.
    """
    undecidable: list[tuple[int, Entry]] = []
    width = bits // 8
    expected = bytes((ROW_VERSION, width))
    if any(value[:ENTRY_HEAD_BYTES] != expected for value in values):
        decided_keys: list[bytes] = []
        decided: list[bytes] = []
        for key, value in zip(keys, values, strict=True):
            if value[:ENTRY_HEAD_BYTES] == expected:
                decided_keys.append(key)
                decided.append(value)
                continue
            entry = decode_entry(value)
            if entry.fingerprint:
                raise StateDecodeError(
                    f"entry {entry_order(key)} has a fingerprint of {len(entry.fingerprint) * 8} "
                    f"bits, and here they have {bits}"
                )
            undecidable.append((entry_order(key), entry))
        keys, values = decided_keys, decided
    end = ENTRY_HEAD_BYTES + width
    fingerprints = b"".join([value[ENTRY_HEAD_BYTES:end] for value in values])
    joined = b"".join(keys)
    # None of the slices is longer than a fingerprint: where their sum is right, each is one.
    if len(fingerprints) != width * len(values) or set(map(len, keys)) - {_KEY_BYTES}:
        for key, value in zip(keys, values, strict=True):
            entry_order(key)
            decode_entry(value)
    columns = np.frombuffer(joined, dtype=np.uint8).reshape(len(keys), _KEY_BYTES)
    orders = np.ascontiguousarray(columns[:, len(ENTRY_TAG) :]).view(">u8").reshape(len(keys))
    return EntryRows(
        orders.astype(np.uint64),
        np.frombuffer(fingerprints, dtype=np.uint64).reshape(len(keys), width // 8),
        undecidable,
    )
