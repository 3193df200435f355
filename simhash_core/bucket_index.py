"""The bucket index of a shard: a short tail that takes new documents, and sorted segments.

A new document goes into the tail, a dictionary of buckets, and is met at once. A tail that has
grown long becomes a segment; as soon as there are four segments of one size, they become one. So
each document is sorted a few times in all, and a look-up asks few segments.

Look-ups that are told of in advance (``prefetch``) are made together, which costs a fraction of one
after the other; what is added in between is still met, since the tail is asked each time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final

import numpy as np
from numpy.typing import NDArray

from simhash_core.block_table import Candidates
from simhash_core.block_values import bucket_keys
from simhash_core.blocks import Bucket
from simhash_core.bucket_segment import BucketSegment, build_segment
from simhash_core.placement import Placement

TAIL_DOCUMENTS: Final = 1024
"""A longer tail costs memory, some five kilobytes a document where all buckets are owned."""

_SEGMENTS_MERGED: Final = 4
_MOST_ROWS: Final = 1 << 24
_MOST_DOCUMENTS: Final = 1 << 20
"""A merge takes a fraction of a second at the most, and 200 MB."""

_GATHERED_DOCUMENTS: Final = 65_536
"""Documents that come in bulk are sorted so many at a time."""

_FETCHED_LOOKUPS: Final = 64
"""Look-ups that are made together: bounds the candidates that are in memory at once."""

_NO_ORDERS: Final = np.empty(0, dtype=np.uint64)

Loaded = tuple[NDArray[np.uint64], NDArray[np.uint64]]
"""Orders, and fingerprints in words, as of ``BucketSegment``."""


class BucketIndex:
    """Documents by the buckets that one partition owns; look-ups meet all that were added."""

    def __init__(self, placement: Placement, partition: int) -> None:
        """Begin empty."""
        self._placement = placement
        self._partition = partition
        self._words = placement.scheme.bits // 64
        self._segments: list[BucketSegment] = []
        self._tail_orders: list[int] = []
        self._tail_fingerprints: list[bytes] = []
        self._tail: dict[Bucket, int] = {}
        self._tail_others: dict[Bucket, list[int]] = {}
        self._loaded: list[Loaded] = []
        self._expected: dict[bytes, Sequence[Bucket]] = {}
        self._place: dict[bytes, int] = {}
        self._fetched: dict[bytes, Loaded] = {}

    @property
    def segments(self) -> Sequence[BucketSegment]:
        """The segments, the earliest first."""
        return self._segments

    @property
    def lowest_unsorted(self) -> int | None:
        """The lowest order that is in no segment; None where all are."""
        loaded = [int(orders.min()) for orders, _ in self._loaded]
        return min([*self._tail_orders, *loaded], default=None)

    def add(self, order: int, fingerprint: bytes) -> None:
        """Add a document, to be met at once."""
        row = len(self._tail_orders)
        self._tail_orders.append(order)
        self._tail_fingerprints.append(fingerprint)
        buckets = self._placement.by_partition(fingerprint, b"").get(self._partition, [])
        # Nearly every bucket has one document of the tail, so that one stands alone.
        taken = [bucket for bucket in buckets if bucket in self._tail]
        for bucket in taken:
            self._tail_others.setdefault(bucket, []).append(row)
        if taken:
            buckets = [bucket for bucket in buckets if bucket not in self._tail]
        self._tail.update(dict.fromkeys(buckets, row))

    def load(self, orders: NDArray[np.uint64], fingerprints: NDArray[np.uint64]) -> None:
        """Add many documents, to be met by the next look-up, which takes longer for that.

        Arrays as of ``BucketSegment``.
        """
        if not len(orders):
            return
        self._loaded.append((orders, fingerprints))
        if sum(len(each) for each, _ in self._loaded) >= _GATHERED_DOCUMENTS:
            self._take_loaded()

    def append(self, segment: BucketSegment) -> None:
        """Add a segment that was made before."""
        self._fetched.clear()
        self._segments.append(segment)

    def replace(self, before: BucketSegment, after: BucketSegment) -> None:
        """Put a segment in the place of an equal one whose columns lie elsewhere."""
        self._segments[self._segments.index(before)] = after

    def prefetch(self, lookups: Iterable[Sequence[Bucket]]) -> None:
        """Expect look-ups of these buckets of blocks, those of a document each, in this order."""
        self._fetched.clear()
        self._expected = {b"".join(buckets): buckets for buckets in lookups}
        self._place = {name: place for place, name in enumerate(self._expected)}

    def candidates(self, buckets: Sequence[Bucket]) -> Candidates:
        """Return what is in buckets of blocks."""
        self._take_loaded()
        orders, fingerprints = self._met_in_segments(buckets)
        tail, others = self._tail, self._tail_others
        new = [tail[bucket] for bucket in buckets if bucket in tail]
        if new:
            new += [row for bucket in buckets if bucket in others for row in others[bucket]]
            joined = b"".join([self._tail_fingerprints[row] for row in new])
            words = np.frombuffer(joined, dtype=np.uint64).reshape(len(new), self._words)
            fingerprints = np.concatenate([fingerprints, words])
            new_orders = np.array([self._tail_orders[row] for row in new], dtype=np.uint64)
            orders = np.concatenate([orders, new_orders])
        return Candidates(orders, fingerprints.view(np.uint8))

    def sizes(self, buckets: Sequence[Bucket]) -> list[int]:
        """Return how many documents are in each of some buckets of blocks."""
        keys = bucket_keys(self._placement.scheme, buckets)
        others = self._tail_others
        counts = np.array([(b in self._tail) + len(others.get(b, ())) for b in buckets])
        for segment in self._segments:
            counts += np.bincount(segment.meet(keys)[0], minlength=len(buckets))
        sizes: list[int] = counts.tolist()
        return sizes

    def settle(self) -> None:
        """Sort what has come together; documents may move, but look-ups meet the same."""
        self._expected, self._place, self._fetched = {}, {}, {}
        if len(self._tail_orders) >= TAIL_DOCUMENTS:
            self._seal_all()

    def _take_loaded(self) -> None:
        if not self._loaded:
            return
        if sum(len(each) for each, _ in self._loaded) + len(self._tail_orders) >= TAIL_DOCUMENTS:
            self._seal_all()
            return
        loaded, self._loaded = self._loaded, []
        for orders, words in loaded:
            fingerprints = [each.tobytes() for each in words]
            self._placement.prepare(fingerprints)
            for order, fingerprint in zip(orders.tolist(), fingerprints, strict=True):
                self.add(order, fingerprint)

    def _seal_all(self) -> None:
        """Make a segment of the tail and of what was loaded, which came later."""
        joined = np.frombuffer(b"".join(self._tail_fingerprints), dtype=np.uint64)
        orders = [np.array(self._tail_orders, dtype=np.uint64)]
        fingerprints = [joined.reshape(len(self._tail_orders), self._words)]
        orders += [each for each, _ in self._loaded]
        fingerprints += [each for _, each in self._loaded]
        self._fetched.clear()
        self._loaded, self._tail, self._tail_others = [], {}, {}
        self._tail_orders, self._tail_fingerprints = [], []
        self._seal(np.concatenate(orders), np.concatenate(fingerprints))

    def _seal(self, orders: NDArray[np.uint64], fingerprints: NDArray[np.uint64]) -> None:
        self._segments.append(self._built(orders, fingerprints))
        while (first := self._first_to_merge()) is not None:
            merged = self._segments[first:]
            self._segments[first:] = [
                self._built(
                    np.concatenate([each.orders for each in merged]),
                    np.concatenate([each.fingerprints for each in merged]),
                )
            ]

    def _first_to_merge(self) -> int | None:
        """Return from which segment on they are to be one; None: none are."""
        segments = self._segments
        size = _magnitude(segments[-1])
        first = len(segments)
        while first and _magnitude(segments[first - 1]) <= size:
            first -= 1
        run = segments[first:]
        if (
            len(run) < _SEGMENTS_MERGED
            or sum(len(each.rows) for each in run) > _MOST_ROWS
            or sum(each.documents for each in run) > _MOST_DOCUMENTS
        ):
            return None
        return first

    def _built(self, orders: NDArray[np.uint64], fingerprints: NDArray[np.uint64]) -> BucketSegment:
        return build_segment(self._placement, self._partition, orders, fingerprints)

    def _met_in_segments(self, buckets: Sequence[Bucket]) -> Loaded:
        name = b"".join(buckets)
        found = self._fetched.get(name)
        if found is not None:
            return found
        place = self._place.get(name)
        if place is None:
            return self._met_of([buckets])[0]
        names = list(islice(self._expected, place, place + _FETCHED_LOOKUPS))
        together = self._met_of([self._expected[each] for each in names])
        self._fetched = dict(zip(names, together, strict=True))
        return self._fetched[name]

    def _met_of(self, lookups: Sequence[Sequence[Bucket]]) -> list[Loaded]:
        """Return what is in the buckets of each look-up, in segments."""
        flat = [bucket for buckets in lookups for bucket in buckets]
        keys = bucket_keys(self._placement.scheme, flat)
        lookup_of = np.repeat(
            np.arange(len(lookups), dtype=np.uint32), [len(buckets) for buckets in lookups]
        )
        whose, orders, fingerprints = [lookup_of[:0]], [_NO_ORDERS], [self._no_fingerprints()]
        for segment in self._segments:
            asked, rows = segment.meet(keys)
            whose.append(lookup_of[asked])
            orders.append(segment.orders[rows])
            fingerprints.append(segment.fingerprints.take(rows, axis=0))
        all_whose = np.concatenate(whose)
        all_orders, all_fingerprints = np.concatenate(orders), np.concatenate(fingerprints)
        if len(lookups) == 1:
            return [(all_orders, all_fingerprints)]
        by_lookup = np.argsort(all_whose, kind="stable")
        all_orders, all_fingerprints = all_orders[by_lookup], all_fingerprints.take(by_lookup, 0)
        ends = np.cumsum(np.bincount(all_whose, minlength=len(lookups))).tolist()
        return [
            (all_orders[start:end], all_fingerprints[start:end])
            for start, end in zip([0, *ends], ends, strict=False)
        ]

    def _no_fingerprints(self) -> NDArray[np.uint64]:
        return np.empty((0, self._words), dtype=np.uint64)


def _magnitude(segment: BucketSegment) -> int:
    """Return how often a tail has been merged, about, to make a segment of this size."""
    magnitude, documents = 0, segment.documents
    while documents >= TAIL_DOCUMENTS * _SEGMENTS_MERGED:
        documents //= _SEGMENTS_MERGED
        magnitude += 1
    return magnitude
