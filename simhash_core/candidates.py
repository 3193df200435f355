"""From candidates to those within the distance, nearest first; of equals, the earliest first."""

from __future__ import annotations

import numpy as np

from simhash_core.block_table import Candidates
from simhash_core.distance import distances_bits


def within(fingerprint: bytes, candidates: Candidates, distance: int) -> list[tuple[int, int]]:
    """Return ``(distance, order)`` of each candidate at most ``distance`` bits away, ascending.

    A document met in several buckets stands there once.
    """
    if not len(candidates.orders):
        return []
    distances = distances_bits(fingerprint, candidates.fingerprints)
    near = np.flatnonzero(distances <= distance)
    if not len(near):
        return []
    return sorted(set(zip(distances[near].tolist(), candidates.orders[near].tolist(), strict=True)))
