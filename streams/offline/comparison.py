"""Two texts by three measures: SimHash of 64 and of 128 bits, and the cosine of VSM.

As in Wang, Wu and Li (2016): more bits follow the cosine more closely. The fingerprints use the
profile's segmenter, weighting and feature hash; the vectors hold term frequencies.
"""

from __future__ import annotations

from math import cos, pi
from typing import Final

import msgspec

from simhash_core.analysis.exact_similarity import vector_cosine
from simhash_core.fingerprints.fingerprint import distance_bits
from simhash_core.text.fingerprinter import Fingerprinted, Fingerprinter
from simhash_core.text.profiles import Profile, profile_named

WIDTHS: Final = (64, 128)

_TERM_FREQUENCY: Final = "tf"
_DIGITS: Final = 6


class FingerprintComparison(msgspec.Struct, frozen=True):
    """Two fingerprints of ``bits`` bits; other fields are None if a text has none.

    ``similarity``: 1 − distance / bits. ``cosine``: of the weighted features, estimated as
    cos(π · distance / bits).
    """

    bits: int
    fingerprint_a: str | None
    fingerprint_b: str | None
    distance: int | None
    similarity: float | None
    cosine: float | None


class Comparison(msgspec.Struct, frozen=True):
    """``features``: distinct terms of a text. ``vsm_cosine``: of term frequencies."""

    features_a: int
    features_b: int
    simhash: list[FingerprintComparison]
    vsm_cosine: float
    weighting: str
    segmenter: str


def compare(profile: Profile, text_a: str, text_b: str) -> Comparison:
    compared = [_compared(_of_width(profile, bits), text_a, text_b) for bits in WIDTHS]
    frequencies = Fingerprinter(
        msgspec.structs.replace(_of_width(profile, WIDTHS[0]), weighting=_TERM_FREQUENCY)
    )
    vectors = [dict(frequencies.weighted_terms(text)) for text in (text_a, text_b)]
    return Comparison(
        features_a=len(vectors[0]),
        features_b=len(vectors[1]),
        simhash=compared,
        vsm_cosine=round(vector_cosine(*vectors), _DIGITS),
        weighting=profile.weighting,
        segmenter=profile.segmenter,
    )


def _of_width(profile: Profile, bits: int) -> Profile:
    """Return a profile of ``bits`` bits that fingerprints texts of any length."""
    classic = profile_named("classic")
    return msgspec.structs.replace(
        profile,
        bits=bits,
        blocks=classic.blocks,
        block_bits=classic.block_bits,
        distance=classic.distance,
        cuts=classic.cuts,
        bands=classic.bands,
        fingerprint=classic.fingerprint,
        verify=classic.verify,
        verify_at=classic.verify_at,
        min_features=1,
    )


def _compared(profile: Profile, text_a: str, text_b: str) -> FingerprintComparison:
    a, b = Fingerprinter(profile).fingerprint_batch([text_a, text_b])
    if not (a.fingerprint and b.fingerprint):
        return FingerprintComparison(profile.bits, _hex(a), _hex(b), None, None, None)
    distance = distance_bits(a.fingerprint, b.fingerprint)
    return FingerprintComparison(
        bits=profile.bits,
        fingerprint_a=_hex(a),
        fingerprint_b=_hex(b),
        distance=distance,
        similarity=round(1 - distance / profile.bits, _DIGITS),
        cosine=round(cos(pi * distance / profile.bits), _DIGITS),
    )


def _hex(fingerprinted: Fingerprinted) -> str | None:
    return fingerprinted.fingerprint.hex() or None
