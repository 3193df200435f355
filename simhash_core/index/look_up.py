"""The look-up of a packet: of each document the nearest document of the index that is near.

Near are two documents that share a block, are within the distance, and agree by their sketches
where the index confirms candidates; or that have equal content. Undecidable documents have no
fingerprint: they match by their content alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from simhash_core.document_columns import DocumentColumns
from simhash_core.entries import Entry
from simhash_core.fingerprints.blocks import BlockScheme
from simhash_core.index.document_index import DocumentIndex
from simhash_core.matches import Answer, Match, Neighbour
from simhash_core.text.verification import Confirmation


class EntrySource(Protocol):
    """Where the entries are whose fingerprints a ``DocumentIndex`` holds."""

    def entries(self, slot: int, sequences: Sequence[int]) -> list[Entry]:
        """Return entries by their sequence numbers; all are there."""
        ...

    def by_content(self, digest: bytes) -> tuple[int, Entry] | None:
        """Return the earliest undecidable document of a content: its sequence number and entry."""
        ...


class Similarity(NamedTuple):
    """How two near documents agree; ``value`` None for equal content and where nothing confirms."""

    exact: bool
    value: float | None


class Nearness:
    """What near means in one index."""

    def __init__(self, scheme: BlockScheme, confirmation: Confirmation | None) -> None:
        """Without ``confirmation`` the distance alone decides."""
        self.scheme = scheme
        self._confirmation = confirmation

    def similarity(
        self, distance: int, columns: DocumentColumns, row: int, digest: bytes, sketch: bytes
    ) -> Similarity | None:
        """Return how a document agrees with another within the distance; None: it does not."""
        if columns.digest(row) == digest:
            return Similarity(exact=True, value=None)
        if self._confirmation is None:
            return Similarity(exact=False, value=None)
        agreement = self._confirmation.agreement(distance, columns.sketches[row], sketch)
        return None if agreement is None else Similarity(exact=False, value=agreement)

    def estimate(self, distance: int, a: bytes, b: bytes) -> float | None:
        """Return how far two sketches agree, enough or not; None where nothing confirms."""
        if self._confirmation is None:
            return None
        return self._confirmation.verification.agreement(distance, a, b)

    def match(
        self,
        columns: DocumentColumns,
        row: int,
        distance: int,
        sequence: int,
        entry: Entry,
        similarity: Similarity,
    ) -> Match:
        """Return the match of a document with an entry."""
        block = None
        if not columns.undecidable[row]:
            block = self.scheme.first_shared_block(
                columns.fingerprints[row].tobytes(), entry.fingerprint
            )
        return Match(
            row,
            distance,
            sequence,
            entry.document_id,
            entry.source,
            entry.event_time_ms,
            block,
            similarity.exact,
            similarity.value,
        )


class LookUp:
    """Looks packets up in one index. Changes nothing."""

    def __init__(self, index: DocumentIndex, nearness: Nearness, source: EntrySource) -> None:
        """``source`` has the entries of all documents in ``index``."""
        self._index = index
        self._nearness = nearness
        self._source = source

    def matches(self, columns: DocumentColumns) -> list[Match]:
        """Return the nearest match of each document that has one, by row."""
        return self.matches_of([columns])[0]

    def matches_of(self, packets: Sequence[DocumentColumns]) -> list[list[Match]]:
        """Return the matches of several packets, looked up together: that costs less."""
        if not packets:
            return []
        found: list[list[Match]] = [self._of_content(columns) for columns in packets]
        decidable = [np.flatnonzero(columns.undecidable == 0) for columns in packets]
        packet_of = np.repeat(np.arange(len(packets)), [len(rows) for rows in decidable])
        row_of = np.concatenate(decidable)
        pairs = self._index.pairs(
            np.concatenate(
                [each.fingerprints[rows] for each, rows in zip(packets, decidable, strict=True)]
            )
        )
        matched = -1
        near = zip(
            pairs.rows.tolist(),
            pairs.distances.tolist(),
            pairs.sequences.tolist(),
            pairs.slots.tolist(),
            strict=True,
        )
        for document, distance, sequence, slot in near:
            if document == matched:
                continue
            row, matches = int(row_of[document]), found[packet_of[document]]
            columns = packets[packet_of[document]]
            entry = self._source.entries(slot, [sequence])[0]
            similarity = self._nearness.similarity(
                distance, columns, row, entry.content_digest, entry.sketch
            )
            if similarity is not None:
                matched = document
                matches.append(
                    self._nearness.match(columns, row, distance, sequence, entry, similarity)
                )
        return [sorted(matches, key=lambda match: match.row) for matches in found]

    def answer(self, columns: DocumentColumns, limit: int) -> Answer:
        """Return what the index says of one document, its ``limit`` nearest neighbours included."""
        match = next(iter(self.matches(columns)), None)
        if columns.undecidable[0]:
            neighbours = [] if match is None else [Neighbour(match, near=True)]
            return Answer(match, neighbours, len(neighbours), len(neighbours))
        pairs = self._index.nearest(columns.fingerprints, limit)
        counts = self._index.bucket_counts(columns.fingerprints)
        return Answer(
            match,
            [
                self._neighbour(columns, int(distance), int(sequence), int(slot))
                for _, distance, sequence, slot in zip(*pairs, strict=True)
            ],
            counts.candidates,
            counts.fullest,
        )

    def _neighbour(
        self, columns: DocumentColumns, distance: int, sequence: int, slot: int
    ) -> Neighbour:
        entry = self._source.entries(slot, [sequence])[0]
        return neighbour(self._nearness, columns, distance, sequence, entry)

    def _of_content(self, columns: DocumentColumns) -> list[Match]:
        """Return the matches of undecidable documents."""
        matches = []
        for row in np.flatnonzero(columns.undecidable).tolist():
            found = self._source.by_content(columns.digest(row))
            if found is not None:
                exact = Similarity(exact=True, value=None)
                matches.append(self._nearness.match(columns, row, 0, *found, exact))
        return matches


def neighbour(
    nearness: Nearness, columns: DocumentColumns, distance: int, sequence: int, entry: Entry
) -> Neighbour:
    """Return an entry as a neighbour of the one document of ``columns``, near or not."""
    similarity = None
    if distance <= nearness.scheme.distance:
        similarity = nearness.similarity(distance, columns, 0, entry.content_digest, entry.sketch)
    is_near = similarity is not None
    if similarity is None:
        estimate = nearness.estimate(distance, columns.sketches[0], entry.sketch)
        similarity = Similarity(exact=False, value=estimate)
    return Neighbour(
        nearness.match(columns, 0, distance, sequence, entry, similarity), near=is_near
    )


def joined_answer(answers: Iterable[Answer], limit: int) -> Answer:
    """Return what all parts of an index say of one document together."""
    match: Match | None = None
    neighbours: dict[int, Neighbour] = {}
    candidates = fullest = 0
    for answer in answers:
        if answer.match is not None and answer.match.is_nearer(match):
            match = answer.match
        neighbours |= {each.match.sequence: each for each in answer.neighbours}
        candidates += answer.candidates
        fullest += answer.fullest_bucket
    nearest = sorted(
        neighbours.values(), key=lambda each: (each.match.distance, each.match.sequence)
    )
    return Answer(match, nearest[:limit], candidates, fullest)
