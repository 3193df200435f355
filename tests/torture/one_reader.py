"""The answers of a single worker that reads the log in order, by brute force without an index."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tests.rigs.invariants import Known, Nearness
from tests.torture.history import LoggedRow

SLICES = 16


class Unique(NamedTuple):
    name: str
    known: Known
    place: int  # position among all rows of the log
    before: int  # the slice of the watermark before its bundle
    after: int  # the slice after its bundle, by which it expires


class Answers(NamedTuple):
    originals: dict[str, str | None]  # the original of each document; None: the document is unique
    removed: dict[str, set[str]]  # the unique documents that a row removes
    uniques: dict[str, Unique]
    removed_at: dict[str, int]  # the position of the row that removed a unique document
    left: set[str]  # the unique documents that are neither removed nor expired

    def met(self, one: str, other: str) -> bool:
        """Return whether the earlier document was in the index when the later one came.

        Also true if one of them is not unique here.
        """
        if not (one in self.uniques and other in self.uniques):
            return True
        first, second = sorted((self.uniques[one], self.uniques[other]), key=lambda u: u.place)
        gone = self.removed_at.get(first.name, second.place + 1) <= second.place
        return not gone and second.before - first.after <= SLICES


class OneReader:
    """Answers for documents, given in the order of the log."""

    def __init__(
        self, near: Nearness, slice_ms: int | None = None, *, replaces: bool = False
    ) -> None:
        """``slice_ms``: of the window; ``replaces``: a document removes those with its id."""
        self._near = near
        self._slice_ms = slice_ms
        self._replaces = replaces
        self._uniques: list[Unique] = []
        self._words = np.zeros((near.scheme.bits // 64, 1024), dtype=np.uint64)
        self._contents: dict[bytes, list[Unique]] = defaultdict(list)
        self._by_id: dict[str, list[Unique]] = defaultdict(list)
        self._removed_at: dict[str, int] = {}
        self._slice = 0

    def answers(self, rows: Sequence[LoggedRow], known: Mapping[str, Known]) -> Answers:
        originals: dict[str, str | None] = {}
        removed: dict[str, set[str]] = {}
        for place, row in enumerate(rows):
            name = str(row.source)
            self._slice = self._slice_of(row.before)
            if row.is_delete or self._replaces:
                gone = self._take_out(row.document_id, place)
                if gone:
                    removed[name] = gone
            if row.is_delete:
                continue
            found = known[name]
            decide = self._of_content if found.fingerprint is None else self._nearest
            originals[name] = decide(found)
            if originals[name] is None:
                after = self._slice_of(row.after)
                self._add(Unique(name, found, place, self._slice, after), row.document_id)
        if rows:
            self._slice = self._slice_of(rows[-1].after)
        everyone = [*self._uniques, *(u for found in self._contents.values() for u in found)]
        return Answers(
            originals,
            removed,
            {each.name: each for each in everyone},
            self._removed_at,
            {each.name for each in everyone if self._is_there(each)},
        )

    def _slice_of(self, watermark: int) -> int:
        return 0 if self._slice_ms is None else watermark // self._slice_ms

    def _is_there(self, unique: Unique) -> bool:
        return unique.name not in self._removed_at and self._slice - unique.after <= SLICES

    def _take_out(self, document_id: str, place: int) -> set[str]:
        gone = {each.name for each in self._by_id[document_id] if self._is_there(each)}
        self._removed_at |= dict.fromkeys(gone, place)
        return gone

    def _of_content(self, document: Known) -> str | None:
        for each in self._contents[document.content_digest]:
            if self._is_there(each) and self._near.may_be_candidates(document, each.known):
                return each.name
        return None

    def _nearest(self, document: Known) -> str | None:
        words = np.frombuffer(document.fingerprint or b"", np.uint64)
        differing = self._words[:, : len(self._uniques)] ^ words[:, None]
        distances = np.bitwise_count(differing).sum(axis=0, dtype=np.uint16)
        near = np.flatnonzero(distances <= self._near.scheme.distance)
        for distance, number in sorted((int(distances[n]), int(n)) for n in near):
            each = self._uniques[number]
            shared = self._near.share_a_bucket(document, each.known)
            if not (shared and self._is_there(each)):
                continue
            if self._near.confirms(distance, document, each.known):
                return each.name
        return None

    def _add(self, unique: Unique, document_id: str) -> None:
        self._by_id[document_id].append(unique)
        if unique.known.fingerprint is None:
            self._contents[unique.known.content_digest].append(unique)
            return
        count, room = len(self._uniques), self._words.shape[1]
        if count == room:
            self._words = np.concatenate([self._words, np.zeros_like(self._words)], axis=1)
        self._words[:, count] = np.frombuffer(unique.known.fingerprint, np.uint64)
        self._uniques.append(unique)
