"""Verifications by name: each decides whether a candidate is near.

A bag of words cannot tell texts of one genre apart. So each document has a *sketch*, some bytes
that are stored and sent with it, and two sketches have a *similarity*. Two documents are near if
their fingerprints are within the distance and the similarity reaches the threshold. This is
symmetric, so all shards agree on a pair. Equal content is near without verification.

At the same similarity, texts from one template have a larger distance than editions of one text. So
an index can also require a minimum *mean* of two similarities: that of the sketches, and that of
the fingerprints, 1 − distance / bits. The more bits differ, the more of the sketches must be equal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from simhash_core.document_columns import BytesColumn
from simhash_core.documents import Content
from simhash_core.errors import UnknownNameError, UsageError
from simhash_core.fingerprints.bands import NO_BANDS, Bands
from simhash_core.text.verification import cosine, metadata, shingles

_Numbers = TypeVar("_Numbers", float, NDArray[np.float64])


class Sketched(NamedTuple):
    """Original documents and their features; those of ``i`` are bounds[i] to bounds[i + 1]."""

    contents: Sequence[Content]
    weights: NDArray[np.float64]  # of each feature, like ``term_hashes``
    term_hashes: NDArray[np.uint32]
    bounds: NDArray[np.int64]
    bands: Bands = NO_BANDS
    simplify: bool = False


class ManySketches(NamedTuple):
    """How to compare many sketches at once; each result equals that of ``similarity``.

    ``words`` takes a column of sketches and some rows, and returns an array of words for each row,
    or None if one cannot be compared so. ``similarities`` compares row by row.
    """

    words: Callable[[BytesColumn, NDArray[np.intp]], NDArray[np.uint64] | None]
    similarities: Callable[[NDArray[np.uint64], NDArray[np.uint64]], NDArray[np.float64]]


class Verification(NamedTuple):
    """Pure functions and an identity, which changes whenever their results change."""

    identity: str
    usual_threshold: float  # of profiles that do not set one
    sketches: Callable[[Sketched], list[bytes]]
    similarity: Callable[[int, bytes, bytes], float]  # distance in bits, sketches in any order
    many: ManySketches | None = None


NO_VERIFICATION: Final = "none"

WITH_BANDS: Final = "shingles"  # its sketches have bands

_BY_NAME: Final[Mapping[str, Verification]] = {
    WITH_BANDS: Verification(
        shingles.IDENTITY,
        0.518,
        lambda batch: shingles.sketches(
            [each.text for each in batch.contents],
            batch.bands,
            simplify=batch.simplify,
        ),
        lambda _distance, a, b: shingles.similarity(a, b),
        ManySketches(shingles.words, shingles.similarities),
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
    mean_at: float = 0.0  # 0: none
    bits: int = 1  # of a fingerprint

    def similarity(self, distance: int, a: bytes, b: bytes) -> float | None:
        """Return the similarity of two sketches if it is enough at this distance, else None."""
        similarity = self.verification.similarity(distance, a, b)
        is_enough = similarity >= self.at and (
            not self.mean_at or self._mean(float(distance), similarity) >= self.mean_at
        )
        return similarity if is_enough else None

    def words(self, sketches: BytesColumn, rows: NDArray[np.intp]) -> NDArray[np.uint64] | None:
        """Return some sketches for ``are_similar``; None if they are to be compared one by one."""
        many = self.verification.many
        return None if many is None else many.words(sketches, rows)

    def are_similar(
        self,
        distances: NDArray[np.uint16],
        ours: NDArray[np.uint64],
        theirs: NDArray[np.uint64],
    ) -> NDArray[np.bool_]:
        """Return for which rows ``similarity`` is not None."""
        assert self.verification.many is not None
        similarities = self.verification.many.similarities(ours, theirs)
        enough: NDArray[np.bool_] = similarities >= self.at
        if self.mean_at:
            enough &= self._mean(distances.astype(np.float64), similarities) >= self.mean_at
        return enough

    def _mean(self, distance: _Numbers, similarity: _Numbers) -> _Numbers:
        return (similarity + 1 - distance / self.bits) / 2

    def minimum(self, distance: int) -> float:
        """Return the similarity that is enough at this distance, to be shown to people."""
        return max(self.at, 2 * self.mean_at - 1 + distance / self.bits if self.mean_at else 0.0)

    @property
    def identity(self) -> str:
        return f"{self.verification.identity}@{self.at:g}"


def verification_named(name: str) -> Verification | None:
    """Return a verification; None for ``none``. Raises ``UnknownNameError``."""
    if name not in VERIFICATIONS:
        raise UnknownNameError("verification", name, VERIFICATIONS)
    return _BY_NAME.get(name)


def verifier_of(name: str, at: float, mean_at: float = 0.0, bits: int = 1) -> Verifier | None:
    """Return None for ``none``; raises ``UnknownNameError``, and ``UsageError`` outside 0 to 1."""
    for setting, value in (("verify_at", at), ("mean_at", mean_at)):
        if not 0.0 <= value <= 1.0:
            raise UsageError(f"{setting} is {value}: it must be from 0 to 1")
    verification = verification_named(name)
    return None if verification is None else Verifier(verification, at, mean_at, bits)


def usual_threshold(name: str) -> float:
    """Return the default threshold of a verification; 0 for ``none`` and unknown names."""
    verification = _BY_NAME.get(name)
    return 0.0 if verification is None else verification.usual_threshold
