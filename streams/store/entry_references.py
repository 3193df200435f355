"""Rows that lead to entries: by content, and by id.

A row has a list of sequence numbers: several entries can have one content, in other scopes or too
far apart in time to be near, and several ids can have one digest.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from rocksdict import WriteBatch

from streams.store import state_codec as codec

GetNumbers = Callable[[bytes], list[int]]
"""Returns the sequence numbers in the row of a key, [] where there is none."""


class ReferenceChanges:
    """What one batch changes in such rows; each is read once, and written once."""

    def __init__(self, numbers: GetNumbers) -> None:
        """``numbers`` reads the rows as they are before the batch."""
        self._numbers = numbers
        self._changed: dict[bytes, list[int]] = {}

    def add(self, key: bytes, sequence: int) -> None:
        """Add an entry to the row of ``key``, unless it is there."""
        numbers = self._row(key)
        if sequence not in numbers:
            insort(numbers, sequence)

    def remove(self, key: bytes, sequence: int) -> None:
        """Take an entry out of the row of ``key``, if it is there."""
        numbers = self._row(key)
        if sequence in numbers:
            numbers.remove(sequence)

    def put(self, batch: WriteBatch) -> None:
        """Add the rows to a batch."""
        for key, numbers in self._changed.items():
            if numbers:
                batch.put(key, codec.encode_numbers(numbers))
            else:
                batch.delete(key)

    def _row(self, key: bytes) -> list[int]:
        if key not in self._changed:
            self._changed[key] = self._numbers(key)
        return self._changed[key]


def id_rows(
    digests: bytes, sequences: Sequence[NDArray[np.uint64]], limit: int
) -> Iterator[list[tuple[bytes, bytes]]]:
    """Yield the rows by id of many entries at once, in the order of their keys, some at a time.

    ``digests``: of their ids, joined; ``sequences``: their numbers, rising; ``limit``: entries
    whose rows are yielded together, about.
    """
    if not digests:
        return
    by_digest = np.frombuffer(digests, dtype=f">u{codec.ID_DIGEST_BYTES}")
    order = np.argsort(by_digest, kind="stable")
    sorted_digests = by_digest[order]
    numbers = np.concatenate(sequences)[order].astype(">u8").tobytes()
    starts = np.flatnonzero(np.r_[True, sorted_digests[1:] != sorted_digests[:-1]])
    ends = np.r_[starts[1:], len(order)]
    size, width = codec.ID_DIGEST_BYTES, codec.NUMBER_BYTES
    joined = sorted_digests.tobytes()
    for first in range(0, len(starts), limit):
        part = slice(first, first + limit)
        yield [
            (
                codec.ID_TAG + joined[start * size : (start + 1) * size],
                numbers[start * width : end * width],
            )
            for start, end in zip(starts[part].tolist(), ends[part].tolist(), strict=True)
        ]
