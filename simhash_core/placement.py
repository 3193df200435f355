"""Placement: which buckets a document has, and which partition owns each.

Owners are found by hashing the bucket, not the document: near-duplicates share no key, but they
share a bucket, and so they meet in the partition that owns it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import xxhash

from simhash_core.blocks import BlockScheme, Bucket, content_bucket
from simhash_core.errors import UsageError

MOST_PARTITIONS: Final = 4096

_WAYS_KEPT: Final = 16_384
"""Ways kept: that of a document is asked for at each of its steps, all within a second or so."""


def owner(bucket: Bucket, partitions: int) -> int:
    """Return the partition that owns ``bucket``, of ``partitions``.

    The high bits of a 64-bit hash times the number of partitions: even for any number.
    """
    return (xxhash.xxh3_64_intdigest(bucket) * partitions) >> 64


@dataclass(frozen=True, slots=True)
class Placement:
    """The block scheme laid over ``partitions`` partitions."""

    scheme: BlockScheme
    partitions: int
    _ways: dict[tuple[bytes, bytes], Mapping[int, list[Bucket]]] = field(
        default_factory=dict, compare=False, repr=False
    )

    def __post_init__(self) -> None:
        """Raise ``UsageError`` for a number of partitions that cannot be."""
        if not 1 <= self.partitions <= MOST_PARTITIONS:
            raise UsageError(
                f"partitions is {self.partitions}: it must be from 1 to {MOST_PARTITIONS}"
            )

    def buckets(self, fingerprint: bytes, content_digest: bytes) -> list[Bucket]:
        """Return the buckets of a document: of its blocks, or of its content when undecidable."""
        if fingerprint:
            return self.scheme.buckets(fingerprint)
        return [content_bucket(content_digest)]

    def by_partition(self, fingerprint: bytes, content_digest: bytes) -> Mapping[int, list[Bucket]]:
        """Return the buckets of a document by owner, partitions ascending: the order of its way."""
        way = self._ways.get((fingerprint, content_digest))
        if way is None:
            if len(self._ways) >= _WAYS_KEPT:
                self._ways.clear()
            way = self._ways[fingerprint, content_digest] = self._way(fingerprint, content_digest)
        return way

    def _way(self, fingerprint: bytes, content_digest: bytes) -> dict[int, list[Bucket]]:
        buckets = self.buckets(fingerprint, content_digest)
        if self.partitions == 1:
            return {0: buckets}
        owned: dict[int, list[Bucket]] = {}
        for bucket in buckets:
            owned.setdefault(owner(bucket, self.partitions), []).append(bucket)
        return dict(sorted(owned.items()))
