"""Fingerprints without segmentation: of the bins of a sketch of shingles, one bit each.

Nothing is cut into words, and nothing is weighed: the values that a sketch keeps 4 bits of give the
fingerprint a fifth bit of each of its bins (b-bit minwise hashing, Li & König 2010). Two texts
differ in a bit with a chance of half of one less their similarity, so the distance orders by
similarity. That takes a fifth of the time of weighted terms, in any language. What it cannot see
is which words matter: texts of one template, which share long runs, are near.

A feature is here a bin that a shingle fell into: as many as there are distinct shingles in a short
text, and at most ``BINS``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from simhash_core.documents import Content
from simhash_core.errors import UsageError
from simhash_core.text.fingerprinted import Judge, Printed, WeightedTerm
from simhash_core.text.profiles import Profile
from simhash_core.text.segmentation import is_feature
from simhash_core.text.verification import shingles

IDENTITY: Final = f"shingles-1/{shingles.SHINGLE_CHARACTERS}x{shingles.BINS}"


class ShinglePrints:
    """Texts to bits of their shingles, with the sketch made of the same values."""

    def __init__(self, profile: Profile) -> None:
        """Raise ``UsageError`` for a profile with something that only terms have."""
        for name in ("idf", "user_dictionary", "stop_words"):
            if getattr(profile, name) is not None:
                raise UsageError(
                    f"{name} has no effect where fingerprint is shingles, which uses no terms"
                )
        self._bits = profile.bits
        self._simplify = profile.fold_traditional
        self._bands = profile.scheme().bands

    @property
    def made_with(self) -> Mapping[str, str]:
        """What fingerprints are made with, by its name in the index identity."""
        return {"fingerprint": IDENTITY}

    @property
    def more(self) -> Mapping[str, str]:
        """Nothing: there are no other parts."""
        return {}

    def prints(
        self, contents: Sequence[Content], normal: Sequence[str], judge: Judge
    ) -> list[Printed]:
        """Return what is made of documents; ``normal``: their normalised texts."""
        bare = shingles.bare_texts([content.text for content in contents], simplify=self._simplify)
        some = [text for text in bare if text]
        if not some:
            return [Printed(b"", 0, judge(text, 0), b"") for text in normal]
        bins = shingles.bins_of(some)
        fingerprints = iter(self._fingerprints(bins.filled))
        sketches = iter(shingles.pack(bins.filled, self._bands))
        counts = iter(bins.counts.tolist())
        prints = []
        for text, own in zip(normal, bare, strict=True):
            if not own:
                prints.append(Printed(b"", 0, judge(text, 0), b""))
                continue
            fingerprint, sketch, features = next(fingerprints), next(sketches), next(counts)
            undecidable = judge(text, features)
            if undecidable is not None and not is_feature(text):
                features, undecidable = 0, judge(text, 0)
            prints.append(Printed(fingerprint, features, undecidable, sketch))
        return prints

    def weighted_terms(self, _content: Content, _normal: str) -> list[WeightedTerm]:
        """Return no terms: there are none."""
        return []

    def _fingerprints(self, filled: NDArray[np.uint32]) -> list[bytes]:
        return [
            row.tobytes() for row in np.packbits(shingles.fifth_bits(filled, self._bits), axis=1)
        ]
