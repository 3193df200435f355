"""Finds profile and threshold for a wanted precision, and how certain the choice is.

A precision measured on few pairs is uncertain. So each one has a lower bound, by Wilson's score
interval at 95 % (one-sided): the true precision is above it in 19 of 20 samples. If the bound of
the best choice is below the wanted precision, the sample is too small.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import ceil, sqrt
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from simhash_core.text.fingerprinter import Fingerprinter
from simhash_core.text.profiles import Profile
from streams.evaluation.dedup_pass import (
    Decided,
    decide,
    exact_jaccards,
    named_by,
    of_pass,
    remembering,
)
from streams.evaluation.evaluation import Labelled, Quality, Watch, quality_of, rounded
from streams.evaluation.figures import POSITIVE
from streams.evaluation.labelled_files import documents_again
from streams.offline.index_plan import sketch_bytes, state_bytes_per_document
from streams.settings.settings import Settings

# ---- The figures at other thresholds, each from a separate pass.
#
# Pair distances cannot replace a pass: a document that is no longer a duplicate becomes an original
# for others. Fingerprints are made only once.

DOCUMENTS_MAX: Final = 50_000
"""Maximum for a sweep: the fingerprints are in memory, and each pass takes time."""

_DISTANCE_SHARES: Final = (0.25, 0.5, 0.75, 0.9, 1.0, 1.15, 1.3)
_VERIFY_STEPS: Final = (-0.2, -0.1, -0.05, 0.0, 0.05, 0.1, 0.2)
_MEAN_STEPS: Final = (-0.1, -0.04, -0.02, 0.0, 0.02, 0.04, 0.08, 0.12, 0.16, 0.2)


class Threshold(NamedTuple):
    distance: int
    verify_at: float
    mean_at: float = 0.0


def threshold_of(settings: Settings) -> Threshold:
    profile = settings.index_profile()
    return Threshold(profile.distance, profile.verify_at, profile.mean_at)


def with_threshold(settings: Settings, at: Threshold) -> Settings:
    return replace(settings, index=replace(settings.index, **at._asdict()))


def distances_around(settings: Settings) -> list[Threshold]:
    """Return the distance in force and distances around it, ascending."""
    profile = settings.index_profile()
    low, high = 0, profile.bits // 2
    around = {round(profile.distance * share) for share in _DISTANCE_SHARES}
    if profile.distance < len(_DISTANCE_SHARES):
        around |= set(range(len(_DISTANCE_SHARES)))
    chosen = {max(low, min(high, distance)) for distance in around} | {profile.distance}
    at = threshold_of(settings)
    return [at._replace(distance=distance) for distance in sorted(chosen)]


def confirmations_around(settings: Settings) -> list[Threshold]:
    """Return similarities around the one in force; none without a verifier."""
    profile = settings.index_profile()
    if profile.verifier() is None:
        return []
    at = threshold_of(settings)
    return [at._replace(verify_at=each) for each in _around(at.verify_at, _VERIFY_STEPS)]


def means_around(settings: Settings) -> list[Threshold]:
    """Return means around the one in force; none if it is not set."""
    at = threshold_of(settings)
    if not at.mean_at:
        return []
    return [at._replace(mean_at=each) for each in _around(at.mean_at, _MEAN_STEPS)]


def _around(value: float, steps: Iterable[float]) -> list[float]:
    around = {round(value + step, 4) for step in steps}
    return sorted({max(0.0, min(1.0, each)) for each in around} | {value})


def sweep(
    labelled: Labelled,
    settings: Settings,
    thresholds: Sequence[Threshold],
    fingerprinter_of: Callable[[Profile], Fingerprinter],
    watch: Watch = lambda *_: None,
) -> dict[Threshold, Quality]:
    """Return the figures at each threshold."""
    passes: dict[Threshold, Decided] = {}
    for done, at in enumerate(thresholds):
        watch("other thresholds", done, len(thresholds))
        if at not in passes:
            passes[at] = decide(
                labelled.file, with_threshold(settings, at), labelled.documents, fingerprinter_of
            )
    named = {each for decided in passes.values() for each in named_by(decided.originals)}
    jaccards = exact_jaccards(documents_again(labelled.file, settings), named)
    return {
        at: quality_of(
            labelled.documents,
            labelled.pairs,
            decided,
            of_pass(jaccards, decided.originals),
            settings.profile,
        )
        for at, decided in passes.items()
    }


_Z: Final = 1.6449  # the 95 % quantile of the normal distribution


class TunedPoint(msgspec.Struct, frozen=True, kw_only=True):
    """A profile at a threshold, with its figures; None if there was nothing to measure.

    Fields ``*_low`` are lower bounds. ``joined_pairs`` is the denominator of precision.
    """

    profile: str
    distance: int
    verify_at: float | None
    mean_at: float | None
    recall: float | None
    recall_low: float | None
    precision: float | None
    precision_low: float | None
    f1: float | None
    caught: float | None
    false_duplicates: float | None
    joined_pairs: int
    state_bytes_per_document: int


class Tuned(msgspec.Struct, frozen=True, kw_only=True):
    """``recommended`` is None if no point reaches the wanted precision.

    ``enough`` says whether its lower bound reaches it. ``pairs_needed`` is the number of joined
    pairs that would suffice with the same share of right pairs; None if no number would, or without
    a recommendation.
    """

    precision_wanted: float
    recommended: TunedPoint | None
    enough: bool
    pairs_needed: int | None
    positives: int
    documents: int
    curve: list[TunedPoint]


def tune(
    labelled: Labelled,
    profiles: Sequence[tuple[str, Settings]],
    precision_wanted: float,
    watch: Watch = lambda *_: None,
) -> Tuned:
    """Try each profile at thresholds around its own, one kind after the other.

    The mean of two similarities is the most informative threshold, so means come first, if the
    profile has one. Then come distances at the best mean, and similarities at the best distance.
    """
    curve: list[TunedPoint] = []
    for name, settings in profiles:
        curve += _tried(labelled, name, settings, precision_wanted, watch)
    recommended = best(curve, precision_wanted, _positives(labelled))
    low, share = (recommended.precision_low, recommended.precision) if recommended else (None, None)
    return Tuned(
        precision_wanted=precision_wanted,
        recommended=recommended,
        enough=low is not None and low >= precision_wanted,
        pairs_needed=pairs_needed(precision_wanted, share),
        positives=_positives(labelled),
        documents=len(labelled.documents.ids),
        curve=curve,
    )


def best(curve: Iterable[TunedPoint], precision_wanted: float, positives: int) -> TunedPoint | None:
    """Return the precise enough point with the highest recall.

    Among points within one standard error of that recall, it returns the one with the smallest
    state.
    """
    fits = [
        (point.recall, point)
        for point in curve
        if point.recall is not None
        and point.precision is not None
        and point.precision >= precision_wanted
    ]
    if not fits:
        return None
    highest = max(recall for recall, _ in fits)
    error = sqrt(highest * (1 - highest) / max(1, positives))
    near = [(recall, point) for recall, point in fits if recall >= highest - error]
    return min(
        near,
        key=lambda each: (
            each[1].state_bytes_per_document,
            -each[0],
            -(each[1].precision or 0.0),
            each[1].distance,
        ),
    )[1]


def lower_bound(share: float | None, count: int) -> float | None:
    """Return Wilson's lower bound of a share measured on ``count`` pairs."""
    if share is None or count == 0:
        return None
    square = _Z * _Z
    middle = share + square / (2 * count)
    spread = _Z * sqrt(share * (1 - share) / count + square / (4 * count * count))
    return max(0.0, (middle - spread) / (1 + square / count))


def pairs_needed(precision_wanted: float, share_right: float | None) -> int | None:
    """Return how many joined pairs with this share raise the lower bound to the wanted one."""
    above = (share_right or 0.0) - precision_wanted
    if above <= 0:
        return None
    return ceil(_Z * _Z * precision_wanted * (1 - precision_wanted) / (above * above))


def _tried(
    labelled: Labelled, name: str, settings: Settings, precision_wanted: float, watch: Watch
) -> list[TunedPoint]:
    fingerprinter_of = remembering()
    profile = settings.index_profile()
    confirms = profile.verifier() is not None
    state_bytes = state_bytes_per_document(profile.scheme(), sketch_bytes(profile))
    at, curve = threshold_of(settings), dict[Threshold, TunedPoint]()
    for around in (means_around, distances_around, confirmations_around):
        new = [each for each in around(with_threshold(settings, at)) if each not in curve]
        swept = sweep(
            labelled,
            settings,
            new,
            fingerprinter_of,
            lambda step, done, total: watch(f"{name}: {step}", done, total),
        )
        for each in new:
            curve[each] = _tuned_point(name, each, swept[each], state_bytes, confirms=confirms)
        if curve:
            chosen = best(curve.values(), precision_wanted, _positives(labelled)) or max(
                curve.values(), key=lambda point: (point.precision or 0.0, point.recall or 0.0)
            )
            at = Threshold(chosen.distance, chosen.verify_at or 0.0, chosen.mean_at or 0.0)
    return list(curve.values())


def _tuned_point(
    name: str, at: Threshold, quality: Quality, state_bytes: int, *, confirms: bool
) -> TunedPoint:
    return TunedPoint(
        profile=name,
        distance=at.distance,
        verify_at=at.verify_at if confirms else None,
        mean_at=at.mean_at or None,
        recall=quality.recall,
        recall_low=rounded(lower_bound(quality.recall, quality.positives)),
        precision=quality.precision,
        precision_low=rounded(lower_bound(quality.precision, quality.joined_pairs)),
        f1=quality.f1,
        caught=quality.caught,
        false_duplicates=quality.false_duplicates,
        joined_pairs=quality.joined_pairs,
        state_bytes_per_document=state_bytes,
    )


def _positives(labelled: Labelled) -> int:
    return sum(pair.label == POSITIVE for pair in labelled.pairs)
