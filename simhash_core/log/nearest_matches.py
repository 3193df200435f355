"""The nearest match of each document of a bundle, in the order of the documents.

A match must be a unique document, and whether a document of the same bundle is unique depends on
its own match. So pairs are visited in order. Documents without pairs cost no time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simhash_core.document_columns import DocumentColumns
from simhash_core.documents import Entry
from simhash_core.index.document_index import DocumentIndex
from simhash_core.index.known_sketches import are_similar, joined_words
from simhash_core.index.look_up import Candidate, Nearness, View
from simhash_core.index.pairs import NearRows, near_earlier_rows
from simhash_core.index.prints import Prints, joined_prints, prints_of
from simhash_core.log.records import index_of, log_offset_of, sequence_number
from simhash_core.verdicts import Match

Pair = tuple[int, int, int]
"""Row, distance in bits, and sequence number of the candidate."""

# Up to this size, all documents of a bundle are compared with each other. A larger one is compared
# in parts of this size, because many similar documents would have many millions of pairs.
_COMPARED_WHOLE: Final = 256


def match_nearest(
    nearness: Nearness,
    columns: DocumentColumns,
    pairs: Iterable[Pair],
    best: dict[int, Match],
    entry: Callable[[int], Entry | None],
    view: View,
) -> None:
    """Put the nearest match of each row into ``best``, which may already hold matches.

    ``entry`` returns None for a candidate that is not unique. Candidates of the bundle itself count
    only if they are unique.
    """
    offset = log_offset_of(view.first)
    confirmed = -1
    for row, distance, sequence in sorted(pairs):
        if row == confirmed:
            continue
        known = best.get(row)
        if known and not _is_nearer(distance, sequence, known):
            confirmed = row
            continue
        if _is_duplicate(sequence, offset, best):
            continue
        original = entry(sequence)
        if original is None:
            continue
        match = nearness.match(columns, row, Candidate(distance, sequence, original), view)
        if match is not None:
            best[row] = match
            confirmed = row


def match_bundle(
    nearness: Nearness,
    columns: DocumentColumns,
    pairs: Iterable[Pair],
    best: dict[int, Match],
    entry: Callable[[int], Entry | None],
    view: View,
    counting: NDArray[np.bool_],
) -> None:
    """Put the nearest match of each row that counts into ``best``, as ``match_nearest`` does.

    ``pairs`` has the near pairs within the bundle too, unless it ``is_large``. Those of a large one
    are searched here, only among the unique rows of its earlier parts. ``counting``: bool (rows,).
    """
    repeatable = [row for row in columns.repeatable if counting[row]]
    contents: dict[bytes, list[int]] = {}
    if not is_large(columns):
        repeats = own_repeats(nearness, view, columns, repeatable, contents)
        match_nearest(nearness, columns, [*pairs, *repeats], best, entry, view)
        return
    found: list[list[Pair]] = [[] for _ in range(0, len(columns), _COMPARED_WHOLE)]
    for pair in pairs:
        found[pair[0] // _COMPARED_WHOLE].append(pair)
    prints = prints_of(nearness.scheme, columns)
    decidable = np.flatnonzero(counting & (columns.undecidable == 0))
    words = nearness.words(columns, decidable)
    uniques = DocumentIndex(nearness.scheme)  # by place in ``decidable``
    slot = uniques.open_slot()
    for part, with_others in enumerate(found):
        first, last = part * _COMPARED_WHOLE, (part + 1) * _COMPARED_WHOLE
        start, stop = np.searchsorted(decidable, (first, last)).tolist()
        places, part_prints = np.arange(start, stop), prints.take(decidable[start:stop])
        later, earlier, distances = near_earlier_rows(nearness.scheme, part_prints)
        older = uniques.pairs(part_prints)
        later, earlier, distances = _similar(
            nearness,
            words,
            places[np.concatenate((later, older.rows))],
            np.concatenate((places[earlier], older.sequences.astype(np.intp))),
            np.concatenate((distances, older.distances)),
        )
        sequences = view.first + decidable[earlier]
        near = zip(decidable[later].tolist(), distances.tolist(), sequences.tolist(), strict=True)
        repeated = [row for row in repeatable if first <= row < last]
        repeats = own_repeats(nearness, view, columns, repeated, contents)
        match_nearest(nearness, columns, [*with_others, *near, *repeats], best, entry, view)
        rows = decidable[start:stop].tolist()
        unique = np.array([row not in best for row in rows], dtype=np.bool_)
        uniques.add(slot, places[unique].astype(np.uint64), part_prints.take(unique))
        for others in contents.values():
            others[:] = [row for row in others if row not in best]


def is_large(columns: DocumentColumns) -> bool:
    """Return whether ``match_bundle`` searches for the near pairs within the bundle itself."""
    return len(columns) > _COMPARED_WHOLE


def _similar(
    nearness: Nearness,
    words: NDArray[np.uint64] | None,
    rows: NDArray[np.intp],
    others: NDArray[np.intp],
    distances: NDArray[np.uint16],
) -> NearRows:
    """Return the pairs whose sketches are similar, as far as this can be said of many at once.

    ``rows`` and ``others`` select from ``words``. The rest is verified one by one.
    """
    if words is None or nearness.verifier is None:
        return rows, others, distances
    kept = are_similar(nearness.verifier, distances, words, rows, words, others)
    return rows[kept], others[kept], distances[kept]


def _is_nearer(distance: int, sequence: int, known: Match) -> bool:
    return (distance, sequence) < (known.distance, known.sequence)


def _is_duplicate(sequence: int, offset: int, best: Mapping[int, Match]) -> bool:
    return log_offset_of(sequence) == offset and index_of(sequence) in best


def own_pairs(nearness: Nearness, view: View, columns: DocumentColumns) -> list[Pair]:
    """Return the near pairs within a bundle, for ``match_bundle``."""
    if len(columns) <= 1 or is_large(columns):
        return []
    offset = log_offset_of(view.first)
    return near_pairs(nearness, compared(nearness, [(offset, columns)]))[offset]


class Compared(NamedTuple):
    """The decidable documents of several bundles, compared together."""

    bundles: Sequence[int]  # rising offsets in the log
    offsets: NDArray[np.int64]  # of each document's bundle
    rows: NDArray[np.intp]  # in that bundle
    prints: Prints
    words: NDArray[np.uint64] | None  # of their sketches; None: compare them one by one


def compared(nearness: Nearness, bundles: Sequence[tuple[int, DocumentColumns]]) -> Compared:
    rows_of = [np.flatnonzero(columns.undecidable == 0) for _, columns in bundles]
    offsets = np.array([offset for offset, _ in bundles], dtype=np.int64)
    prints = [
        prints_of(nearness.scheme, columns, rows)
        for (_, columns), rows in zip(bundles, rows_of, strict=True)
    ]
    words = [
        nearness.words(columns, rows) for (_, columns), rows in zip(bundles, rows_of, strict=True)
    ]
    return Compared(
        offsets.tolist(),
        np.repeat(offsets, [len(rows) for rows in rows_of]),
        np.concatenate(rows_of),
        joined_prints(prints),
        joined_words(words),
    )


def near_pairs(nearness: Nearness, documents: Compared) -> dict[int, list[Pair]]:
    """Return pairs of near documents by the later one's bundle; the later one comes first."""
    near = near_earlier_rows(nearness.scheme, documents.prints)
    rows, others, distances = _similar(nearness, documents.words, *near)
    pairs: dict[int, list[Pair]] = {offset: [] for offset in documents.bundles}
    later = documents.offsets[rows], documents.rows[rows], distances
    earlier = documents.offsets[others], documents.rows[others]
    columns = [column.tolist() for column in (*later, *earlier)]
    for offset, row, distance, other_offset, other in zip(*columns, strict=True):
        pairs[offset].append((row, distance, sequence_number(other_offset, other)))
    return pairs


def own_repeats(
    nearness: Nearness,
    view: View,
    columns: DocumentColumns,
    repeatable: Iterable[int],
    contents: dict[bytes, list[int]],
) -> Iterator[Pair]:
    """Yield undecidable documents with earlier ones of the same content in the same bundle.

    ``contents`` has the earlier rows of each content, and gets these. The first document of a
    content is enough, unless it may be out of the window or removed when the later one follows.
    """
    is_first_enough = _is_first_enough(nearness, view)
    window_ms, times_ms = nearness.window_ms, columns.times_ms.tolist()
    for row in repeatable:
        others = contents.setdefault(columns.digest(row), [])
        for other in others:
            if window_ms is None or abs(times_ms[row] - times_ms[other]) <= window_ms:
                yield row, 0, view.first + other
        if not (is_first_enough and others):
            others.append(row)


def _is_first_enough(nearness: Nearness, view: View) -> bool:
    return nearness.window_ms is None and not view.removing
