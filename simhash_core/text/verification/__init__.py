"""Verifications, which decide whether a candidate is near, by name.

A bag of words cannot tell texts of one genre apart. So each document has a *sketch*, some bytes
that are stored and sent with it, and two sketches have a *similarity*. Two documents are near if
their fingerprints are within the distance and the similarity reaches the threshold. This is
symmetric, so all shards agree on a pair. Equal content is near without verification.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simhash_core.documents import Content
from simhash_core.errors import UnknownNameError, UsageError
from simhash_core.text.verification import cosine, metadata, shingles


class Sketched(NamedTuple):
    """Documents to sketch, as they came and as features; ``i`` has bounds[i] to bounds[i + 1]."""

    contents: Sequence[Content]
    weights: NDArray[np.float64]  # of each feature, like the next one
    term_hashes: NDArray[np.uint32]
    bounds: NDArray[np.int64]
    bands: int = 0  # keys at the end of a sketch
    simplify: bool = False


class Verification(NamedTuple):
    """Two pure functions, and an identity that changes with their results."""

    identity: str
    usual_threshold: float  # of profiles that set none
    sketches: Callable[[Sketched], list[bytes]]
    similarity: Callable[[int, bytes, bytes], float]  # distance in bits, sketches in any order


NO_VERIFICATION: Final = "none"

WITH_BANDS: Final = "shingles"  # its sketches have bands

_BY_NAME: Final[Mapping[str, Verification]] = {
    WITH_BANDS: Verification(
        shingles.IDENTITY,
        0.518,
        lambda batch: shingles.sketches(
            [each.text for each in batch.contents], batch.bands, simplify=batch.simplify
        ),
        lambda _distance, a, b: shingles.similarity(a, b),
    ),
    "cosine": Verification(
        cosine.IDENTITY,
        cosine.USUAL_THRESHOLD,
        lambda batch: cosine.sketches(batch.weights, batch.term_hashes, batch.bounds),
        lambda _distance, a, b: cosine.similarity(a, b),
    ),
    "metadata": Verification(
        metadata.IDENTITY,
        metadata.USUAL_THRESHOLD,
        lambda batch: metadata.sketches(batch.contents, simplify=batch.simplify),
        metadata.similarity,
    ),
}
VERIFICATIONS: Final = (NO_VERIFICATION, *_BY_NAME)


class Verifier(NamedTuple):
    verification: Verification
    at: float

    def similarity(self, distance: int, a: bytes, b: bytes) -> float | None:
        """Return the similarity of two sketches if it reaches the threshold, else None."""
        similarity = self.verification.similarity(distance, a, b)
        return similarity if similarity >= self.at else None

    @property
    def identity(self) -> str:
        return f"{self.verification.identity}@{self.at:g}"


def verification_named(name: str) -> Verification | None:
    """Return a verification; None for ``none``. Raises ``UnknownNameError``."""
    if name not in VERIFICATIONS:
        raise UnknownNameError("verification", name, VERIFICATIONS)
    return _BY_NAME.get(name)


def verifier_of(name: str, at: float) -> Verifier | None:
    """Return None for ``none``; raises ``UnknownNameError``, and ``UsageError`` outside 0 to 1."""
    if not 0.0 <= at <= 1.0:
        raise UsageError(f"verify_at is {at}: it must be from 0 to 1")
    verification = verification_named(name)
    return None if verification is None else Verifier(verification, at)


def usual_threshold(name: str) -> float:
    """Return the default threshold of a verification; 0 for ``none`` and unknown names."""
    verification = _BY_NAME.get(name)
    return 0.0 if verification is None else verification.usual_threshold
