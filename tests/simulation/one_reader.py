"""The verdicts of one worker that reads the log alone and in order, by brute force.

It uses no code of the product except the numbers of the block scheme and the verifier: it checks
chains, counts distances, and compares all documents with each other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import Enum, auto
from typing import NamedTuple

from simhash_core.documents import SourcePosition
from simhash_core.log.records import Bundle, Chain
from tests.rigs.invariants import band_key
from tests.simulation.documents import SimulatedDocument
from tests.simulation.scenario import IndexScenario

SLICES = 16


class Dated(Enum):
    IN_TIME = auto()
    LATE = auto()  # by more than the lateness, after documents before it in the log or its bundle
    FUTURE = auto()  # after its append


class Original(NamedTuple):
    """A unique document and its position in the log, with the slices of the watermark there."""

    sequence: int
    source: SourcePosition
    document: SimulatedDocument
    before: int  # the slice before its bundle, by which earlier documents had expired for it
    after: int  # the slice after its bundle, by which it expires
    dated: Dated


class Truth(NamedTuple):
    """The right answer for a document or delete.

    ``original`` is None if it is unique or a delete. ``removed`` are the documents that it removes.
    """

    sequence: int
    original: Original | None
    distance: int
    similarity: float | None
    removed: tuple[Original, ...] = ()


class OneReader:
    def __init__(self, scenario: IndexScenario) -> None:
        self.uniques: list[Original] = []
        self.removed_at: dict[int, int] = {}
        """Where each unique document was removed, by sequence number."""
        self._live: list[Original] = []
        self._scheme = scenario.scheme
        self._verifier = scenario.verifier
        self._window = scenario.window
        self._replaces = scenario.replaces
        self._heads: dict[Chain, int] = {}
        self._watermark = -1  # after the bundles before
        self._after = -1  # after the bundle that is read

    def bundle(
        self, offset: int, bundle: Bundle, documents: Sequence[SimulatedDocument], appended_ms: int
    ) -> list[list[Truth] | None]:
        """Return the answers for each packet's documents; None if the packet does not count."""
        dated = self._dated(documents, appended_ms)
        said: list[list[Truth] | None] = []
        for packet in bundle.packets():
            if packet.previous != self._heads.get(packet.chain, -1):
                said.append(None)
                continue
            self._heads[packet.chain] = packet.last
            rows = range(packet.first, packet.first + len(packet))
            said.append(
                [
                    self._say(
                        offset * 65536 + row,
                        documents[row],
                        packet.source(row - rows[0]),
                        dated[row],
                    )
                    for row in rows
                ]
            )
        self._watermark = self._after
        return said

    def _dated(self, documents: Sequence[SimulatedDocument], appended_ms: int) -> list[Dated]:
        """Advance the watermark after the bundle; return how each document stands to it."""
        lateness_ms = 0 if self._window is None else self._window.lateness_ms
        dated = []
        for document in documents:
            time_ms = document.time_ms
            late = time_ms < self._after - lateness_ms
            dated.append(
                Dated.FUTURE if time_ms > appended_ms else Dated.LATE if late else Dated.IN_TIME
            )
            if not document.is_delete:
                self._after = max(self._after, min(time_ms, appended_ms))
        return dated

    def _say(
        self, sequence: int, document: SimulatedDocument, source: SourcePosition, dated: Dated
    ) -> Truth:
        removed: tuple[Original, ...] = ()
        if document.is_delete or self._replaces:
            removed = self._take_out(document.document_id, sequence)
        if document.is_delete:
            return Truth(sequence, None, 0, None, removed)
        truth = self.ask(document, sequence)._replace(removed=removed)
        if truth.original is None:
            unique = Original(
                sequence,
                source,
                document,
                self._slice(self._watermark),
                self._slice(self._after),
                dated,
            )
            self.uniques.append(unique)
            self._live.append(unique)
        return truth

    def ask(self, document: SimulatedDocument, sequence: int) -> Truth:
        """Return the answer for one document: the nearest, or the earliest of equally near ones."""
        best: tuple[int, float | None, Original] | None = None
        for original in self._live:
            if self._has_expired(original):
                continue
            found = self.near(document, original.document)
            if found is not None and (best is None or found[0] < best[0]):
                best = (*found, original)
        if best is None:
            return Truth(sequence, None, 0, None)
        return Truth(sequence, best[2], best[0], best[1])

    def are_near(self, earlier: Original, later: Original) -> bool:
        """Return whether the earlier document was in the index for the later one, and is near."""
        if self.removed_at.get(earlier.sequence, later.sequence + 1) <= later.sequence:
            return False
        near = self.near(earlier.document, later.document) is not None
        if later.before - earlier.after <= SLICES:
            return near
        # Two documents in time find each other however they were put into bundles.
        return near and earlier.dated is not Dated.FUTURE and later.dated is Dated.IN_TIME

    def expired_before(self) -> int:
        """Return the sequence number of the first document that is unique and has not expired."""
        if self._window is None:
            return 0
        return next((o.sequence for o in self.uniques if not self._has_expired(o)), 1 << 62)

    def _take_out(self, document_id: str, sequence: int) -> tuple[Original, ...]:
        removed = tuple(
            each
            for each in self._live
            if each.document.document_id == document_id and not self._has_expired(each)
        )
        for each in removed:
            self._live.remove(each)
            self.removed_at[each.sequence] = sequence
        return removed

    def _slice(self, watermark: int) -> int:
        if self._window is None:
            return 0
        length = math.ceil((self._window.window_ms + self._window.lateness_ms) / SLICES)
        return watermark // max(1, length)

    def _has_expired(self, original: Original) -> bool:
        return self._slice(self._watermark) - original.after > SLICES

    def near(self, a: SimulatedDocument, b: SimulatedDocument) -> tuple[int, float | None] | None:
        """Return distance and similarity of two near documents; None: they are not near."""
        if a.scope != b.scope:
            return None
        if self._window is not None and abs(a.time_ms - b.time_ms) > self._window.window_ms:
            return None
        if a.fingerprint is None or b.fingerprint is None:
            equal = a.fingerprint is b.fingerprint and a.digest == b.digest
            return (0, None) if equal else None
        differing = a.fingerprint ^ b.fingerprint
        distance = differing.bit_count()
        if distance > self._scheme.distance or self.shared_block(a, b) is None:
            return None
        if a.digest == b.digest or self._verifier is None:
            return distance, None
        similarity = self._verifier.verification.similarity(distance, a.sketch, b.sketch)
        mean = (similarity + 1 - distance / self._scheme.bits) / 2
        is_near = similarity >= self._verifier.at and mean >= self._verifier.mean_at
        return (distance, similarity) if is_near else None

    def shared_block(self, a: SimulatedDocument, b: SimulatedDocument) -> int | None:
        """Return the first block or band that two decidable documents share."""
        if a.fingerprint is None or b.fingerprint is None:
            return None
        scheme, differing = self._scheme, a.fingerprint ^ b.fingerprint
        for band in range(scheme.bands):
            key = band_key(scheme, a.sketch, band)
            if any(key) and key == band_key(scheme, b.sketch, band):
                return band  # the band's own number, as there are no blocks
        bits = f"{differing:0{scheme.bits}b}"
        size = scheme.block_bits
        for block in range(scheme.blocks):
            if "1" not in bits[block * size : (block + 1) * size]:
                return block
        if scheme.cuts > 1:
            for column in range(scheme.blocks):
                if "1" not in bits[column :: scheme.blocks]:
                    return scheme.blocks + column
        return None
