"""Placement: which buckets a document has, and which partition owns each.

Owners are found by hashing the bucket, not the document: near-duplicates share no key, but they
share a bucket, and so they meet in the partition that owns it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import xxhash

from simhash_core.blocks import BlockScheme, Bucket, content_bucket
from simhash_core.errors import UsageError

MOST_PARTITIONS: Final = 4096


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

    def by_partition(self, fingerprint: bytes, content_digest: bytes) -> dict[int, list[Bucket]]:
        """Return the buckets of a document by owner, partitions ascending: the order of its way."""
        buckets = self.buckets(fingerprint, content_digest)
        if self.partitions == 1:
            return {0: buckets}
        owned: dict[int, list[Bucket]] = {}
        for bucket in buckets:
            owned.setdefault(owner(bucket, self.partitions), []).append(bucket)
        return dict(sorted(owned.items()))
