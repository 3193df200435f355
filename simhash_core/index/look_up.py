"""The look-up of a packet: of each document the nearest document of the index that is near.

Near are two documents that share a bucket, are within the distance, and agree by their sketches
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
from simhash_core.index.prints import first_shared_bucket, joined_prints, prints_of
from simhash_core.index.view import WHOLE, View
from simhash_core.matches import Answer, Match, Neighbour
from simhash_core.text.profiles import REPLACE, Profile
from simhash_core.text.verification import Verifier
from simhash_core.window import Window


class EntrySource(Protocol):
    """Where the entries are whose fingerprints a ``DocumentIndex`` holds."""

    def entries(self, slot: int, sequences: Sequence[int]) -> list[Entry]:
        """Return entries by their sequence numbers, without those that are gone by now."""
        ...

    def by_content(self, digest: bytes) -> list[tuple[int, Entry]]:
        """Return the undecidable documents of a content, the earliest first, by their numbers."""
        ...


class Similarity(NamedTuple):
    """How two near documents agree; ``value`` None for equal content and where nothing confirms."""

    exact: bool
    value: float | None


class Nearness:
    """What near means in one index."""

    def __init__(
        self,
        scheme: BlockScheme,
        verifier: Verifier | None,
        window_ms: int | None = None,
        lateness_ms: int = 0,
        *,
        replaces: bool = False,
    ) -> None:
        """Without ``verifier`` the distance alone decides.

        ``window_ms``: how far apart the times of near documents are, at most; None: any time.
        ``lateness_ms``: how late a document may be and match all that are in its window.
        ``replaces``: a document takes the entries of its id out.
        """
        self.scheme = scheme
        self.window = None if window_ms is None else Window(window_ms, lateness_ms)
        self.replaces = replaces
        self._verifier = verifier

    @classmethod
    def of(cls, profile: Profile) -> Nearness:
        """Return what near means by a profile; raises ``UsageError`` for an invalid one."""
        return cls(
            profile.scheme(),
            profile.verifier(),
            profile.window,
            profile.lateness,
            replaces=profile.same_id == REPLACE,
        )

    @property
    def window_ms(self) -> int | None:
        """How far apart the times of near documents are, at most; None: any time."""
        return None if self.window is None else self.window.window_ms

    def similarity(
        self, distance: int, columns: DocumentColumns, row: int, entry: Entry
    ) -> Similarity | None:
        """Return how a document agrees with an entry within the distance; None: it does not."""
        if self.window is not None:
            apart_ms = abs(int(columns.times_ms[row]) - entry.event_time_ms)
            if apart_ms > self.window.window_ms:
                return None
        if columns.scope(row) != entry.scope:
            return None
        if columns.digest(row) == entry.content_digest:
            return Similarity(exact=True, value=None)
        if self._verifier is None:
            return Similarity(exact=False, value=None)
        similarity = self._verifier.similarity(distance, columns.sketches[row], entry.sketch)
        return None if similarity is None else Similarity(exact=False, value=similarity)

    def estimate(self, distance: int, a: bytes, b: bytes) -> float | None:
        """Return how far two sketches agree, enough or not; None where nothing confirms."""
        if self._verifier is None:
            return None
        return self._verifier.verification.similarity(distance, a, b)

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
            block = first_shared_bucket(
                self.scheme,
                columns.fingerprints[row].tobytes(),
                columns.sketches[row],
                entry.fingerprint,
                entry.sketch,
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

    def matches(self, columns: DocumentColumns, view: View = WHOLE) -> list[Match]:
        """Return the nearest match of each document that has one, by row."""
        return self.matches_of([columns], [view])[0]

    def matches_of(
        self, packets: Sequence[DocumentColumns], views: Sequence[View]
    ) -> list[list[Match]]:
        """Return the matches of several packets, looked up together: that costs less.

        ``views``: what each packet sees of the index.
        """
        if not packets:
            return []
        by_document: list[list[Match]] = [
            self._of_content(columns, view) for columns, view in zip(packets, views, strict=True)
        ]
        decidable = [np.flatnonzero(columns.undecidable == 0) for columns in packets]
        packet_of = np.repeat(np.arange(len(packets)), [len(rows) for rows in decidable])
        row_of = np.concatenate(decidable)
        pairs = self._index.pairs(
            joined_prints(
                [
                    prints_of(self._nearness.scheme, each, rows)
                    for each, rows in zip(packets, decidable, strict=True)
                ]
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
            row, packet = int(row_of[document]), int(packet_of[document])
            columns, view, matches = packets[packet], views[packet], by_document[packet]
            if sequence < view.expired_before:
                continue
            entry = next(iter(self._source.entries(slot, [sequence])), None)
            if entry is None or view.hides(row, sequence, entry.document_id):
                continue
            similarity = self._nearness.similarity(distance, columns, row, entry)
            if similarity is not None:
                matched = document
                matches.append(
                    self._nearness.match(columns, row, distance, sequence, entry, similarity)
                )
        return [sorted(matches, key=lambda match: match.row) for matches in by_document]

    def answer(self, columns: DocumentColumns, limit: int, view: View = WHOLE) -> Answer:
        """Return what the index says of one document, its ``limit`` nearest neighbours included."""
        match = next(iter(self.matches(columns, view)), None)
        if columns.undecidable[0]:
            neighbours = [] if match is None else [Neighbour(match, near=True)]
            return Answer(match, neighbours, len(neighbours), len(neighbours))
        prints = prints_of(self._nearness.scheme, columns)
        pairs = self._index.nearest(prints, limit)
        counts = self._index.bucket_counts(prints)
        neighbours = [
            neighbour(self._nearness, columns, int(distance), int(sequence), entry)
            for _, distance, sequence, slot in zip(*pairs, strict=True)
            if sequence >= view.expired_before
            for entry in self._source.entries(int(slot), [int(sequence)])
            if entry.scope == columns.scope(0)
            and not view.hides(0, int(sequence), entry.document_id)
        ]
        return Answer(match, neighbours, counts.candidates, counts.fullest)

    def _of_content(self, columns: DocumentColumns, view: View) -> list[Match]:
        """Return the matches of undecidable documents."""
        matches = []
        for row in columns.repeatable:
            for sequence, entry in self._source.by_content(columns.digest(row)):
                if view.hides(row, sequence, entry.document_id):
                    continue
                similarity = self._nearness.similarity(0, columns, row, entry)
                if similarity is not None:
                    matches.append(
                        self._nearness.match(columns, row, 0, sequence, entry, similarity)
                    )
                    break
        return matches


def neighbour(
    nearness: Nearness, columns: DocumentColumns, distance: int, sequence: int, entry: Entry
) -> Neighbour:
    """Return an entry as a neighbour of the one document of ``columns``, near or not."""
    similarity = None
    if distance <= nearness.scheme.distance:
        similarity = nearness.similarity(distance, columns, 0, entry)
    is_near = similarity is not None
    if similarity is None:
        if columns.digest(0) == entry.content_digest:  # at another time
            similarity = Similarity(exact=True, value=None)
        else:
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
