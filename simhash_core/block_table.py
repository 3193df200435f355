"""The block table of one shard: bucket → entries. The protocol that each implementation keeps.

Two steps make a change: ``stage`` lets look-ups see it at once, ``commit`` makes it last. Between
the two lies the commit to Kafka, so a table is never ahead of the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from simhash_core.blocks import Bucket
from simhash_core.entries import Change, Entry, InFlight, PutEntry


class Candidates(NamedTuple):
    """The documents met in some buckets, one row a meeting: in two buckets, met twice.

    ``orders``: uint64 (rows,). ``fingerprints``: uint8 (rows, bytes of a fingerprint), contiguous;
    0 columns for a content bucket.
    """

    orders: NDArray[np.uint64]
    fingerprints: NDArray[np.uint8]


class BlockTable(Protocol):
    """Confirmed entries by bucket, and the in-flight state kept beside them."""

    def prefetch(self, lookups: Iterable[Sequence[Bucket]]) -> None:
        """Expect look-ups of these buckets, those of a document each, in this order.

        It changes their cost and nothing else: they meet what is staged meanwhile.
        """
        ...

    def candidates(self, buckets: Sequence[Bucket]) -> Candidates:
        """Return what is in ``buckets``, staged entries included.

        The buckets are all of blocks or all of content, of one document.
        """
        ...

    def entry(self, order: int) -> Entry:
        """Return the entry with this order; raises ``KeyError`` where there is none."""
        ...

    def stage(self, change: PutEntry) -> None:
        """Let look-ups see a new entry; it does not last before ``commit``."""
        ...

    def commit(self, changes: Sequence[Change]) -> None:
        """Write all changes, or none, atomically; the staged ones must be among them."""
        ...

    def in_flight(self) -> InFlight:
        """Return the committed in-flight state; that of a new table is empty."""
        ...

    def __len__(self) -> int:
        """Return the number of entries, staged ones included."""
        ...

    def close(self) -> None:
        """Let go of files and memory; staged entries are dropped."""
        ...
