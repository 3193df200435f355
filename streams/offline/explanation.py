"""Compares two texts: why they are near or not, and how similar they are by other measures."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from simhash_core.analysis.exact_similarity import vector_cosine
from simhash_core.documents import Document, SourcePosition
from simhash_core.fingerprints.blocks import BlockScheme
from simhash_core.fingerprints.feature_hashes import feature_hash_named
from simhash_core.fingerprints.fingerprint import WORD_BITS, distance_bits, scale, sums, votes_of
from simhash_core.index.look_up import Nearness
from simhash_core.index.prints import shared_buckets
from simhash_core.log.columns import document_columns, verdict_of
from simhash_core.log.local_decider import LocalDecider, MemoryEntries
from simhash_core.log.records import NO_OFFSET, Chain, Packet, Sender
from simhash_core.text.fingerprinter import Fingerprinted, Fingerprinter
from simhash_core.text.profiles import Profile, profile_named
from simhash_core.verdicts import Verdict
from simhash_core.window import format_duration

# ---- Bits, blocks, and the features that differ.

_EXPLAINED: Final = Chain("explain", "", 0)
_NO_DOCUMENT: Final = Document("", "", SourcePosition("", 0, 0), 0)
_ROUNDING: Final = 1e-18
"""A squared distance below this, of vectors of length 1, is a rounding error."""


class TermDifference(NamedTuple):
    """A feature with its weights in A and B (0 if absent).

    The vectors are scaled to length 1, because a SimHash estimates their angle.
    """

    term: str
    weight_a: float
    weight_b: float
    share: float  # of the squared distance of the two vectors, 0 to 1


class DifferingBit(NamedTuple):
    """A bit in which the fingerprints differ.

    A margin is the sum of the votes divided by the sum of all weights, −1 to 1. Above 0 the bit is
    1; near 0 a small change would flip it.
    """

    bit: int
    block: int | None  # None: no block covers it
    margin_a: float
    margin_b: float


class Explanation(NamedTuple):
    a: Fingerprinted
    b: Fingerprinted
    scheme: BlockScheme
    verdict: Verdict  # the verdict on B if A came first
    never_near: str | None  # why no such documents are compared, whatever their texts
    cosine: float  # of the weighted features
    terms: list[TermDifference]  # by share, descending
    # These need fingerprints of both.
    agreement: float | None  # of the sketches; None if the profile has no verifier
    agreement_minimum: float | None  # of near documents at this distance
    distance: int | None
    shared_buckets: list[int]
    differing: list[DifferingBit]  # by the difference of the margins, descending

    @property
    def expected_distance(self) -> float:
        """Average number of differing bits of two texts at this angle: bits · angle / π."""
        return self.scheme.bits * math.acos(min(1.0, max(-1.0, self.cosine))) / math.pi


def explain(
    fingerprinter: Fingerprinter, text_a: Document | str, text_b: Document | str
) -> Explanation:
    """Explain two documents; a text without a document has the scope and the time of the other."""
    scheme = fingerprinter.scheme
    contents = [each if isinstance(each, str) else each.content for each in (text_a, text_b)]
    a, b = fingerprinter.fingerprint_batch(contents)
    weights_a, weights_b = (dict(fingerprinter.weighted_terms(each)) for each in contents)
    given = [each for each in (text_a, text_b) if isinstance(each, Document)] or [_NO_DOCUMENT]
    comparable = bool(a.fingerprint and b.fingerprint)
    distance = distance_bits(a.fingerprint, b.fingerprint) if comparable else None
    agreement, minimum = _agreement(fingerprinter, a, b, distance)
    return Explanation(
        a=a,
        b=b,
        scheme=scheme,
        verdict=_verdict_on_second(fingerprinter, (a, b), (given[0], given[-1])),
        never_near=_never_near(fingerprinter.profile, given[0], given[-1]),
        cosine=vector_cosine(weights_a, weights_b),
        terms=_term_differences(weights_a, weights_b),
        agreement=agreement,
        agreement_minimum=minimum,
        distance=distance,
        shared_buckets=shared_buckets(scheme, a.fingerprint, a.sketch, b.fingerprint, b.sketch)
        if comparable
        else [],
        differing=_differing_bits(
            scheme, margins(fingerprinter, weights_a), margins(fingerprinter, weights_b)
        )
        if comparable
        else [],
    )


def margins(fingerprinter: Fingerprinter, weights: Mapping[str, float]) -> NDArray[np.float64]:
    """Return the sum of votes on each bit over the sum of all weights, float64 (bits,)."""
    bits = fingerprinter.scheme.bits
    feature_hash = feature_hash_named(fingerprinter.profile.feature_hash)
    scaled = scale(np.fromiter(weights.values(), dtype=np.float64, count=len(weights)))
    total = float(scaled.sum(dtype=np.float64))
    if not total:
        return np.zeros(bits)
    votes = votes_of(b"".join(feature_hash(term, bits) for term in weights), bits)
    return sums(votes, scaled).astype(np.float64) / total


def _verdict_on_second(
    fingerprinter: Fingerprinter,
    prints: tuple[Fingerprinted, Fingerprinted],
    given: tuple[Document, Document],
) -> Verdict:
    """Decide A, then B, with the real decider."""
    documents = [
        Document(
            name,
            "",
            SourcePosition(_EXPLAINED.topic, _EXPLAINED.partition, row),
            given[row].event_time_ms,
            scope=given[row].scope,
        )
        for row, name in enumerate("AB")
    ]
    columns = document_columns(documents, prints, fingerprinter.scheme.bits // WORD_BITS)
    decider = LocalDecider(Nearness.of(fingerprinter.profile), MemoryEntries())
    packet = Packet(_EXPLAINED, Sender(_EXPLAINED.topic, 0), NO_OFFSET, 1, columns)
    return verdict_of(columns, 1, decider.decide(0, packet).matches.get(1))


def _never_near(profile: Profile, a: Document, b: Document) -> str | None:
    if a.scope != b.scope:
        return "they have different scopes"
    apart_ms = abs(a.event_time_ms - b.event_time_ms)
    window_ms = profile.window
    if window_ms is None or apart_ms <= window_ms:
        return None
    apart, window = format_duration(apart_ms), format_duration(window_ms)
    return f"their times are {apart} apart, more than the window of {window}"


def _agreement(
    fingerprinter: Fingerprinter, a: Fingerprinted, b: Fingerprinted, distance: int | None
) -> tuple[float | None, float | None]:
    """Return the similarity of the sketches, and the minimum at this distance."""
    verifier = fingerprinter.verifier
    if verifier is None or distance is None:
        return None, None
    similarity = verifier.verification.similarity(distance, a.sketch, b.sketch)
    return similarity, verifier.minimum(distance)


def _term_differences(a: Mapping[str, float], b: Mapping[str, float]) -> list[TermDifference]:
    norm_a, norm_b = math.hypot(*a.values()) or 1.0, math.hypot(*b.values()) or 1.0
    squares = {
        term: (a.get(term, 0.0) / norm_a - b.get(term, 0.0) / norm_b) ** 2 for term in {**a, **b}
    }
    total = sum(squares.values())
    if total < _ROUNDING:
        squares, total = dict.fromkeys(squares, 0.0), 1.0
    ranked = sorted(squares, key=lambda term: (-squares[term], term))
    return [
        TermDifference(term, a.get(term, 0.0), b.get(term, 0.0), squares[term] / total)
        for term in ranked
    ]


def _differing_bits(
    scheme: BlockScheme, margins_a: NDArray[np.float64], margins_b: NDArray[np.float64]
) -> list[DifferingBit]:
    bits = [
        DifferingBit(
            bit,
            bit // scheme.block_bits if bit < scheme.blocks * scheme.block_bits else None,
            float(margins_a[bit]),
            float(margins_b[bit]),
        )
        for bit in np.flatnonzero((margins_a > 0) != (margins_b > 0)).tolist()
    ]
    return sorted(bits, key=lambda each: (-abs(each.margin_a - each.margin_b), each.bit))


# ---- SimHash of 64 and of 128 bits, and the cosine of the vector space model.
#
# As in Wang, Wu and Li (2016): more bits follow the cosine more closely. The fingerprints use the
# profile's segmenter, weighting and feature hash; the vectors hold term frequencies.

WIDTHS: Final = (64, 128)

_TERM_FREQUENCY: Final = "tf"
_DIGITS: Final = 6
_OF_CLASSIC: Final = (
    *("blocks", "block_bits", "distance", "cuts", "bands"),
    *("fingerprint", "verify", "verify_at", "mean_at"),
)


class FingerprintComparison(msgspec.Struct, frozen=True):
    """Two fingerprints; fields that need them are None if a text has none."""

    bits: int
    fingerprint_a: str | None
    fingerprint_b: str | None
    distance: int | None
    similarity: float | None  # 1 − distance / bits
    cosine: float | None  # of the weighted features, estimated as cos(π · distance / bits)


class Comparison(msgspec.Struct, frozen=True):
    features_a: int  # distinct terms of the text
    features_b: int
    simhash: list[FingerprintComparison]
    vsm_cosine: float  # of term frequencies
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
        profile, bits=bits, min_features=1, **{name: getattr(classic, name) for name in _OF_CLASSIC}
    )


def _compared(profile: Profile, text_a: str, text_b: str) -> FingerprintComparison:
    a, b = Fingerprinter(profile).fingerprint_batch([text_a, text_b])
    if not (a.fingerprint and b.fingerprint):
        print_a, print_b = a.fingerprint.hex() or None, b.fingerprint.hex() or None
        return FingerprintComparison(profile.bits, print_a, print_b, None, None, None)
    distance = distance_bits(a.fingerprint, b.fingerprint)
    return FingerprintComparison(
        bits=profile.bits,
        fingerprint_a=a.fingerprint.hex(),
        fingerprint_b=b.fingerprint.hex(),
        distance=distance,
        similarity=round(1 - distance / profile.bits, _DIGITS),
        cosine=round(math.cos(math.pi * distance / profile.bits), _DIGITS),
    )
