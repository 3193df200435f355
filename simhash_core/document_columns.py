"""Documents as columns: the form in which they are ordered, looked up and stored."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from simhash_core.verdicts import UndecidableReason

# The operation of a row: a document, or a delete, which removes the entries of an id from the
# index.
DOCUMENT: Final = 0
DELETE: Final = 1

# The reason why a document is undecidable, by its number in a column; 0: it is decidable.
REASON_CODES: Final[tuple[UndecidableReason | None, ...]] = (
    None,
    UndecidableReason.EMPTY,
    UndecidableReason.NO_FEATURES,
    UndecidableReason.TOO_FEW_FEATURES,
)


@dataclass(frozen=True, slots=True, eq=False)
class BytesColumn:
    """Byte strings of any length, joined; ``bounds`` is uint32 (strings + 1,)."""

    joined: bytes
    bounds: NDArray[np.uint32]

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def __getitem__(self, index: int) -> bytes:
        return self.joined[self.bounds[index] : self.bounds[index + 1]]

    def __iter__(self) -> Iterator[bytes]:
        bounds = self.bounds.tolist()
        joined = self.joined
        return (joined[start:stop] for start, stop in pairwise(bounds))

    @classmethod
    def of(cls, strings: Sequence[bytes]) -> BytesColumn:
        bounds = np.zeros(len(strings) + 1, dtype=np.uint32)
        np.cumsum(
            np.fromiter(map(len, strings), dtype=np.uint32, count=len(strings)), out=bounds[1:]
        )
        return cls(b"".join(strings), bounds)

    def part(self, first: int, last: int) -> BytesColumn:
        """Return the strings from ``first`` to before ``last``."""
        bounds = self.bounds[first : last + 1]
        return BytesColumn(self.joined[bounds[0] : bounds[-1]], bounds - bounds[0])

    def take(self, rows: Iterable[int]) -> BytesColumn:
        bounds, joined = self.bounds.tolist(), self.joined
        return BytesColumn.of([joined[bounds[row] : bounds[row + 1]] for row in rows])


@dataclass(frozen=True, slots=True, eq=False)
class DocumentColumns:
    """Documents and deletes; those of one raw partition are in rising order of their offsets.

    A delete has an id but no content, and is not decidable. Fingerprints and digests are masked by
    the document's scope.
    """

    offsets: NDArray[np.int64]  # in the raw partition
    times_ms: NDArray[np.int64]  # event times
    ids: BytesColumn  # UTF-8
    digests: NDArray[np.uint8]  # (documents, 16), of the content
    fingerprints: NDArray[np.uint64]  # (documents, bits / 64) in byte order; 0: undecidable
    undecidable: NDArray[np.uint8]  # index of ``REASON_CODES``
    sketches: BytesColumn
    operations: NDArray[np.uint8] | None = None  # None: all are documents
    scopes: BytesColumn | None = None  # UTF-8; None: no document has one
    bands: NDArray[np.uint32] | None = None  # of ``prints.with_bands``; None: not computed

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def nbytes(self) -> int:
        """The bytes of ids, sketches and fingerprints; the other columns are small."""
        return len(self.ids.joined) + len(self.sketches.joined) + self.fingerprints.nbytes

    def document_id(self, row: int) -> str:
        return self.ids[row].decode()

    def digest(self, row: int) -> bytes:
        digest: bytes = self.digests[row].tobytes()
        return digest

    def scope(self, row: int) -> str:
        return "" if self.scopes is None else self.scopes[row].decode()

    @property
    def are_documents(self) -> NDArray[np.bool_]:
        """Which rows are documents, bool (rows,); the others are deletes."""
        if self.operations is None:
            return np.ones(len(self), dtype=np.bool_)
        documents: NDArray[np.bool_] = self.operations == DOCUMENT
        return documents

    @property
    def document_times_ms(self) -> NDArray[np.int64]:
        """The times of the documents; a delete has only the time of its record."""
        return self.times_ms if self.operations is None else self.times_ms[self.are_documents]

    @property
    def repeatable(self) -> list[int]:
        """The rows of undecidable documents, which match by content alone."""
        undecidable = self.undecidable != 0
        if self.operations is not None:
            undecidable &= self.operations == DOCUMENT
        rows: list[int] = np.flatnonzero(undecidable).tolist()
        return rows

    @property
    def deletes(self) -> list[int]:
        if self.operations is None:
            return []
        rows: list[int] = np.flatnonzero(self.operations == DELETE).tolist()
        return rows

    def take(self, rows: NDArray[np.intp]) -> DocumentColumns:
        return self._each(lambda numbers: numbers[rows], lambda strings: _strings_of(strings, rows))

    def part(self, first: int, end: int) -> DocumentColumns:
        """Return the rows from ``first`` to before ``end``, without a copy of numbers."""
        return self._each(
            lambda numbers: numbers[first:end], lambda strings: strings.part(first, end)
        )

    def _each(
        self,
        of_numbers: Callable[[NDArray[Any]], NDArray[Any]],
        of_strings: Callable[[BytesColumn], BytesColumn],
    ) -> DocumentColumns:
        return DocumentColumns(
            of_numbers(self.offsets),
            of_numbers(self.times_ms),
            of_strings(self.ids),
            of_numbers(self.digests),
            of_numbers(self.fingerprints),
            of_numbers(self.undecidable),
            of_strings(self.sketches),
            None if self.operations is None else of_numbers(self.operations),
            None if self.scopes is None else of_strings(self.scopes),
            None if self.bands is None else of_numbers(self.bands),
        )


def joined_columns(parts: Sequence[DocumentColumns]) -> DocumentColumns:
    if len(parts) == 1:
        return parts[0]
    operations = scopes = None
    if any(each.operations is not None for each in parts):
        operations = np.concatenate(
            [~each.are_documents * np.uint8(DELETE) for each in parts], dtype=np.uint8
        )
    if any(each.scopes is not None for each in parts):
        none = [BytesColumn.of([b""] * len(each)) for each in parts]
        scopes = _joined_strings([each.scopes or no for each, no in zip(parts, none, strict=True)])
    return DocumentColumns(
        np.concatenate([each.offsets for each in parts]),
        np.concatenate([each.times_ms for each in parts]),
        _joined_strings([each.ids for each in parts]),
        np.concatenate([each.digests for each in parts]),
        np.concatenate([each.fingerprints for each in parts]),
        np.concatenate([each.undecidable for each in parts]),
        _joined_strings([each.sketches for each in parts]),
        operations,
        scopes,
    )


def _joined_strings(parts: Sequence[BytesColumn]) -> BytesColumn:
    bounds = [np.zeros(1, dtype=np.uint32)]
    size = 0
    for each in parts:
        bounds.append(each.bounds[1:] + np.uint32(size))
        size += len(each.joined)
    return BytesColumn(b"".join([each.joined for each in parts]), np.concatenate(bounds))


def _strings_of(strings: BytesColumn, rows: NDArray[np.intp]) -> BytesColumn:
    """Return the strings of some rows; consecutive ones cost one copy."""
    if len(rows) and np.all(rows[1:] - rows[:-1] == 1):
        return strings.part(int(rows[0]), int(rows[-1]) + 1)
    return strings.take(rows.tolist())
