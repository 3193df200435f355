"""Pairs of documents that an index would compare, as it finds them by its buckets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import combinations

from simhash_core.fingerprints.fingerprint import distance_bits
from simhash_core.text.fingerprinter import Fingerprinted, Fingerprinter


def candidates(
    fingerprinter: Fingerprinter, prints: Sequence[Fingerprinted]
) -> dict[tuple[int, int], int]:
    """Return the distances of those that share a bucket and are near enough, by their numbers."""
    by_bucket: dict[tuple[int, int], list[int]] = defaultdict(list)
    for number, each in enumerate(prints):
        if each.undecidable is None:
            for bucket in enumerate(fingerprinter.scheme.values(each.fingerprint)):
                by_bucket[bucket].append(number)
    pairs = {pair for numbers in by_bucket.values() for pair in combinations(numbers, 2)}
    distances = {
        (a, b): distance_bits(prints[a].fingerprint, prints[b].fingerprint) for a, b in pairs
    }
    limit = fingerprinter.profile.distance
    return {pair: distance for pair, distance in distances.items() if distance <= limit}
