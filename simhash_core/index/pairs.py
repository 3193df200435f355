"""What a look-up finds: pairs of a document looked up and one of the index."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Pairs(NamedTuple):
    """Documents of a look-up with documents of the index that are within the distance.

    Sorted by ``rows``, then distance, then sequence number; each pair once. ``rows``: intp, indices
    of the documents looked up. ``distances``: uint16, bits. ``sequences``: uint64. ``slots``:
    uint16.
    """

    rows: NDArray[np.intp]
    distances: NDArray[np.uint16]
    sequences: NDArray[np.uint64]
    slots: NDArray[np.uint16]

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self.rows)


def sorted_pairs(parts: list[Pairs]) -> Pairs:
    """Join pairs, sort them, and keep each once: a document may share several buckets."""
    if not parts:
        empty = np.empty(0, dtype=np.intp)
        return Pairs(
            empty, empty.astype(np.uint16), empty.astype(np.uint64), empty.astype(np.uint16)
        )
    rows, distances, sequences, slots = map(np.concatenate, zip(*parts, strict=True))
    if len(rows) > 1:
        order = np.lexsort((sequences, distances, rows))
        rows, distances = rows[order], distances[order]
        sequences, slots = sequences[order], slots[order]
        first = np.ones(len(rows), dtype=np.bool_)
        first[1:] = (rows[1:] != rows[:-1]) | (sequences[1:] != sequences[:-1])
        rows, distances = rows[first], distances[first]
        sequences, slots = sequences[first], slots[first]
    return Pairs(rows, distances, sequences, slots)
