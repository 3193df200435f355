"""Documents of a simulation: families in which near pairs, chains, ties and repeats are common.

A family is a fingerprint and a few of its bits, its *hot* bits. Each member differs from the first
in some of them, so that distances are small and often equal, and A near B near C is common where A
and C are not near. Undecidable texts have one of a few contents.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from typing import Final, NamedTuple

import numpy as np

from simhash_core.document_columns import BytesColumn, DocumentColumns
from simhash_core.fingerprints.blocks import BlockScheme
from simhash_core.text.verification import Confirmation, Verification, shingles

SCHEMES: Final = (
    BlockScheme(64, 4, 3),
    BlockScheme(64, 4, 3),
    BlockScheme(64, 4, 8),  # no guarantee: near pairs that share no block stay apart
    BlockScheme(128, 4, 3),
    BlockScheme(64, 8, 9, cuts=2),
)

_UNDECIDABLE_CONTENTS: Final = 3
_SKETCH_VALUES: Final = 4
_TEXTS: Final = 6


class SimulatedDocument(NamedTuple):
    """A document, as plain values. ``fingerprint`` None: undecidable, for ``reason``."""

    document_id: str
    time_ms: int
    fingerprint: int | None
    reason: int
    digest: bytes
    sketch: bytes


def _agreement(distance: int, a: bytes, b: bytes) -> float:  # noqa: ARG001 - as of all
    """Symmetric and not transitive: bytes at most one apart agree."""
    return max(0.0, 1.0 - abs(a[0] - b[0]) / 4)


TOY: Final = Confirmation(
    Verification("simulated", 0.75, lambda made: [b""] * len(made.contents), _agreement), at=0.75
)
SHINGLES: Final = Confirmation(
    Verification(
        "shingles",
        0.51,
        lambda made: [b""] * len(made.contents),
        lambda _distance, a, b: shingles.similarity(a, b),
    ),
    at=0.51,
)


@cache
def _sketch_pool(confirmation: Confirmation | None) -> tuple[bytes, ...]:
    if confirmation is None:
        return (b"",)
    if confirmation is TOY:
        return tuple(bytes((value,)) for value in range(_SKETCH_VALUES))
    letters = random.Random(1)
    text = [letters.choice("abcdefghij") for _ in range(400)]
    texts = []
    for _ in range(_TEXTS):
        texts.append("".join(text))
        first = letters.randrange(280)
        text[first : first + 60] = [letters.choice("klmnopqrst") for _ in range(60)]
    return tuple(shingles.sketches(texts))


class Families:
    """Draws documents of one scenario."""

    def __init__(
        self, rng: random.Random, scheme: BlockScheme, confirmation: Confirmation | None
    ) -> None:
        """``rng`` decides how many families there are, and how near their members."""
        self._rng = rng
        self._scheme = scheme
        self._sketches = _sketch_pool(confirmation)
        self._drawn: list[SimulatedDocument] = []
        self._repeats, self._undecidable = rng.choice([0.05, 0.3]), rng.choice([0.0, 0.1, 0.4])
        hot_bits = rng.randint(scheme.distance, 2 * scheme.distance + 2)
        self._families = [
            (rng.getrandbits(scheme.bits), rng.sample(range(scheme.bits), hot_bits))
            for _ in range(rng.choice([1, 2, 5, 12]))
        ]

    def draw(self) -> SimulatedDocument:
        """Return the next document."""
        rng = self._rng
        number = len(self._drawn)
        name, time_ms = f"d{number}", 1_000_000 + number
        if self._drawn and rng.random() < self._repeats:
            document = rng.choice(self._drawn)._replace(document_id=name, time_ms=time_ms)
        elif rng.random() < self._undecidable:
            content = rng.randrange(_UNDECIDABLE_CONTENTS)
            digest = bytes((255, content)).ljust(16, b"\0")
            document = SimulatedDocument(name, time_ms, None, 1 + content % 3, digest, b"")
        else:
            centre, hot = rng.choice(self._families)
            for bit in rng.sample(hot, rng.randint(0, min(len(hot), self._scheme.distance + 1))):
                centre ^= 1 << bit
            digest = number.to_bytes(16, "big")
            document = SimulatedDocument(
                name, time_ms, centre, 0, digest, rng.choice(self._sketches)
            )
        self._drawn.append(document)
        return document


def columns_of(
    scheme: BlockScheme, documents: Sequence[tuple[int, SimulatedDocument]]
) -> DocumentColumns:
    """Return documents with their raw offsets as columns."""
    count, size = len(documents), scheme.bits // 8
    prints = b"".join((each.fingerprint or 0).to_bytes(size, "big") for _, each in documents)
    return DocumentColumns(
        np.array([offset for offset, _ in documents], dtype=np.int64),
        np.array([each.time_ms for _, each in documents], dtype=np.int64),
        BytesColumn.of([each.document_id.encode() for _, each in documents]),
        np.frombuffer(b"".join(each.digest for _, each in documents), np.uint8).reshape(count, 16),
        np.frombuffer(prints, dtype=np.uint64).reshape(count, size // 8),
        np.array([each.reason for _, each in documents], dtype=np.uint8),
        BytesColumn.of([each.sketch for _, each in documents]),
    )
