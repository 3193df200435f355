"""Placement: which buckets a document has, and which partition owns each.

Owners are found by hashing the bucket, not the document: near-duplicates share no key, but they
share a bucket, and so they meet in the partition that owns it.

The hash is the output function of SplitMix64 (Steele, Lea and Flood 2014), of the block index and
the value as one number: two rounds of multiplication and shift, which spread values however they
lie, and which numpy does for all buckets of many documents at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from struct import Struct
from typing import Final

import numpy as np
from numpy.typing import NDArray

from simhash_core.block_values import block_values, bucket_names
from simhash_core.blocks import CONTENT_BLOCK, BlockScheme, Bucket, content_bucket
from simhash_core.errors import UsageError

MOST_PARTITIONS: Final = 4096

_WAYS_KEPT: Final = 16_384
"""Ways kept: that of a document is asked for at each of its steps, all within a second or so."""

_FIRST: Final = 0xBF58476D1CE4E5B9
_SECOND: Final = 0x94D049BB133111EB
_MASK: Final = (1 << 64) - 1
_VALUE_BITS: Final = 32
_CONTENT_BYTES: Final = 8
"""Of a content digest, which is a hash already."""


def owner(bucket: Bucket, partitions: int) -> int:
    """Return the partition that owns ``bucket``, of ``partitions``.

    The high half of a 64-bit hash times the number of partitions: even for any number.
    """
    if bucket[0] == CONTENT_BLOCK:
        mixed = int.from_bytes(bucket[1 : 1 + _CONTENT_BYTES], "big")
    else:
        mixed = bucket[0] << _VALUE_BITS | int.from_bytes(bucket[1:], "big")
    mixed = (mixed ^ mixed >> 30) * _FIRST & _MASK
    mixed = (mixed ^ mixed >> 27) * _SECOND & _MASK
    mixed ^= mixed >> 31
    return (mixed >> 32) * partitions >> 32


def owners(values: NDArray[np.uint32], partitions: int) -> NDArray[np.uint64]:
    """Return the owner of the bucket of each block value, uint64 (rows, blocks).

    ``values``: uint32 (rows, blocks), of all blocks in order. The same as ``owner`` of each.
    """
    mixed = np.arange(values.shape[1], dtype=np.uint64) << np.uint64(_VALUE_BITS) | values
    mixed ^= mixed >> np.uint64(30)
    mixed *= np.uint64(_FIRST)
    mixed ^= mixed >> np.uint64(27)
    mixed *= np.uint64(_SECOND)
    mixed ^= mixed >> np.uint64(31)
    mixed >>= np.uint64(32)
    mixed *= np.uint64(partitions)
    mixed >>= np.uint64(32)
    return mixed


@dataclass(frozen=True, slots=True)
class Placement:
    """The block scheme laid over ``partitions`` partitions."""

    scheme: BlockScheme
    partitions: int
    _ways: dict[bytes, Mapping[int, list[Bucket]]] = field(
        default_factory=dict, compare=False, repr=False
    )

    def __post_init__(self) -> None:
        """Raise ``UsageError`` for a number of partitions that cannot be."""
        if not 1 <= self.partitions <= MOST_PARTITIONS:
            raise UsageError(
                f"partitions is {self.partitions}: it must be from 1 to {MOST_PARTITIONS}"
            )

    def by_partition(self, fingerprint: bytes, content_digest: bytes) -> Mapping[int, list[Bucket]]:
        """Return the buckets of a document by owner, partitions ascending: the order of its way.

        Those of its blocks, or that of its content when it has no fingerprint.
        """
        if not fingerprint:
            bucket = content_bucket(content_digest)
            return {owner(bucket, self.partitions): [bucket]}
        way = self._ways.get(fingerprint)
        if way is None:
            self.prepare([fingerprint])
            way = self._ways[fingerprint]
        return way

    def prepare(self, fingerprints: Iterable[bytes]) -> None:
        """Find the ways of many documents at once, to be asked for soon.

        Empty fingerprints are passed over. Raises ``UsageError`` for one of another width than the
        scheme's.
        """
        # Each once, in order, and no more than are kept: by_partition finds the rest one by one.
        unknown = dict.fromkeys(each for each in fingerprints if each and each not in self._ways)
        fresh = list(unknown)[:_WAYS_KEPT]
        if not fresh:
            return
        if len(self._ways) + len(fresh) > _WAYS_KEPT:
            self._ways.clear()
        values = self.values(fresh)
        names = bucket_names(self.scheme, values)
        split = Struct(f"{names.shape[2]}s" * names.shape[1]).iter_unpack(names.tobytes())
        if self.partitions == 1:
            for fingerprint, buckets in zip(fresh, split, strict=True):
                self._ways[fingerprint] = {0: list(buckets)}
            return
        owned_by = owners(values, self.partitions).tolist()
        for fingerprint, buckets, partitions in zip(fresh, split, owned_by, strict=True):
            way: dict[int, list[Bucket]] = {partition: [] for partition in sorted(set(partitions))}
            for partition, bucket in zip(partitions, buckets, strict=True):
                way[partition].append(bucket)
            self._ways[fingerprint] = way

    def values(self, fingerprints: Sequence[bytes]) -> NDArray[np.uint32]:
        """Return the block values of fingerprints, uint32 (fingerprints, all blocks).

        Raises ``UsageError`` for a fingerprint of another width than the scheme's.
        """
        width = self.scheme.bits // 8
        for fingerprint in fingerprints:
            if len(fingerprint) != width:
                raise UsageError(
                    f"a fingerprint of {len(fingerprint) * 8} bits, the scheme has "
                    f"{self.scheme.bits}"
                )
        whole = np.frombuffer(b"".join(fingerprints), dtype=np.uint8)
        return block_values(self.scheme, whole.reshape(len(fingerprints), width))
