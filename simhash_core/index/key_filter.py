"""Which shards of a worker may have a key: a Bloom filter for each shard, all read at once.

A key is the digest of a content or of an id. The filters of up to 64 shards have the same size, and
the bits of one position of all of them are one word, so a look-up reads a few words whatever the
number of shards (a bit-sliced index: Bradley et al., "Ultrafast search of all deposited bacterial
and viral genomic data", 2019). A filter may report a key that is not there, but misses none.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64_digest

ID_KEY_BYTES: Final = 4
_GROUP: Final = 64  # shards
_HASHES: Final = 4
_BITS_A_KEY: Final = 16  # of a full table: 0.24 % of other keys are reported
_FIRST_CAPACITY: Final = 1 << 12  # keys a shard
_GROWTH: Final = 4
_CAPACITY_MAX: Final = 1 << 22  # keys a shard: 512 MiB for 64 shards; then more keys are reported
_MULTIPLIER: Final = 0x9E3779B97F4A7C15  # of Fibonacci hashing (Knuth, volume 3, section 6.4)
_WORD: Final = (1 << 64) - 1


def id_key(document_id: bytes) -> bytes:
    return xxh3_64_digest(document_id)[:ID_KEY_BYTES]


def _hashes(keys: Iterable[bytes]) -> NDArray[np.uint64]:
    return np.fromiter(map(_hash, keys), dtype=np.uint64)


def _hash(key: bytes) -> int:
    return int.from_bytes(key[:8], "little") * _MULTIPLIER & _WORD


class _Table:
    """Filters of one size for the shards of a group."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.counts = [0] * _GROUP
        self._last = capacity * _BITS_A_KEY - 1
        self._set(np.zeros(self._last + 1, dtype=np.uint8))

    def _set(self, words: NDArray[Any]) -> None:
        self._words = words
        self._read: Any = memoryview(words.data)

    def add(self, bit: int, hashes: NDArray[np.uint64]) -> None:
        while bit >= 8 * self._words.itemsize:  # words are as wide as the shards need
            self._set(self._words.astype(f"u{2 * self._words.itemsize}"))
        self.counts[bit] += len(hashes)
        word, last = self._words.dtype.type(1 << bit), np.uint64(self._last)
        for number in range(_HASHES):
            at = (hashes >> np.uint64(32)) + np.uint64(number) * (hashes | np.uint64(1)) & last
            self._words[at] |= word

    def shards(self, hashed: int) -> int:
        """Return the shards that may have a key, one bit each."""
        at, step = hashed >> 32, hashed | 1
        found: int = self._read[at & self._last]
        for number in range(1, _HASHES):
            if not found:
                break
            found &= self._read[at + number * step & self._last]
        return found

    def clear(self, bit: int) -> None:
        if self.counts[bit]:
            self.counts[bit] = 0
            self._words &= self._words.dtype.type(~(1 << bit) & (256**self._words.itemsize - 1))


class Column:
    """The filter of one shard."""

    def __init__(self, noted: _Noted, number: int) -> None:
        self.number = number
        self._noted = noted

    def note(self, keys: Iterable[bytes]) -> None:
        """Add keys before an entry with one can be found; any thread may call this."""
        if listed := [*keys]:
            self._noted.append((self, listed))

    def complete(self) -> None:
        """From now on, the shard is looked up only for a key that is noted."""
        self._noted.append((self, None))


_Noted = deque[tuple[Column, list[bytes] | None]]  # None: the column is complete


class KeyFilter:
    def __init__(self) -> None:
        self._groups: list[list[_Table]] = []
        self._open: dict[int, Column] = {}
        self._free: list[int] = []
        self._incomplete = 0  # one bit a column
        self._noted: _Noted = deque()

    def open(self) -> Column:
        number = self._free.pop() if self._free else len(self._open)
        if number == _GROUP * len(self._groups):
            self._groups.append([_Table(_FIRST_CAPACITY)])
        self._incomplete |= 1 << number
        self._open[number] = Column(self._noted, number)
        return self._open[number]

    def close(self, column: Column) -> None:
        """Forget a column and what is noted in it from now on."""
        del self._open[column.number]
        for table in self._groups[column.number // _GROUP]:
            table.clear(column.number % _GROUP)
        self._incomplete &= ~(1 << column.number)
        self._free.append(column.number)

    def columns(self, key: bytes) -> Iterator[int]:
        """Yield the numbers of the columns that may have a key."""
        self._take_noted()
        hashed, found = _hash(key), self._incomplete
        for number, tables in enumerate(self._groups):
            for table in tables:
                found |= table.shards(hashed) << _GROUP * number
        while found:
            lowest = found & -found
            yield lowest.bit_length() - 1
            found ^= lowest

    def _take_noted(self) -> None:
        while self._noted:
            column, keys = self._noted.popleft()
            if self._open.get(column.number) is not column:
                continue  # it was closed meanwhile
            if keys is None:
                self._incomplete &= ~(1 << column.number)
            else:
                self._add(column.number, _hashes(keys))

    def _add(self, number: int, hashes: NDArray[np.uint64]) -> None:
        tables, bit = self._groups[number // _GROUP], number % _GROUP
        while tables[-1].counts[bit] + len(hashes) > tables[-1].capacity < _CAPACITY_MAX:
            tables.append(_Table(min(_CAPACITY_MAX, _GROWTH * tables[-1].capacity)))
        tables[-1].add(bit, hashes)
