"""What one worker would say that reads the log alone and in order: by brute force.

Nothing of the product takes part but the block scheme's numbers and the confirmation: chains are
checked here, distances are counted here, all documents are compared with all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from simhash_core.documents import SourcePosition
from simhash_core.fingerprints.blocks import BlockScheme
from simhash_core.log.packets import Chain, Packet
from simhash_core.text.verification import Confirmation
from tests.simulation.documents import SimulatedDocument


class Original(NamedTuple):
    """A unique document and its place in the log."""

    sequence: int
    source: SourcePosition
    document: SimulatedDocument


class Truth(NamedTuple):
    """What is said of a document; ``original`` None: it is unique."""

    sequence: int
    original: Original | None
    distance: int
    similarity: float | None


class OneReader:
    """Reads packets and queries in log order."""

    def __init__(self, scheme: BlockScheme, confirmation: Confirmation | None) -> None:
        """Begin with nothing."""
        self.uniques: list[Original] = []
        self._scheme = scheme
        self._confirmation = confirmation
        self._heads: dict[Chain, int] = {}

    def packet(
        self, offset: int, packet: Packet, documents: Sequence[SimulatedDocument]
    ) -> list[Truth] | None:
        """Return what is said of the documents of a packet, None if it does not count."""
        if packet.previous != self._heads.get(packet.chain, -1):
            return None
        self._heads[packet.chain] = packet.last
        said = []
        for row, document in enumerate(documents):
            truth = self.ask(document, offset * 65536 + row)
            if truth.original is None:
                self.uniques.append(Original(truth.sequence, packet.source(row), document))
            said.append(truth)
        return said

    def ask(self, document: SimulatedDocument, sequence: int) -> Truth:
        """Return what is said of one document: the nearest, of equals the earliest in the log."""
        best: tuple[int, float | None, Original] | None = None
        for original in self.uniques:
            found = self.near(document, original.document)
            if found is not None and (best is None or found[0] < best[0]):
                best = (*found, original)
        if best is None:
            return Truth(sequence, None, 0, None)
        return Truth(sequence, best[2], best[0], best[1])

    def near(self, a: SimulatedDocument, b: SimulatedDocument) -> tuple[int, float | None] | None:
        """Return distance and similarity of two near documents; None: they are not near."""
        if a.fingerprint is None or b.fingerprint is None:
            equal = a.fingerprint is b.fingerprint and a.digest == b.digest
            return (0, None) if equal else None
        differing = a.fingerprint ^ b.fingerprint
        distance = differing.bit_count()
        if distance > self._scheme.distance or self.shared_block(a, b) is None:
            return None
        if a.digest == b.digest or self._confirmation is None:
            return distance, None
        similarity = self._confirmation.verification.agreement(distance, a.sketch, b.sketch)
        return (distance, similarity) if similarity >= self._confirmation.at else None

    def shared_block(self, a: SimulatedDocument, b: SimulatedDocument) -> int | None:
        """Return the first block in which two decidable documents are equal."""
        if a.fingerprint is None or b.fingerprint is None:
            return None
        scheme, differing = self._scheme, a.fingerprint ^ b.fingerprint
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
