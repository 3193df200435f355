"""Few documents with few: each compared with each, which costs less than sorting into buckets."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simhash_core.fingerprints.blocks import BlockScheme
from simhash_core.index.segment import bucket_numbers


def near_rows(
    scheme: BlockScheme, left: NDArray[np.uint64], right: NDArray[np.uint64]
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.uint16]]:
    """Compare all with all; return the pairs that share a block and are within the distance.

    ``left``, ``right``: uint64 words (documents, bits / 64). Returned: of each pair its row in
    ``left``, its row in ``right``, and its distance in bits.
    """
    distances = np.zeros((len(left), len(right)), dtype=np.uint16)
    for word in range(left.shape[1]):
        distances += np.bitwise_count(left[:, word, None] ^ right[None, :, word])
    rows, others = np.nonzero(distances <= scheme.distance)
    found = distances[rows, others]
    if not scheme.guaranteed and len(rows):
        ours, theirs = bucket_numbers(scheme, left[rows]), bucket_numbers(scheme, right[others])
        shared = np.any(ours == theirs, axis=1)
        rows, others, found = rows[shared], others[shared], found[shared]
    return rows, others, found
