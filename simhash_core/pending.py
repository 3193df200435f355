"""Pending entries: documents that have passed this shard and are not decided yet.

There are only as many as are under way at once, so they are kept in memory (and written to the
table's in-flight state, to survive).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from simhash_core.blocks import Bucket
from simhash_core.distance import distance_bits
from simhash_core.documents import SourcePosition
from simhash_core.entries import Entry
from simhash_core.probes import Probe


class PendingEntries:
    """Pending entries by arrival and by bucket."""

    def __init__(
        self,
        buckets_of: Callable[[Entry], Sequence[Bucket]],
        agreement: Callable[[int, Probe, Entry], float | None],
    ) -> None:
        """Begin empty.

        ``buckets_of`` gives the buckets of an entry that this shard owns, ``agreement`` None for a
        document and an entry within the distance that are not near after all.
        """
        self._buckets_of = buckets_of
        self._agreement = agreement
        self._entries: dict[SourcePosition, Entry] = {}
        self._by_bucket: dict[Bucket, set[SourcePosition]] = {}

    def add(self, entry: Entry) -> None:
        """Add the pending entry of an arrival."""
        self._entries[entry.source] = entry
        for bucket in self._buckets_of(entry):
            self._by_bucket.setdefault(bucket, set()).add(entry.source)

    def take(self, source: SourcePosition) -> Entry:
        """Remove and return the pending entry of an arrival; ``KeyError`` where there is none."""
        entry = self._entries.pop(source)
        for bucket in self._buckets_of(entry):
            sources = self._by_bucket[bucket]
            sources.discard(source)
            if not sources:
                del self._by_bucket[bucket]
        return entry

    def nearest(
        self, probe: Probe, buckets: Sequence[Bucket], distance: int
    ) -> SourcePosition | None:
        """Return the nearest pending document that is near; of equals, the first by source.

        Not by time of arrival: the choice must be the same after a recovery.
        """
        if not self._entries:
            return None
        sources = {source for b in buckets for source in self._by_bucket.get(b, ())}
        ranked = (
            (distance_bits(probe.fingerprint, self._entries[source].fingerprint), source)
            for source in sources
        )
        for far, source in sorted(pair for pair in ranked if pair[0] <= distance):
            if self._agreement(far, probe, self._entries[source]) is not None:
                return source
        return None

    def __len__(self) -> int:
        """Return the number of pending entries."""
        return len(self._entries)
