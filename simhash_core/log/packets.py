"""Packets: documents of one raw partition as columns, each packet a link of that partition's chain.

A packet says which raw offset its sender believes to be the last in the log (``previous``). It
counts only if that is so at its place in the log: compare-and-append. So a packet that was appended
twice, or by a worker that no longer owns the partition, or on a wrong guess, is skipped by all.

A packet covers all raw offsets after ``previous`` up to ``last``. Those that it has no row for hold
no document: they could not be read, are tombstones, or were never there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simhash_core.documents import SourcePosition
from simhash_core.verdicts import UndecidableReason

REASON_CODES: Final[tuple[UndecidableReason | None, ...]] = (
    None,
    UndecidableReason.EMPTY,
    UndecidableReason.NO_FEATURES,
    UndecidableReason.TOO_FEW_FEATURES,
)
"""Why a document is undecidable, by its number in a column; 0: it is decidable."""

NO_OFFSET: Final = -1
"""The offset before the first."""


class Chain(NamedTuple):
    """The raw partition whose packets follow each other.

    ``topic_id``: the id that the broker gave to the topic; a topic that was deleted and created
    again under the same name begins chains of its own. Empty where a broker knows none.
    """

    topic: str
    topic_id: str
    partition: int


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

    def take(self, rows: Iterable[int]) -> BytesColumn:
        """Return the strings of some rows."""
        return BytesColumn.of([self[row] for row in rows])


@dataclass(frozen=True, slots=True, eq=False)
class DocumentColumns:
    """Documents as columns, in rising order of their raw offsets.

    ``offsets``: int64 (documents,), in the raw partition. ``times_ms``: int64, event times.
    ``ids``: UTF-8. ``digests``: uint8 (documents, 16), of the content. ``fingerprints``: uint64
    words (documents, bits / 64) in the bytes' own order, zero where undecidable. ``undecidable``:
    uint8, an index of ``REASON_CODES``. ``sketches``: empty where there is none.
    """

    offsets: NDArray[np.int64]
    times_ms: NDArray[np.int64]
    ids: BytesColumn
    digests: NDArray[np.uint8]
    fingerprints: NDArray[np.uint64]
    undecidable: NDArray[np.uint8]
    sketches: BytesColumn

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

    def take(self, rows: NDArray[np.intp]) -> DocumentColumns:
        """Return some of the documents."""
        return DocumentColumns(
            self.offsets[rows],
            self.times_ms[rows],
            self.ids.take(rows.tolist()),
            self.digests[rows],
            self.fingerprints[rows],
            self.undecidable[rows],
            self.sketches.take(rows.tolist()),
        )


class Sender(NamedTuple):
    """Who sent a packet: a worker's own name for this life of it, and a number that rises."""

    worker: str
    number: int


@dataclass(frozen=True, slots=True, eq=False)
class Packet:
    """Documents of one raw partition. ``previous`` and ``last``: raw offsets (see above)."""

    chain: Chain
    sender: Sender
    previous: int
    last: int
    columns: DocumentColumns

    def __len__(self) -> int:
        """Return the number of documents."""
        return len(self.columns)

    def source(self, row: int) -> SourcePosition:
        """Return the source position of a document."""
        return SourcePosition(
            self.chain.topic, self.chain.partition, int(self.columns.offsets[row])
        )


class Heads:
    """The last raw offset in the log of each chain, by the packets that count."""

    def __init__(self, heads: Iterable[tuple[Chain, int]] = ()) -> None:
        """Begin with the heads that a control record tells."""
        self._last = dict(heads)

    def counts(self, packet: Packet) -> bool:
        """Return whether a packet continues its chain."""
        return packet.previous == self.last(packet.chain) and packet.last > packet.previous

    def advance(self, packet: Packet) -> None:
        """Take in a packet that counts."""
        self._last[packet.chain] = packet.last

    def last(self, chain: Chain) -> int:
        """Return the last raw offset of a chain in the log, ``NO_OFFSET`` where there is none."""
        return self._last.get(chain, NO_OFFSET)

    def partitions(self) -> set[int]:
        """Return the raw partitions that have any document in the log: the shards."""
        return {chain.partition for chain in self._last}

    def items(self) -> list[tuple[Chain, int]]:
        """Return all heads, for a control record."""
        return sorted(self._last.items())
