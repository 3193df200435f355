"""Which profile and threshold to take for a wanted precision: tried out, and how sure that is.

A precision that was measured on few pairs says little. So each has a lower bound, by Wilson's score
interval at 95 % (one-sided): the true precision is above it in 19 of 20 such samples. Where the
bound of the best choice is below the precision that is wanted, the sample is too small to know.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil, sqrt
from typing import Final

import msgspec

from streams.offline.evaluation.evaluation import Labelled, Watch
from streams.offline.evaluation.figures import POSITIVE
from streams.offline.evaluation.remembered_fingerprints import RememberedFingerprints
from streams.offline.evaluation.threshold_sweep import (
    SweepPoint,
    Threshold,
    confirmations_around,
    distances_around,
    sweep,
    with_threshold,
)
from streams.offline.state_size import sketch_bytes, state_bytes_per_document
from streams.settings.settings import Settings

_Z: Final = 1.6449
"""The normal quantile of 95 %."""

_DIGITS: Final = 6


class TunedPoint(msgspec.Struct, frozen=True, kw_only=True):
    """A profile at a threshold, with its figures; None where there was nothing to measure.

    ``precision_low`` and ``recall_low``: the lower bounds. ``joined_pairs``: those that precision
    is of.
    """

    profile: str
    distance: int
    verify_at: float | None
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
    """``recommended`` is None where no point reaches the precision that is wanted.

    ``enough``: whether the sample shows it, by the lower bound; ``pairs_needed``: joined pairs, all
    of them right, that would.
    """

    precision_wanted: float
    recommended: TunedPoint | None
    enough: bool
    pairs_needed: int
    positives: int
    documents: int
    curve: list[TunedPoint]


def tune(
    labelled: Labelled,
    profiles: Sequence[tuple[str, Settings]],
    precision_wanted: float,
    watch: Watch | None = None,
) -> Tuned:
    """Try each profile, settings and all, at thresholds around its own.

    First distances are tried, then, where candidates are verified, how similar they must be, at the
    best of the distances.
    """
    curve: list[TunedPoint] = []
    for name, settings in profiles:

        def watch_named(step: str, done: int, total: int, name: str = name) -> None:
            if watch is not None:
                watch(f"{name}: {step}", done, total)

        curve += _tried(labelled, name, settings, precision_wanted, watch_named)
    recommended = best(curve, precision_wanted, _positives(labelled))
    low = None if recommended is None else recommended.precision_low
    return Tuned(
        precision_wanted=precision_wanted,
        recommended=recommended,
        enough=low is not None and low >= precision_wanted,
        pairs_needed=pairs_needed(precision_wanted),
        positives=_positives(labelled),
        documents=len(labelled.documents.ids),
        curve=curve,
    )


def best(curve: Iterable[TunedPoint], precision_wanted: float, positives: int) -> TunedPoint | None:
    """Return the point to take: of those that are precise enough, the one that finds most.

    Of profiles that find as much, to within one standard error, the one with the smallest state.
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
    """Return Wilson's lower bound of a share that was measured on ``count`` pairs."""
    if share is None or count == 0:
        return None
    square = _Z * _Z
    middle = share + square / (2 * count)
    spread = _Z * sqrt(share * (1 - share) / count + square / (4 * count * count))
    return max(0.0, (middle - spread) / (1 + square / count))


def pairs_needed(precision_wanted: float) -> int:
    """Return how many joined pairs, all right, have a lower bound of the precision wanted."""
    return ceil(precision_wanted * _Z * _Z / (1 - precision_wanted))


def _tried(
    labelled: Labelled,
    name: str,
    settings: Settings,
    precision_wanted: float,
    watch: Watch,
) -> list[TunedPoint]:
    """Return the figures of one profile, distances first, then agreements."""
    remembered = RememberedFingerprints()
    profile = settings.index_profile()
    state_bytes = state_bytes_per_document(profile.scheme(), sketch_bytes(profile))
    positives = _positives(labelled)

    def points(settings: Settings, thresholds: Sequence[Threshold]) -> list[TunedPoint]:
        swept = sweep(labelled, settings, thresholds, remembered.fingerprinter, watch)
        return [
            _tuned_point(name, swept[at], positives, state_bytes, confirms=confirms)
            for at in thresholds
        ]

    confirms = profile.verifier() is not None
    by_distance = points(settings, distances_around(settings))
    if not confirms:
        return by_distance
    chosen = best(by_distance, precision_wanted, positives) or max(
        by_distance, key=lambda point: (point.precision or 0.0, point.recall or 0.0)
    )
    at = Threshold(chosen.distance, profile.verify_at)
    others = [each for each in confirmations_around(with_threshold(settings, at)) if each != at]
    return by_distance + points(settings, others)


def _tuned_point(
    name: str, point: SweepPoint, positives: int, state_bytes: int, *, confirms: bool
) -> TunedPoint:
    quality = point.quality
    return TunedPoint(
        profile=name,
        distance=point.at.distance,
        verify_at=point.at.verify_at if confirms else None,
        recall=quality.recall,
        recall_low=_rounded(lower_bound(quality.recall, positives)),
        precision=quality.precision,
        precision_low=_rounded(lower_bound(quality.precision, quality.joined_pairs)),
        f1=quality.f1,
        caught=quality.caught,
        false_duplicates=quality.false_duplicates,
        joined_pairs=quality.joined_pairs,
        state_bytes_per_document=state_bytes,
    )


def _positives(labelled: Labelled) -> int:
    return sum(pair.label == POSITIVE for pair in labelled.pairs)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, _DIGITS)
