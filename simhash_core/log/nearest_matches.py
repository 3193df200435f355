"""The nearest match of each document of a packet, the documents in order.

A document's match must be a unique document, and whether one of the same packet is unique depends
on its own match. So the pairs are gone through in order: only documents that match something cost a
statement each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simhash_core.document_columns import DocumentColumns
from simhash_core.entries import Entry
from simhash_core.fingerprints.blocks import BlockScheme
from simhash_core.index.document_index import DocumentIndex
from simhash_core.index.look_up import Nearness
from simhash_core.index.near_rows import near_earlier_rows
from simhash_core.index.prints import Prints, joined_prints, prints_of
from simhash_core.index.view import View
from simhash_core.log.sequence import index_of, log_offset_of, sequence_number
from simhash_core.matches import Match

Pair = tuple[int, int, int]
"""A document with a candidate: its row, the distance in bits, the candidate's sequence number."""

_COMPARED_WHOLE: Final = 1024
"""Packets up to so many documents are compared each with each."""


def match_nearest(
    nearness: Nearness,
    columns: DocumentColumns,
    pairs: Iterable[Pair],
    best: dict[int, Match],
    entry: Callable[[int], Entry | None],
    view: View,
) -> None:
    """Put into ``best`` the nearest match of each row; it holds those that are known so far.

    ``entry`` gives the candidates of ``pairs`` by sequence number, None for one that is not unique.
    Those of the packet itself count only if they turned out to be unique. ``view``: what the packet
    sees.
    """
    offset = log_offset_of(view.first)
    confirmed = -1
    for row, distance, sequence in sorted(pairs):
        if row == confirmed:
            continue
        known = best.get(row)
        if known and (distance, sequence) >= (known.distance, known.sequence):
            confirmed = row
            continue
        if log_offset_of(sequence) == offset and index_of(sequence) in best:
            continue
        candidate = entry(sequence)
        if candidate is None or view.hides(row, sequence, candidate.document_id):
            continue
        similarity = nearness.similarity(distance, columns, row, candidate)
        if similarity is not None:
            best[row] = nearness.match(columns, row, distance, sequence, candidate, similarity)
            confirmed = row


def own_pairs(nearness: Nearness, view: View, columns: DocumentColumns) -> Iterator[Pair]:
    """Yield the documents of a packet with the earlier ones of it."""
    offset = log_offset_of(view.first)
    documents = compared(nearness.scheme, [(offset, columns)])
    yield from near_pairs(nearness, documents)[offset]
    yield from own_repeats(nearness, view, columns)


class Compared(NamedTuple):
    """The decidable documents of packets, which are compared together.

    ``packets``: offsets in the log, rising. ``offsets``: int64, of the packet of each document.
    ``rows``: intp, in its packet. ``prints``: in step.
    """

    packets: Sequence[int]
    offsets: NDArray[np.int64]
    rows: NDArray[np.intp]
    prints: Prints


def compared(scheme: BlockScheme, packets: Sequence[tuple[int, DocumentColumns]]) -> Compared:
    """Return the decidable documents of packets, which come with their offsets in the log."""
    rows_of = [np.flatnonzero(columns.undecidable == 0) for _, columns in packets]
    offsets = np.array([offset for offset, _ in packets], dtype=np.int64)
    prints = [
        prints_of(scheme, columns, rows)
        for (_, columns), rows in zip(packets, rows_of, strict=True)
    ]
    return Compared(
        offsets.tolist(),
        np.repeat(offsets, [len(rows) for rows in rows_of]),
        np.concatenate(rows_of),
        joined_prints(prints),
    )


def near_pairs(nearness: Nearness, documents: Compared) -> dict[int, list[Pair]]:
    """Return documents with the earlier ones that are near them, by offset of the packet."""
    rows, others, distances = _earlier(nearness, documents.prints)
    pairs: dict[int, list[Pair]] = {offset: [] for offset in documents.packets}
    for offset, row, distance, other_offset, other in zip(
        documents.offsets[rows].tolist(),
        documents.rows[rows].tolist(),
        distances.tolist(),
        documents.offsets[others].tolist(),
        documents.rows[others].tolist(),
        strict=True,
    ):
        pairs[offset].append((row, distance, sequence_number(other_offset, other)))
    return pairs


def own_repeats(nearness: Nearness, view: View, columns: DocumentColumns) -> Iterator[Pair]:
    """Yield the undecidable documents of a packet with earlier ones that have their content.

    The first of a content is enough, unless it may be out of the window, or taken out by then.
    """
    is_first_enough = nearness.window_ms is None and not view.removing
    earlier: dict[bytes, list[int]] = {}
    for row in columns.repeatable:
        others = earlier.setdefault(columns.digest(row), [])
        for other in others:
            yield row, 0, view.first + other
        if not (is_first_enough and others):
            others.append(row)


def _earlier(
    nearness: Nearness, prints: Prints
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.uint16]]:
    """Return which documents are near earlier ones: both rows, and the distance in bits."""
    if prints.documents <= _COMPARED_WHOLE:
        return near_earlier_rows(nearness.scheme, prints)
    index = DocumentIndex(nearness.scheme)
    index.add(index.open_slot(), np.arange(prints.documents, dtype=np.uint64), prints)
    pairs = index.pairs(prints)
    rows, others, distances = pairs.rows, pairs.sequences.astype(np.intp), pairs.distances
    earlier = others < rows
    return rows[earlier], others[earlier], distances[earlier]
