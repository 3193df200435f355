"""The nearest match of each document of a packet, the documents in order.

A document's match must be a unique document, and whether one of the same packet is unique depends
on its own match. So the pairs are gone through in order: only documents that meet something cost a
statement each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import numpy as np

from simhash_core.entries import Entry
from simhash_core.index.document_index import DocumentIndex
from simhash_core.index.look_up import Nearness, Similarity
from simhash_core.index.near_rows import near_rows
from simhash_core.log.packets import NO_OFFSET, DocumentColumns
from simhash_core.log.records import Match
from simhash_core.log.sequence import index_of, log_offset_of, sequence_number

Pair = tuple[int, int, int]
"""A document with a candidate: its row, the distance in bits, the candidate's sequence number."""

_COMPARED_WHOLE: Final = 1024
"""Packets up to so many documents are compared each with each."""


def match_nearest(
    nearness: Nearness,
    columns: DocumentColumns,
    pairs: Iterable[Pair],
    best: dict[int, Match],
    entry: Callable[[int], Entry],
    offset: int = NO_OFFSET,
) -> None:
    """Put into ``best`` the nearest match of each row; it holds those that are known so far.

    ``entry`` gives the candidates of ``pairs`` by sequence number. Those of the packet itself,
    which is at ``offset`` of the log, count only if they turned out to be unique.
    """
    settled = -1
    for row, distance, sequence in sorted(pairs):
        if row == settled:
            continue
        known = best.get(row)
        if known and (distance, sequence) >= (known.distance, known.sequence):
            settled = row
            continue
        if log_offset_of(sequence) == offset and index_of(sequence) in best:
            continue
        candidate = entry(sequence)
        similarity: Similarity | None = Similarity(exact=True, value=None)
        if not columns.undecidable[row]:
            similarity = nearness.similarity(
                distance, columns, row, candidate.content_digest, candidate.sketch
            )
        if similarity is not None:
            best[row] = nearness.match(columns, row, distance, sequence, candidate, similarity)
            settled = row


def own_pairs(nearness: Nearness, offset: int, columns: DocumentColumns) -> Iterator[Pair]:
    """Yield the documents of a packet with the earlier ones of it, which is at ``offset``."""
    decidable = np.flatnonzero(columns.undecidable == 0)
    fingerprints = columns.fingerprints[decidable]
    if len(decidable) <= _COMPARED_WHOLE:
        rows, others, distances = near_rows(nearness.scheme, fingerprints, fingerprints)
    else:
        index = DocumentIndex(nearness.scheme)
        slot = index.open_slot()
        index.add(slot, np.arange(len(decidable), dtype=np.uint64), fingerprints)
        pairs = index.pairs(fingerprints)
        rows, others, distances = pairs.rows, pairs.sequences.astype(np.intp), pairs.distances
    earlier = others < rows
    for row, other, distance in zip(
        decidable[rows[earlier]].tolist(),
        decidable[others[earlier]].tolist(),
        distances[earlier].tolist(),
        strict=True,
    ):
        yield row, distance, sequence_number(offset, other)
    first: dict[bytes, int] = {}
    for row in np.flatnonzero(columns.undecidable).tolist():
        other = first.setdefault(columns.digest(row), row)
        if other != row:
            yield row, 0, sequence_number(offset, other)
