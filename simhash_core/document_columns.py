"""Documents as columns: the form in which they are ordered, looked up and stored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from simhash_core.verdicts import UndecidableReason

DOCUMENT: Final = 0
"""The operation of a row that is a document."""
DELETE: Final = 1
"""The operation of a row that takes the entries of an id out of the index."""

REASON_CODES: Final[tuple[UndecidableReason | None, ...]] = (
    None,
    UndecidableReason.EMPTY,
    UndecidableReason.NO_FEATURES,
    UndecidableReason.TOO_FEW_FEATURES,
)
"""Why a document is undecidable, by its number in a column; 0: it is decidable."""


@dataclass(frozen=True, slots=True, eq=False)
class BytesColumn:
    """Byte strings of any length, joined. ``bounds``: uint32 (strings + 1,)."""

    joined: bytes
    bounds: NDArray[np.uint32]

    def __len__(self) -> int:
        """Return the number of strings."""
        return len(self.bounds) - 1

    def __getitem__(self, index: int) -> bytes:
        """Return one string."""
        return self.joined[self.bounds[index] : self.bounds[index + 1]]

    def __iter__(self) -> Iterator[bytes]:
        """Yield all strings in order."""
        bounds = self.bounds.tolist()
        joined = self.joined
        return (joined[start:stop] for start, stop in pairwise(bounds))

    @classmethod
    def of(cls, strings: Sequence[bytes]) -> BytesColumn:
        """Join strings."""
        bounds = np.zeros(len(strings) + 1, dtype=np.uint32)
        np.cumsum(
            np.fromiter(map(len, strings), dtype=np.uint32, count=len(strings)), out=bounds[1:]
        )
        return cls(b"".join(strings), bounds)

    def part(self, first: int, last: int) -> BytesColumn:
        """Return the strings from one row up to, not including, another."""
        bounds = self.bounds[first : last + 1]
        return BytesColumn(self.joined[bounds[0] : bounds[-1]], bounds - bounds[0])

    def take(self, rows: Iterable[int]) -> BytesColumn:
        """Return the strings of some rows."""
        bounds, joined = self.bounds.tolist(), self.joined
        return BytesColumn.of([joined[bounds[row] : bounds[row + 1]] for row in rows])


@dataclass(frozen=True, slots=True, eq=False)
class DocumentColumns:
    """Documents as columns, in rising order of their raw offsets.

    ``offsets``: int64 (documents,), in the raw partition. ``times_ms``: int64, event times.
    ``ids``: UTF-8. ``digests``: uint8 (documents, 16), of the content. ``fingerprints``: uint64
    words (documents, bits / 64) in the bytes' own order, zero where undecidable. ``undecidable``:
    uint8, an index of ``REASON_CODES``. ``sketches``: empty where there is none.

    ``operations``: uint8, ``DOCUMENT`` or ``DELETE``; None: all are documents. A delete has an id
    and no content: it is not decidable. ``scopes``: UTF-8; None: no document has one. Fingerprints
    and digests are those of ``simhash_core.scopes``.
    """

    offsets: NDArray[np.int64]
    times_ms: NDArray[np.int64]
    ids: BytesColumn
    digests: NDArray[np.uint8]
    fingerprints: NDArray[np.uint64]
    undecidable: NDArray[np.uint8]
    sketches: BytesColumn
    operations: NDArray[np.uint8] | None = None
    scopes: BytesColumn | None = None

    def __len__(self) -> int:
        """Return the number of documents."""
        return len(self.offsets)

    def document_id(self, row: int) -> str:
        """Return the id of a document."""
        return self.ids[row].decode()

    def digest(self, row: int) -> bytes:
        """Return the content digest of a document."""
        digest: bytes = self.digests[row].tobytes()
        return digest

    def reason(self, row: int) -> UndecidableReason | None:
        """Return why a document is undecidable, None where it is not."""
        return REASON_CODES[int(self.undecidable[row])]

    def scope(self, row: int) -> str:
        """Return the scope of a document, empty for none."""
        return "" if self.scopes is None else self.scopes[row].decode()

    @property
    def are_documents(self) -> NDArray[np.bool_]:
        """Which rows are documents, bool (rows,); the others are deletes."""
        if self.operations is None:
            return np.ones(len(self), dtype=np.bool_)
        documents: NDArray[np.bool_] = self.operations == DOCUMENT
        return documents

    @property
    def repeatable(self) -> list[int]:
        """The rows of undecidable documents, which match others by their content alone."""
        undecidable = self.undecidable != 0
        if self.operations is not None:
            undecidable &= self.operations == DOCUMENT
        rows: list[int] = np.flatnonzero(undecidable).tolist()
        return rows

    @property
    def deletes(self) -> list[int]:
        """The rows that are deletes."""
        if self.operations is None:
            return []
        rows: list[int] = np.flatnonzero(self.operations == DELETE).tolist()
        return rows

    def take(self, rows: NDArray[np.intp]) -> DocumentColumns:
        """Return some of the rows."""
        return DocumentColumns(
            self.offsets[rows],
            self.times_ms[rows],
            _strings_of(self.ids, rows),
            self.digests[rows],
            self.fingerprints[rows],
            self.undecidable[rows],
            _strings_of(self.sketches, rows),
            None if self.operations is None else self.operations[rows],
            None if self.scopes is None else _strings_of(self.scopes, rows),
        )


def _strings_of(strings: BytesColumn, rows: NDArray[np.intp]) -> BytesColumn:
    """Return the strings of some rows; those that follow each other cost one copy."""
    if len(rows) and np.all(rows[1:] - rows[:-1] == 1):
        return strings.part(int(rows[0]), int(rows[-1]) + 1)
    return strings.take(rows.tolist())
