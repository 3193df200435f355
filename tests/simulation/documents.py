"""Documents of a simulation: families in which near pairs, chains, ties and repeats are common.

A family is a fingerprint and a few of its bits, its *hot* bits. Each member differs from the first
in some of these bits. So distances are small and often equal, and often A is near B and B is near
C, but A and C are not near. Undecidable texts have one of a few contents.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simhash_core import documents as core
from simhash_core.document_columns import BytesColumn, DocumentColumns
from simhash_core.fingerprints.bands import TRIPLES
from simhash_core.fingerprints.blocks import BlockScheme
from simhash_core.text.verification import ManySketches, Verification, Verifier, shingles

SCHEMES: Final = (
    BlockScheme(64, 4, 3),
    BlockScheme(64, 4, 3),
    BlockScheme(64, 4, 8),  # no guarantee: near pairs without a common block are not found
    BlockScheme(128, 4, 3),
    BlockScheme(64, 8, 9, cuts=2),
    BlockScheme(64, 0, 8, bands=2),
)

START_MS: Final = 1_000_000
"""About the time of the first document; times of documents and of the log rise together."""
DRAWN_MS: Final = 20
"""Usually the time from one document to the next."""

_UNDECIDABLE_CONTENTS: Final = 3
_SKETCH_VALUES: Final = 4
_TEXTS: Final = 6
_BAND_KEYS: Final = 3
"""The number of keys of a family for each band; the first key stands for no bucket."""


class SimulatedDocument(NamedTuple):
    """A document, as plain values; ``fingerprint`` is None if it is undecidable, for ``reason``.

    ``is_delete``: it is a delete, which removes the document with its id.
    """

    document_id: str
    time_ms: int
    fingerprint: int | None
    reason: int
    digest: bytes
    sketch: bytes
    scope: str = ""
    is_delete: bool = False


def _agreement(distance: int, a: bytes, b: bytes) -> float:  # noqa: ARG001 - as of all
    """Return a similarity that is symmetric, not transitive: bytes at most one apart agree."""
    return max(0.0, 1.0 - abs(a[0] - b[0]) / 4)


def _first_bytes(sketches: BytesColumn, rows: NDArray[np.intp]) -> NDArray[np.uint64] | None:
    firsts = [sketches[row][:1] for row in rows.tolist()]
    return np.array([*map(ord, firsts)], np.uint64).reshape(-1, 1) if all(firsts) else None


def _agreements(a: NDArray[np.uint64], b: NDArray[np.uint64]) -> NDArray[np.float64]:
    apart = a[:, 0].astype(np.float64) - b[:, 0].astype(np.float64)
    agreements: NDArray[np.float64] = np.maximum(0.0, 1.0 - np.abs(apart) / 4)
    return agreements


TOY: Final = Verifier(
    Verification(
        "simulated",
        0.75,
        lambda made: [b""] * len(made.contents),
        _agreement,
        ManySketches(_first_bytes, _agreements),
    ),
    at=0.75,
)
SHINGLES: Final = Verifier(
    Verification(
        "shingles",
        0.51,
        lambda made: [b""] * len(made.contents),
        lambda _distance, a, b: shingles.similarity(a, b),
        ManySketches(shingles.words, shingles.similarities),
    ),
    at=0.51,
)


def with_triples(seed: int, scheme: BlockScheme) -> BlockScheme:
    """Give half of the schemes with bands bands of three bins, drawn like ``with_mean``."""
    if not scheme.bands or random.Random(f"triples {seed}").random() < 0.5:
        return scheme
    return replace(scheme, bands=4, band_bins=TRIPLES)


def with_mean(seed: int, scheme: BlockScheme, verifier: Verifier | None) -> Verifier | None:
    """Make half of the verifiers require a mean too, which matters beyond half of the distance.

    This is drawn from the seed separately, so that all other values of a scenario stay the same.
    """
    if verifier is None or random.Random(f"mean {seed}").random() < 0.5:
        return verifier
    mean_at = (verifier.at + 1 - scheme.distance / scheme.bits / 2) / 2
    return verifier._replace(mean_at=mean_at, bits=scheme.bits)


@cache
def _sketch_pool(verifier: Verifier | None) -> tuple[bytes, ...]:
    if verifier is None:
        return (b"",)
    if verifier is TOY:
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
    def __init__(self, rng: random.Random, scheme: BlockScheme, verifier: Verifier | None) -> None:
        """``rng`` draws how many families there are, and how near their members are."""
        self._rng = rng
        self._scheme = scheme
        self._sketches = _sketch_pool(verifier)
        self._drawn: list[SimulatedDocument] = []
        self._repeats, self._undecidable = rng.choice([0.05, 0.3]), rng.choice([0.0, 0.1, 0.4])
        self._same_ids, self._deletes = rng.choice([0.0, 0.3, 0.7]), rng.choice([0.0, 0.1, 0.3])
        self._scopes = rng.choice([("",), ("",), ("a", "b"), ("", "a", "b")])
        self._late, self._wrong = rng.choice([0.0, 0.3]), rng.choice([0.0, 0.1])
        hot_bits = rng.randint(scheme.distance, 2 * scheme.distance + 2)
        self._families = [
            (rng.getrandbits(scheme.bits), rng.sample(range(scheme.bits), hot_bits))
            for _ in range(rng.choice([1, 2, 5, 12]))
        ]

    def draw(self) -> SimulatedDocument:
        rng = self._rng
        name, time_ms = self._name(), self._time_ms()
        if rng.random() < self._deletes:
            if self._drawn and rng.random() < 0.8:
                name = rng.choice(self._drawn).document_id
            return SimulatedDocument(name, time_ms, None, 1, bytes(16), b"", is_delete=True)
        document = self._document(name, time_ms)._replace(scope=rng.choice(self._scopes))
        self._drawn.append(document)
        return document

    def ask(self) -> SimulatedDocument:
        document = self._document("asked", self._time_ms())
        return document._replace(scope=self._rng.choice(self._scopes))

    def _name(self) -> str:
        if self._drawn and self._rng.random() < self._same_ids:
            return self._rng.choice(self._drawn).document_id
        return f"d{len(self._drawn)}"

    def _time_ms(self) -> int:
        rng = self._rng
        time_ms = START_MS + DRAWN_MS * len(self._drawn)
        if rng.random() < self._late:
            time_ms -= rng.randint(1, 400)
        if rng.random() < self._wrong:
            time_ms = rng.choice([0, START_MS // 2, 50 * START_MS])
        return time_ms

    def _document(self, name: str, time_ms: int) -> SimulatedDocument:
        rng = self._rng
        number = len(self._drawn)
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
            sketch = self._sketch(centre >> 60)
            document = SimulatedDocument(name, time_ms, centre, 0, digest, sketch)
        return document

    def _sketch(self, family: int) -> bytes:
        """Return a sketch whose band keys members of a family often share."""
        sketch = self._rng.choice(self._sketches)
        if self._scheme.band_bins == TRIPLES:
            bands = self._scheme.sketch_bands
            drawn = (self._rng.randrange(_BAND_KEYS) for _ in range(bands.tail_bytes))
            tail = bytes(key and family + key for key in drawn)
            return sketch.ljust(bands.head_bytes, b"\0") + tail
        keys = (self._rng.randrange(_BAND_KEYS) for _ in range(self._scheme.bands))
        return sketch + b"".join((key and family * 256 + key).to_bytes(4, "little") for key in keys)


def columns_of(
    scheme: BlockScheme, documents: Sequence[tuple[int, SimulatedDocument]]
) -> DocumentColumns:
    """Return documents and deletes, given with their raw offsets, as columns."""
    count, size = len(documents), scheme.bits // 8
    prints = b"".join(print_of(scheme, each) or bytes(size) for _, each in documents)
    digests = b"".join(core.scoped_digest(each.digest, each.scope) for _, each in documents)
    operations, names = None, None
    if any(each.is_delete for _, each in documents):
        operations = np.array([each.is_delete for _, each in documents], dtype=np.uint8)
    if any(each.scope for _, each in documents):
        names = BytesColumn.of([each.scope.encode() for _, each in documents])
    return DocumentColumns(
        np.array([offset for offset, _ in documents], dtype=np.int64),
        np.array([each.time_ms for _, each in documents], dtype=np.int64),
        BytesColumn.of([each.document_id.encode() for _, each in documents]),
        np.frombuffer(digests, np.uint8).reshape(count, 16),
        np.frombuffer(prints, dtype=np.uint64).reshape(count, size // 8),
        np.array([each.reason for _, each in documents], dtype=np.uint8),
        BytesColumn.of([each.sketch for _, each in documents]),
        operations,
        names,
    )


def print_of(scheme: BlockScheme, document: SimulatedDocument) -> bytes:
    """Return a fingerprint as in the index, empty for an undecidable document."""
    if document.fingerprint is None:
        return b""
    return core.masked(document.fingerprint.to_bytes(scheme.bits // 8, "big"), document.scope)
