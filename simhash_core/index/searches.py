"""Look-ups in what an index holds at one moment: its memtable and its segments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simhash_core.fingerprints.blocks import BlockScheme
from simhash_core.index.hot_buckets import BYTE_WORDS
from simhash_core.index.kept_segment import KeptSegment
from simhash_core.index.memtable import Rows
from simhash_core.index.near_rows import near_rows
from simhash_core.index.pairs import Pairs, sorted_pairs
from simhash_core.index.prints import Prints, bucket_values, shared
from simhash_core.index.segment import Candidates, Segment, question

_COMPARED_ROWS: Final = 256
"""Documents compared with the memtable at one time."""


class Seen(NamedTuple):
    """What a look-up sees. ``visible``: bool (slots,). ``window_ms``: as of ``DocumentIndex``."""

    scheme: BlockScheme
    window_ms: int | None
    visible: NDArray[np.bool_]
    memtable: Rows
    segments: Sequence[KeptSegment]


class BucketCounts(NamedTuple):
    """``candidates``: documents that share a bucket. ``fullest``: those in the fullest bucket."""

    candidates: int
    fullest: int


def pairs_in_memtable(seen: Seen, prints: Prints) -> Iterator[Pairs]:
    """Yield what documents have near them in the memtable, which is compared whole."""
    part = seen.memtable
    if not part.documents:
        return
    for first in range(0, prints.documents, _COMPARED_ROWS):
        chunk = prints.take(slice(first, first + _COMPARED_ROWS))
        rows, others, distances = near_rows(seen.scheme, chunk, part.prints)
        live = seen.visible[part.slots[others]]
        live &= _in_window(seen.window_ms, chunk.times_ms[rows], part.prints.times_ms, others)
        rows, others, distances = rows[live], others[live], distances[live]
        yield Pairs(rows + first, distances, part.sequences[others], part.slots[others])


def pairs_of(seen: Seen, kept: KeptSegment, candidates: Candidates, prints: Prints) -> Pairs:
    """Keep the candidates within the distance."""
    segment = kept.segment
    differing = segment.fingerprints.take(candidates.rows, axis=0)
    differing ^= prints.fingerprints.take(candidates.documents, axis=0)
    ones = np.bitwise_count(differing)
    of_some = ones[:, 0].copy()
    for word in range(1, min(ones.shape[1], BYTE_WORDS)):
        of_some += ones[:, word]
    near = np.flatnonzero(of_some <= seen.scheme.distance)
    distances = ones[near].sum(axis=1, dtype=np.uint16)
    within = distances <= seen.scheme.distance
    near, distances = near[within], distances[within]
    documents, rows = candidates.documents[near], candidates.rows[near]
    slots = segment.slots[rows]
    live = seen.visible[slots] & kept.shown(rows)
    live &= _in_window(seen.window_ms, prints.times_ms[documents], segment.times_ms, rows)
    documents, rows = documents[live], rows[live]
    return Pairs(documents, distances[live], segment.sequences.take(rows), slots[live])


def bucket_counts(seen: Seen, prints: Prints) -> BucketCounts:
    """Return how many documents share a bucket with one, the only one of ``prints``."""
    sizes = np.zeros(seen.scheme.all_buckets, dtype=np.intp)
    for _, columns, _ in _candidates(seen, prints):
        sizes += np.bincount(columns, minlength=len(sizes))
    return BucketCounts(int(sizes.sum()), int(sizes.max(initial=0)))


def nearest(seen: Seen, prints: Prints, limit: int) -> Pairs:
    """Return the ``limit`` nearest documents that share a bucket with one, however far."""
    parts = []
    for part, _, candidates in _candidates(seen, prints):
        rows = np.unique(candidates)
        fingerprints = part.prints.fingerprints if isinstance(part, Rows) else part.fingerprints
        distances = _distances(fingerprints[rows], prints.fingerprints[:1])
        nearest = np.argsort(distances, kind="stable")[: 2 * limit]
        kept = rows[nearest]
        sequences = part.sequences[kept] if isinstance(part, Rows) else part.sequences.take(kept)
        parts.append(
            Pairs(
                np.zeros(len(nearest), dtype=np.intp),
                distances[nearest],
                sequences,
                part.slots[kept],
            )
        )
    pairs = sorted_pairs(parts)
    return Pairs(
        pairs.rows[:limit],
        pairs.distances[:limit],
        pairs.sequences[:limit],
        pairs.slots[:limit],
    )


def _candidates(
    seen: Seen, prints: Prints
) -> Iterator[tuple[Segment | Rows, NDArray[np.intp], NDArray[np.intp]]]:
    """Yield what shares a bucket with one document: a part, columns, and its rows."""
    looked_up = question(seen.scheme, prints)
    part = seen.memtable
    if part.documents:
        theirs = bucket_values(seen.scheme, part.prints)
        rows, columns = np.nonzero(shared(seen.scheme, looked_up.values, theirs))
        live = seen.visible[part.slots[rows]]
        yield part, columns[live], rows[live]
    for kept in seen.segments:
        for candidates in kept.segment.candidates(looked_up, within=False):
            live = seen.visible[kept.segment.slots[candidates.rows]] & kept.shown(candidates.rows)
            yield kept.segment, candidates.columns[live], candidates.rows[live].astype(np.intp)


def _in_window(
    window_ms: int | None,
    times_ms: NDArray[np.int64],
    others_ms: NDArray[np.int64],
    rows: NDArray[np.intp] | NDArray[np.uint32],
) -> NDArray[np.bool_] | np.bool_:
    """Return which documents are near by their times; ``rows``: of ``others_ms``."""
    if window_ms is None:
        return np.True_
    within: NDArray[np.bool_] = np.abs(times_ms - others_ms[rows]) <= window_ms
    return within


def _distances(
    fingerprints: NDArray[np.uint64], fingerprint: NDArray[np.uint64]
) -> NDArray[np.uint16]:
    summed: NDArray[np.uint16] = np.bitwise_count(fingerprints ^ fingerprint).sum(
        axis=1, dtype=np.uint16
    )
    return summed
