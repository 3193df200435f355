"""Measures Firstseen and its peers in turns, on the same files, by the same definitions."""

from __future__ import annotations

import json
import sys
from array import array
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from benchmarks.command import output_of, say
from benchmarks.peers.environment import peers_python
from benchmarks.quality.sets import FALSE_DUPLICATES_MAX, LabelledSet
from benchmarks.report import Spread, ratios
from streams.evaluation.dedup_pass import Decided, exact_jaccards, named_by, of_pass
from streams.evaluation.evaluation import Labelled, Quality, quality_of, read_labelled
from streams.evaluation.labelled_files import documents_again
from streams.settings.settings import Settings

PEER_THRESHOLDS: Final[Mapping[str, Sequence[float]]] = {
    "datasketch": (0.4, 0.45, 0.475, 0.5, 0.525, 0.55, 0.575, 0.6, 0.7),
    "rensa": (0.4, 0.45, 0.475, 0.5, 0.525, 0.55, 0.575, 0.6, 0.7),
    "retsim": (0.8, 0.84, 0.88, 0.9, 0.92, 0.94, 0.95, 0.96, 0.97, 0.98),
    "simhash": (3,),
}
SETS_OF_PEERS: Final[Mapping[str, frozenset[str]]] = {
    "simhash": frozenset({"revisions_zh"}),
}
"""The sets of peers that do not run on every set: simhash only cuts Chinese into words."""

ONE_TURN: Final = frozenset({"retsim"})
"""The peers with one turn, however many rounds: a turn of retsim takes minutes of CPU on a set."""

_SECONDS_MAX: Final = 3600.0


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """One contender at one threshold on one set.

    ``is_best`` marks the threshold of a peer that is compared. ``documents_per_cpu_second`` is over
    the rounds; ``times_as_fast`` is our speed divided by this contender's, round by round.
    """

    name: str
    threshold: str = ""
    is_ours: bool = False
    is_best: bool
    quality: Quality
    documents_per_cpu_second: Spread
    times_as_fast: Spread | None = None


class Contest(msgspec.Struct, frozen=True, kw_only=True):
    """All standings on a set; ``score`` names the figure that decides between thresholds."""

    set: str
    score: str
    documents: int
    positives: int
    rounds: int
    standings: list[Standing]


def contest(
    labelled_set: LabelledSet, profiles: Sequence[str], peers: Iterable[str], rounds: int
) -> Contest:
    """Let all contenders decide the documents of a set; raises ``MeasurementError``.

    In the first round each peer tries all its thresholds, which finds the best one; in the other
    rounds it uses only that one, unless it has only one turn. Peers are compared with the first of
    ``profiles``.
    """
    labelled = read_labelled(str(labelled_set.documents), str(labelled_set.pairs), Settings())
    ours = {name: [_ours(labelled_set, name)] for name in profiles}
    runs = {name: peer_qualities(labelled, name, PEER_THRESHOLDS[name]) for name in peers}
    best = {name: best_of(qualities, labelled_set.score) for name, qualities in runs.items()}
    turns = {name: [runs[name][at]] for name, at in best.items()}
    for _ in range(rounds - 1):
        for name, done in ours.items():
            done.append(_ours(labelled_set, name))
        for name, done in turns.items():
            if name not in ONE_TURN:
                done.extend(peer_qualities(labelled, name, [best[name]]).values())
    compared = ours[profiles[0]]
    standings = [
        _standing(done, name=f"Firstseen {name}", is_ours=True, is_best=done is compared)
        for name, done in ours.items()
    ]
    for name, qualities in runs.items():
        for at, quality in qualities.items():
            is_best = at == best[name]
            threshold = f"{'≤' if name == 'simhash' else '≥'} {at:g}"
            done = turns[name] if is_best else [quality]
            beside = compared[: len(done)] if is_best else []
            standings.append(
                _standing(done, beside, name=name, threshold=threshold, is_best=is_best)
            )
    quality = compared[0]
    return Contest(
        set=labelled_set.name,
        score=labelled_set.score,
        documents=quality.documents,
        positives=quality.positives,
        rounds=rounds,
        standings=standings,
    )


def _standing(done: Sequence[Quality], beside: Sequence[Quality] = (), **named: Any) -> Standing:  # noqa: ANN401
    seconds, ours = ([each.cpu_seconds / each.documents for each in of] for of in (done, beside))
    return Standing(
        quality=done[0],
        documents_per_cpu_second=Spread.of(1 / each for each in seconds),
        times_as_fast=ratios(seconds, ours) if ours else None,
        **named,
    )


def best_of(qualities: Mapping[float, Quality], score: str) -> float:
    """Return the threshold with the highest score among those with few false duplicates.

    If all have too many, return the one with the fewest.
    """
    false = {at: quality.false_duplicates or 0.0 for at, quality in qualities.items()}
    allowed = [at for at in qualities if false[at] <= FALSE_DUPLICATES_MAX]
    if not allowed:
        return min(false, key=false.__getitem__)
    return max(allowed, key=lambda at: score_of(qualities[at], score) or 0.0)


def score_of(quality: Quality, score: str) -> float | None:
    """Return the figure of that name: ``f1`` or ``caught``."""
    return quality.caught if score == "caught" else quality.f1


def _ours(labelled_set: LabelledSet, profile: str) -> Quality:
    say(f"{labelled_set.name}: Firstseen {profile} …")
    files = ["--documents", str(labelled_set.documents), "--pairs", str(labelled_set.pairs)]
    command = ["-m", "streams.cli.main", "evaluate", *files, "--profile", profile, "--json"]
    output = output_of([sys.executable, *command], _SECONDS_MAX)
    return msgspec.json.decode(output, type=Quality)


def peer_qualities(
    labelled: Labelled, name: str, thresholds: Sequence[float]
) -> dict[float, Quality]:
    """Let a peer decide the documents at each threshold; raises ``MeasurementError``."""
    say(f"{Path(labelled.file).parent.name}: {name} at {', '.join(map(str, thresholds))} …")
    command = ["-m", "benchmarks.quality.peer", name, labelled.file, *map(str, thresholds)]
    runs = json.loads(output_of([str(peers_python()), *command], _SECONDS_MAX))
    named = {each for run in runs for each in named_by(run["originals"])}
    jaccards = exact_jaccards(documents_again(labelled.file, Settings()), named)
    qualities = {}
    for run in runs:
        originals, seconds = run["originals"], run["cpu_seconds"]
        decided = Decided(array("q", originals), {}, {}, "", seconds, seconds)
        of_run = of_pass(jaccards, originals)
        qualities[run["threshold"]] = quality_of(
            labelled.documents, labelled.pairs, decided, of_run, name
        )
    return qualities
