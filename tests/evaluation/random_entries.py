"""Entries of random fingerprints, and the store that they are put into."""

from __future__ import annotations

import numpy as np

from simhash_core.documents import SourcePosition
from simhash_core.entries import Entry, PutEntry
from simhash_core.placement import Placement
from simhash_core.profiles import Profile
from streams.state_codec import StoreIdentity


def placement_of(profile: Profile) -> Placement:
    """The blocks of a profile on one partition."""
    return Placement(profile.scheme(), 1)


def store_of() -> StoreIdentity:
    """Whose store it is."""
    return StoreIdentity(index_identity="random", application_id="plan", partition=0, partitions=1)


def random_entries(bits: int, first: int, count: int) -> list[PutEntry]:
    """Entries with orders from ``first`` on, their ids 32 characters long."""
    rng = np.random.default_rng([8, first])
    return [
        PutEntry(
            order,
            Entry(
                SourcePosition("raw-documents", 15, order),
                f"{order:032d}",
                1_700_000_000_000,
                rng.bytes(bits // 8),
                rng.bytes(16),
            ),
        )
        for order in range(first, first + count)
    ]
