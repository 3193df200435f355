"""Verifications: what confirms that a candidate is near, by name.

A fingerprint finds, a sketch confirms. A bag of words cannot tell apart texts of one genre, which
share their words; a verification compares what else is known of two documents. Each document has a
*sketch*, some bytes that are stored with it and travel with it, and two sketches have a
*similarity*. Two documents are near when their fingerprints are within the distance and the
similarity is at least the threshold. This depends on the two stored documents alone and is
symmetric, so every shard says the same of the same pair.

A verification is a pair of pure functions. Equal content is near without being confirmed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simhash_core.documents import Content
from simhash_core.errors import UnknownNameError, UsageError
from simhash_core.text.features import FeatureBatch
from simhash_core.text.verification import cosine, metadata, shingles


class Sketched(NamedTuple):
    """What sketches are made of: some documents, as they came and as they were weighed.

    ``term_hashes``: a hash of each feature of the batch, uint32 (features,). ``bands``: how many
    keys of bands a sketch ends with. ``simplify``: as of ``normalize``.
    """

    contents: Sequence[Content]
    features: FeatureBatch
    term_hashes: NDArray[np.uint32]
    bands: int = 0
    simplify: bool = False


class Verification(NamedTuple):
    """``identity`` changes with whatever changes sketches or similarities.

    ``sketches`` returns one sketch for each document. ``similarity`` takes the distance of two
    fingerprints in bits and both sketches, and returns the same whichever comes first, from 0 to 1.
    ``usual_threshold`` is the similarity that confirms, unless a profile says otherwise.
    """

    identity: str
    usual_threshold: float
    sketches: Callable[[Sketched], list[bytes]]
    similarity: Callable[[int, bytes, bytes], float]


NO_VERIFICATION: Final = "none"

WITH_BANDS: Final = "shingles"
"""The verification whose sketches have bands: near documents share one."""

_SHINGLES_AGREE_AT: Final = 0.518

_BY_NAME: Final[Mapping[str, Verification]] = {
    WITH_BANDS: Verification(
        shingles.IDENTITY,
        _SHINGLES_AGREE_AT,
        lambda batch: shingles.sketches(
            [each.text for each in batch.contents], batch.bands, simplify=batch.simplify
        ),
        lambda _distance, a, b: shingles.similarity(a, b),
    ),
    "cosine": Verification(
        cosine.IDENTITY,
        cosine.USUAL_THRESHOLD,
        lambda batch: cosine.sketches(
            batch.features.weights, batch.term_hashes, batch.features.bounds
        ),
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
    """A verification with its threshold: the second half of what "near" means in an index."""

    verification: Verification
    at: float

    def similarity(self, distance: int, a: bytes, b: bytes) -> float | None:
        """Return the similarity of two sketches if it is enough, else None."""
        similarity = self.verification.similarity(distance, a, b)
        return similarity if similarity >= self.at else None

    @property
    def identity(self) -> str:
        """What must be equal for two indexes to confirm alike."""
        return f"{self.verification.identity}@{self.at:g}"


def verification_named(name: str) -> Verification | None:
    """Return the verification called ``name``; None for ``none``.

    Raises ``UnknownNameError`` for a name that is not in ``VERIFICATIONS``.
    """
    if name not in VERIFICATIONS:
        raise UnknownNameError("verification", name, VERIFICATIONS)
    return _BY_NAME.get(name)


def verifier_of(name: str, at: float) -> Verifier | None:
    """Return the verification called ``name`` with the threshold ``at``; None for ``none``.

    Raises as ``verification_named`` does, and ``UsageError`` for a threshold outside 0 to 1.
    """
    if not 0.0 <= at <= 1.0:
        raise UsageError(f"verify_at is {at}: it must be from 0 to 1")
    verification = verification_named(name)
    return None if verification is None else Verifier(verification, at)


def usual_threshold(name: str) -> float:
    """Return the threshold of the verification called ``name`` where a profile names none.

    0 for ``none``, and for an unknown name, which ``verification_named`` refuses.
    """
    verification = _BY_NAME.get(name)
    return 0.0 if verification is None else verification.usual_threshold
