"""The look-up of a packet: the nearest document of the index for each document that has one.

Two documents are near if their content is equal, or if they share a bucket, are within the
distance, and (in an index with a verifier) have similar sketches. Undecidable documents have no
fingerprint and match by content alone.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from simhash_core.document_columns import DocumentColumns
from simhash_core.documents import Entry
from simhash_core.fingerprints.blocks import BlockScheme
from simhash_core.index.document_index import DocumentIndex
from simhash_core.index.known_sketches import MANY, KnownSketches, joined_words
from simhash_core.index.pairs import Pairs
from simhash_core.index.prints import first_shared_bucket, joined_prints, prints_of
from simhash_core.text.profiles import REPLACE, Profile
from simhash_core.text.verification import Verifier
from simhash_core.verdicts import Answer, Match, Neighbour
from simhash_core.window import Window

_NONE: Final[Mapping[bytes, int]] = MappingProxyType({})
_NO_ROWS: Final[Mapping[bytes, Sequence[int]]] = MappingProxyType({})
_KNOWN_TIMES: Final = 1 << 16
_NEVER_MS: Final = -(1 << 62)  # the time of an entry that is gone


class View(NamedTuple):
    """Which entries a packet or query may match: those that exist at its offset in the log.

    A look-up runs before the packets in front of it are decided. But the log already says which
    entries will be removed or expired at that offset.
    """

    first: int  # sequence number of its row 0
    expired_before: int = 0  # sequence number
    # Ids that undecided packets remove, with the sequence number of the first row that removes
    # each.
    removed: Mapping[bytes, int] = _NONE
    # Ids that rows of the packet itself remove, with these rows, rising.
    removing: Mapping[bytes, Sequence[int]] = _NO_ROWS

    def hides(self, row: int, sequence: int, document_id: str) -> bool:
        """Return whether the entry at ``sequence`` is gone for a row."""
        if self.has_expired(sequence):
            return True
        if not self.removed and not self.removing:
            return False
        name = document_id.encode()
        if self._is_removed(name):
            return True
        return _removes(self.removing.get(name, ()), sequence - self.first, row)

    def has_expired(self, sequence: int) -> bool:
        return sequence < self.expired_before

    def _is_removed(self, name: bytes) -> bool:
        return self.removed.get(name, self.first) < self.first


def _removes(removing: Sequence[int], own: int, row: int) -> bool:
    """Return whether one of these rows, which rise, removes an entry before ``row``.

    ``own`` is the row of the entry; < 0: it is older. All rows may be of one id, and this is called
    for each pair of them.
    """
    first = bisect_right(removing, own)
    return first < len(removing) and removing[first] <= row


WHOLE: Final = View(0)  # nothing was removed before, and nothing expires


class EntrySource(Protocol):
    """The entries of all shards of an index."""

    def entry(self, slot: int, sequence: int) -> Entry | None:
        """Return an entry of the shard with this slot; None if it is gone."""
        ...

    def by_content(self, digest: bytes) -> list[tuple[int, int]]:
        """Return the sequence numbers, rising, and slots of undecidable documents."""
        ...

    def with_ids(self, ids: Sequence[bytes]) -> list[list[tuple[int, int]]]:
        """Return shard and sequence number of the entries of each id."""
        ...


class Candidate(NamedTuple):
    """An entry that shares a bucket or the content with a document."""

    distance: int  # bits
    sequence: int
    entry: Entry


class _Similarity(NamedTuple):
    exact: bool  # equal content
    value: float | None  # of the sketches; None: equal content, or no verifier


class Nearness:
    """The rules of one index for which documents are near."""

    def __init__(
        self,
        scheme: BlockScheme,
        verifier: Verifier | None,
        window_ms: int | None = None,
        lateness_ms: int = 0,
        *,
        replaces: bool = False,
    ) -> None:
        """Without ``verifier`` the distance decides; without ``window_ms`` any time matches.

        With ``replaces``, a document removes the entries of its id. ``lateness_ms`` is the same as
        in ``Window``.
        """
        self.scheme = scheme
        self.window = None if window_ms is None else Window(window_ms, lateness_ms)
        self.replaces = replaces
        self.verifier = verifier

    @classmethod
    def of(cls, profile: Profile) -> Nearness:
        """Raises ``UsageError`` for an invalid profile."""
        return cls(
            profile.scheme(),
            profile.verifier(),
            profile.window,
            profile.lateness,
            replaces=profile.same_id == REPLACE,
        )

    @property
    def window_ms(self) -> int | None:
        return None if self.window is None else self.window.window_ms

    def words(self, columns: DocumentColumns, rows: NDArray[np.intp]) -> NDArray[np.uint64] | None:
        """Return sketches for ``known_sketches``; None if they are not compared at once."""
        return None if self.verifier is None else self.verifier.words(columns.sketches, rows)

    def match(
        self, columns: DocumentColumns, row: int, candidate: Candidate, view: View
    ) -> Match | None:
        """Return the match with an entry within the distance; None: it is hidden or not near."""
        if view.hides(row, candidate.sequence, candidate.entry.document_id):
            return None
        similarity = self._similarity(columns, row, candidate)
        return None if similarity is None else self._match(columns, row, candidate, similarity)

    def neighbours(
        self, columns: DocumentColumns, candidates: Iterable[Candidate], view: View
    ) -> list[Neighbour]:
        """Return the neighbours of the one document of ``columns``, near or not."""
        return [
            self._neighbour(columns, each)
            for each in candidates
            if _is_in_scope(columns, 0, each.entry)
            and not view.hides(0, each.sequence, each.entry.document_id)
        ]

    def _neighbour(self, columns: DocumentColumns, candidate: Candidate) -> Neighbour:
        similarity = None
        if candidate.distance <= self.scheme.distance:
            similarity = self._similarity(columns, 0, candidate)
        is_near = similarity is not None
        if similarity is None:
            exact = _has_content(columns, 0, candidate.entry)  # but outside the window
            similarity = _Similarity(exact, None if exact else self._estimate(columns, candidate))
        return Neighbour(self._match(columns, 0, candidate, similarity), near=is_near)

    def _estimate(self, columns: DocumentColumns, candidate: Candidate) -> float | None:
        if self.verifier is None:
            return None
        compare = self.verifier.verification.similarity
        return compare(candidate.distance, columns.sketches[0], candidate.entry.sketch)

    def _similarity(
        self, columns: DocumentColumns, row: int, candidate: Candidate
    ) -> _Similarity | None:
        """Return the similarity to an entry within the distance, or None if they are not near."""
        distance, _, entry = candidate
        apart_ms = abs(int(columns.times_ms[row]) - entry.event_time_ms)
        if not self._is_in_window(apart_ms) or not _is_in_scope(columns, row, entry):
            return None
        if _has_content(columns, row, entry):
            return _Similarity(exact=True, value=None)
        if self.verifier is None:
            return _Similarity(exact=False, value=None)
        similarity = self.verifier.similarity(distance, columns.sketches[row], entry.sketch)
        return None if similarity is None else _Similarity(exact=False, value=similarity)

    def _is_in_window(self, apart_ms: int) -> bool:
        return self.window is None or apart_ms <= self.window.window_ms

    def _match(
        self, columns: DocumentColumns, row: int, candidate: Candidate, similarity: _Similarity
    ) -> Match:
        distance, sequence, entry = candidate
        block = None
        if not columns.undecidable[row]:
            own = columns.fingerprints[row].tobytes(), columns.sketches[row]
            block = first_shared_bucket(self.scheme, *own, entry.fingerprint, entry.sketch)
        original = entry.document_id, entry.source, entry.event_time_ms
        return Match(row, distance, sequence, *original, block, *similarity)


def _is_in_scope(columns: DocumentColumns, row: int, entry: Entry) -> bool:
    return columns.scope(row) == entry.scope


def _has_content(columns: DocumentColumns, row: int, entry: Entry) -> bool:
    return columns.digest(row) == entry.content_digest


class LookUp:
    """Looks packets up in one index; changes nothing."""

    def __init__(self, index: DocumentIndex, nearness: Nearness, source: EntrySource) -> None:
        self._index = index
        self._nearness = nearness
        self._source = source
        self._known = KnownSketches(nearness.verifier)
        self._times_ms: dict[int, int] = {}  # by sequence number, of undecidable documents

    def matches(self, columns: DocumentColumns, view: View = WHOLE) -> list[Match]:
        return self.matches_of([columns], [view])[0]

    def matches_of(
        self, packets: Sequence[DocumentColumns], views: Sequence[View]
    ) -> list[list[Match]]:
        """Return the matches of several packets; one look-up for all is faster."""
        if not packets:
            return []
        by_document: list[list[Match]] = [
            self._of_content(columns, view) for columns, view in zip(packets, views, strict=True)
        ]
        decidable = [np.flatnonzero(columns.undecidable == 0) for columns in packets]
        packet_of = np.repeat(np.arange(len(packets)), [len(rows) for rows in decidable])
        row_of = np.concatenate(decidable)
        scheme, documents = self._nearness.scheme, zip(packets, decidable, strict=True)
        prints = joined_prints([prints_of(scheme, columns, rows) for columns, rows in documents])

        def maybe_similar(part: Pairs) -> Pairs:
            if len(part) <= MANY * prints.documents:
                return part
            words = [
                self._nearness.words(columns, rows)
                for columns, rows in zip(packets, decidable, strict=True)
            ]
            return self._known.without_dissimilar(part, joined_words(words))

        pairs = self._index.pairs(prints, maybe_similar)
        ends = np.flatnonzero(np.diff(pairs.rows, append=-1)) + 1
        first = 0
        for last in ends.tolist():
            document = int(pairs.rows[first])
            packet = int(packet_of[document])
            part = pairs.take(slice(first, last))
            match = self._nearest(packets[packet], int(row_of[document]), part, views[packet])
            if match is not None:
                by_document[packet].append(match)
            first = last
        return [sorted(matches, key=lambda match: match.row) for matches in by_document]

    def _nearest(
        self, columns: DocumentColumns, row: int, pairs: Pairs, view: View
    ) -> Match | None:
        are_many = len(pairs) > MANY
        if are_many:
            words = self._nearness.words(columns, np.array([row]))
            first = np.zeros(len(pairs), dtype=np.intp)
            pairs = self._known.without_dissimilar(
                Pairs(first, pairs.distances, pairs.sequences, pairs.slots), words
            )
        candidates = (pairs.distances, pairs.sequences, pairs.slots)
        for distance, sequence, slot in zip(*(c.tolist() for c in candidates), strict=True):
            if view.has_expired(sequence):
                continue
            entry = self._source.entry(slot, sequence)
            if entry is None:
                continue
            match = self._nearness.match(columns, row, Candidate(distance, sequence, entry), view)
            if match is not None:
                return match
            if are_many:
                self._known.note(sequence, entry.sketch)
        return None

    def answer(self, columns: DocumentColumns, limit: int, view: View = WHOLE) -> Answer:
        """Return what the index has for one document, with its ``limit`` nearest neighbours."""
        match = next(iter(self.matches(columns, view)), None)
        if columns.undecidable[0]:
            neighbours = [] if match is None else [Neighbour(match, near=True)]
            return Answer(match, neighbours, len(neighbours), len(neighbours))
        prints = prints_of(self._nearness.scheme, columns)
        pairs = self._index.nearest(prints, limit)
        counts = self._index.bucket_counts(prints)
        nearest = zip(*(column.tolist() for column in pairs), strict=True)
        candidates = (
            Candidate(distance, sequence, entry)
            for _, distance, sequence, slot in nearest
            if not view.has_expired(sequence)
            and (entry := self._source.entry(slot, sequence)) is not None
        )
        neighbours = self._nearness.neighbours(columns, candidates, view)
        return Answer(match, neighbours, counts.candidates, counts.fullest)

    def _of_content(self, columns: DocumentColumns, view: View) -> list[Match]:
        matches, window_ms = [], self._nearness.window_ms or 0
        repeats: dict[bytes, tuple[Sequence[tuple[int, int]], NDArray[np.int64] | None]] = {}
        for row in columns.repeatable:
            digest = columns.digest(row)
            if digest not in repeats:
                places = self._source.by_content(digest)
                repeats[digest] = places, self._times_of(places)
            near, times_ms = repeats[digest]
            if times_ms is not None:
                apart_ms = np.abs(times_ms - columns.times_ms[row])
                near = [near[at] for at in np.flatnonzero(apart_ms <= window_ms).tolist()]
            match = self._first_match(columns, row, near, view)
            if match is not None:
                matches.append(match)
        return matches

    def _first_match(
        self, columns: DocumentColumns, row: int, places: Iterable[tuple[int, int]], view: View
    ) -> Match | None:
        for sequence, slot in places:
            entry = None if view.has_expired(sequence) else self._source.entry(slot, sequence)
            if entry is not None:
                match = self._nearness.match(columns, row, Candidate(0, sequence, entry), view)
                if match is not None:
                    return match
        return None

    def _times_of(self, places: Sequence[tuple[int, int]]) -> NDArray[np.int64] | None:
        """Return the times of entries; None if there is no need to know them beforehand.

        With a short window, the index has thousands of entries of a text such as "ok", until they
        expire. All but two are out of the window of a document.
        """
        if self._nearness.window is None or len(places) <= MANY:
            return None
        known = self._times_ms
        for sequence, slot in places:
            if sequence not in known and (entry := self._source.entry(slot, sequence)) is not None:
                known[sequence] = entry.event_time_ms
        times_ms = np.array([known.get(each, _NEVER_MS) for each, _ in places], dtype=np.int64)
        if len(known) > _KNOWN_TIMES:
            known.clear()
        return times_ms


def joined_answer(answers: Iterable[Answer], limit: int) -> Answer:
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
