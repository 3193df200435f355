"""The figures at other thresholds than the one in force, each from a pass of its own.

A pass at another threshold is not what its pairs say one by one: a document that is no duplicate
any more becomes an original for others. So the deduplicator runs again for each; the fingerprints
are made once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from simhash_core.text.fingerprinter import Fingerprinter
from simhash_core.text.profiles import Profile
from streams.offline.evaluation.dedup_pass import Decided, decide
from streams.offline.evaluation.evaluation import Labelled, Watch
from streams.offline.evaluation.labelled_files import documents_again
from streams.offline.evaluation.quality import Quality, quality_of
from streams.offline.evaluation.text_pass import exact_jaccards, named_by, of_pass
from streams.settings.settings import Settings

DOCUMENTS_MAX: Final = 50_000
"""Documents that are swept over: their fingerprints are in memory, and each pass takes time."""

_DISTANCE_SHARES: Final = (0.25, 0.5, 0.75, 0.9, 1.0, 1.15, 1.3)
_VERIFY_STEPS: Final = (-0.2, -0.1, -0.05, 0.0, 0.05, 0.1, 0.2)


class Threshold(NamedTuple):
    """A distance, in bits, and the agreement that confirms a candidate."""

    distance: int
    verify_at: float


class SweepPoint(NamedTuple):
    """The figures at a threshold, and the pass that they are of."""

    at: Threshold
    quality: Quality
    decided: Decided


def threshold_of(settings: Settings) -> Threshold:
    """Return the threshold in force."""
    profile = settings.index_profile()
    return Threshold(profile.distance, profile.verify_at)


def with_threshold(settings: Settings, at: Threshold) -> Settings:
    """Return the settings with another threshold."""
    index = replace(settings.index, distance=at.distance, verify_at=at.verify_at)
    return replace(settings, index=index)


def distances_around(settings: Settings) -> list[Threshold]:
    """Return thresholds with distances around the one in force, ascending, that one among them."""
    profile = settings.index_profile()
    low, high = 0, profile.bits // 2
    around = {round(profile.distance * share) for share in _DISTANCE_SHARES}
    if profile.distance < len(_DISTANCE_SHARES):
        around |= set(range(len(_DISTANCE_SHARES)))
    chosen = {max(low, min(high, distance)) for distance in around} | {profile.distance}
    return [Threshold(distance, profile.verify_at) for distance in sorted(chosen)]


def confirmations_around(settings: Settings) -> list[Threshold]:
    """Return the same for the agreement; nothing where candidates are not confirmed."""
    profile = settings.index_profile()
    if profile.verifier() is None:
        return []
    around = {round(profile.verify_at + step, 4) for step in _VERIFY_STEPS}
    chosen = {max(0.0, min(1.0, at)) for at in around} | {profile.verify_at}
    return [Threshold(profile.distance, at) for at in sorted(chosen)]


def sweep(
    labelled: Labelled,
    settings: Settings,
    thresholds: Sequence[Threshold],
    fingerprinter_of: Callable[[Profile], Fingerprinter],
    watch: Watch | None = None,
) -> dict[Threshold, SweepPoint]:
    """Return the figures at each threshold; ``fingerprinter_of`` had better remember."""
    passes: dict[Threshold, Decided] = {}
    for done, at in enumerate(thresholds):
        if watch is not None:
            watch("other thresholds", done, len(thresholds))
        if at not in passes:
            passes[at] = decide(
                labelled.file,
                with_threshold(settings, at),
                labelled.documents,
                fingerprinter_of,
            )
    named = {each for decided in passes.values() for each in named_by(decided.originals)}
    jaccards = exact_jaccards(documents_again(labelled.file, settings), named)
    points = {}
    for at, decided in passes.items():
        of_this = of_pass(jaccards, decided.originals)
        quality = quality_of(labelled.documents, labelled.pairs, decided, of_this, settings.profile)
        points[at] = SweepPoint(at, quality, decided)
    return points
