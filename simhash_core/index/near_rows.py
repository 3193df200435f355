"""Few documents with few: each compared with each, which costs less than sorting into buckets."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simhash_core.fingerprints.blocks import BlockScheme
from simhash_core.index.prints import Prints, bucket_values, shared


def near_rows(
    scheme: BlockScheme, left: Prints, right: Prints
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.uint16]]:
    """Compare all with all; return the pairs that share a bucket and are within the distance.

    Returned: of each pair its row in ``left``, its row in ``right``, and its distance in bits.
    """
    distances = np.zeros((left.documents, right.documents), dtype=np.uint16)
    for word in range(left.fingerprints.shape[1]):
        differing = left.fingerprints[:, word, None] ^ right.fingerprints[None, :, word]
        distances += np.bitwise_count(differing)
    rows, others = np.nonzero(distances <= scheme.distance)
    near = distances[rows, others]
    if not scheme.guaranteed and len(rows):
        ours = bucket_values(scheme, left)[rows]
        theirs = bucket_values(scheme, right)[others]
        kept = np.any(shared(scheme, ours, theirs), axis=1)
        rows, others, near = rows[kept], others[kept], near[kept]
    return rows, others, near
