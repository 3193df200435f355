"""Rows that lead to entries: by content, and by id.

A row has a list of sequence numbers: several entries can have one content, in other scopes or too
far apart in time to be near, and several ids can have one digest.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable

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
