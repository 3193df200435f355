"""Text to fingerprint on one core, compared with the library that a Python user would take.

Each contender is a process with one thread. All have the same documents and work in turns, so that
a busy machine slows all of them down. The results are CPU times, and the ratios within a round.

    python -m benchmarks.fingerprints [--documents FILE] [--json FILE]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import pairwise, product
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import numpy as np

from benchmarks.command import (
    ONE_THREAD,
    ROOT,
    MeasurementError,
    add_number,
    add_without_peers,
    errors_reported,
    new_parser,
)
from benchmarks.contenders import BATCH
from benchmarks.measures import Stopwatch
from benchmarks.peers.environment import peers_python
from benchmarks.report import Figures, Spread, publish, ratios
from benchmarks.texts import add_text_options, described, texts_of
from simhash_core.documents import Content
from simhash_core.fingerprints.feature_hashes import feature_hash_named
from simhash_core.fingerprints.fingerprint import pack, scale, sums
from simhash_core.text.fingerprinter import FeatureBatch, content_digest, count, weigh
from simhash_core.text.idf import jieba_idf
from simhash_core.text.lexicon import Lexicon
from simhash_core.text.normalization import normalize_batch
from simhash_core.text.profiles import OF_TERMS, PROFILES, Profile
from simhash_core.text.segmentation import load_segmenter
from simhash_core.text.segmentation_cache import SegmentationCache
from simhash_core.text.verification import Sketched
from simhash_core.text.weighting import weighting_named

DOCUMENTS: Final = 500
ROUNDS: Final = 7

_TURN_SECONDS: Final = 120.0
_END_SECONDS: Final = 10.0
_MICROSECONDS: Final = 1e6

_Result = TypeVar("_Result")


class _Contender(NamedTuple):
    name: str
    program: str  # a name of ``benchmarks.contenders``
    variant: str
    is_peer: bool = False


_OURS: Final = tuple(_Contender(f"firstseen {name}", "firstseen", name) for name in PROFILES)
_SEGMENTATION: Final = _Contender("rjieba, no fingerprint", "rjieba", "")
_PEERS: Final = (
    _Contender("simhash, jieba words", "simhash", "jieba", is_peer=True),
    _Contender("simhash, 4-grams", "simhash", "ngrams", is_peer=True),
)
_GOALS: Final = {_PEERS[0].name: 8.0, _SEGMENTATION.name: 0.5}


Turn = tuple[float, float]
"""The CPU time and the clock time of one turn, in seconds."""


@contextmanager
def running(
    python: Path, program: str, variant: str, texts: Sequence[str]
) -> Iterator[Callable[[], Turn]]:
    """Start a contender and warm it up; yield what lets it work on the texts once.

    Raises ``MeasurementError`` if it dies, or takes too long.
    """
    name = f"{program} {variant}".strip()
    process = subprocess.Popen(
        [str(python), "-m", "benchmarks.contenders", program, variant],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        cwd=ROOT,
        env=os.environ | ONE_THREAD,
    )

    def ask(line: str) -> list[float]:
        watchdog = threading.Timer(_TURN_SECONDS, process.kill)
        watchdog.start()
        assert process.stdout is not None
        answer = ""
        with suppress(BrokenPipeError):
            print(line, file=process.stdin, flush=True)
            answer = process.stdout.readline()
        watchdog.cancel()
        if not answer:
            raise MeasurementError(
                f"{name} has died, or took more than {_TURN_SECONDS:g} s for its turn"
            )
        numbers: list[float] = json.loads(answer)
        return numbers

    def turn() -> Turn:
        cpu, wall = ask("again")
        return cpu, wall

    try:
        (done,) = ask(json.dumps(texts))
        if done != len(texts):
            raise MeasurementError(f"{name} did {done:.0f} of {len(texts)} documents")
        yield turn
    finally:
        process.kill()
        process.communicate(timeout=_END_SECONDS)


class _Steps:
    def __init__(self, profile: Profile) -> None:
        self.times: dict[str, Stopwatch] = {}
        self._weighting = weighting_named(profile.weighting)
        self._lexicon = Lexicon(profile.bits, feature_hash_named(profile.feature_hash), jieba_idf())
        self._runs = SegmentationCache(load_segmenter(profile.segmenter), self._lexicon)
        self._verifier = profile.verifier()

    def run(self, texts: Sequence[str]) -> bytes:
        """Fingerprint a batch; return the fingerprints in one string of bytes."""
        lexicon, timed = self._lexicon, self._timed
        normal = timed("normalise", lambda: normalize_batch(texts))
        rows, sizes = timed("segment", lambda: self._runs.rows(normal))
        counted = timed("count", lambda: count(rows, sizes, lexicon))
        batch = timed("weigh", lambda: weigh(counted, lexicon, self._weighting))
        scaled = timed("weigh", lambda: scale(batch.weights, batch.bounds))
        packed = timed("sum", lambda: self._sum(batch, scaled))
        if self._verifier is not None:
            hashes, contents = lexicon.short_hashes[batch.rows], list(map(Content, texts))
            sketched = Sketched(contents, batch.weights, hashes, batch.bounds)
            sketches = self._verifier.verification.sketches
            timed("sketch", lambda: sketches(sketched))
        timed("digest", lambda: [content_digest(text) for text in normal])
        return packed

    def _timed(self, stage: str, step: Callable[[], _Result]) -> _Result:
        with self.times.setdefault(stage, Stopwatch(time.thread_time)):
            return step()

    def _sum(self, batch: FeatureBatch, scaled: np.ndarray) -> bytes:
        votes = self._lexicon.votes
        summed = [
            sums(votes.take(batch.rows[start:stop], axis=0), scaled[start:stop])
            for start, stop in pairwise(batch.bounds.tolist())
        ]
        return pack(np.array(summed))


def run(texts: Sequence[str], rounds: int, source: str, *, with_peers: bool) -> Figures:
    """Measure all contenders in turns; raise ``MeasurementError`` if one fails."""
    figures = described(texts, source, rounds)
    others = [_SEGMENTATION, *_PEERS] if with_peers else [_SEGMENTATION]
    turns = _turns([*_OURS, *others], texts, rounds)
    seconds = {name: [cpu for cpu, _ in taken] for name, taken in turns.items()}
    return figures | {
        "batch": BATCH,
        "contenders": [_measured(name, taken, len(texts)) for name, taken in turns.items()],
        "ratios": [
            {
                "name": ours.name,
                "against": other.name,
                "times_as_fast": ratios(seconds[other.name], seconds[ours.name]),
                "goal": _GOALS.get(other.name),
            }
            for other, ours in product(others, _OURS)
        ],
        "stages": [
            {"profile": name, "stages": _stage_times(profile, texts, rounds)}
            for name, profile in PROFILES.items()
            if profile.fingerprint == OF_TERMS
        ],
    }


def _turns(
    contenders: Sequence[_Contender], texts: Sequence[str], rounds: int
) -> dict[str, list[Turn]]:
    with ExitStack() as stack:
        takers: dict[str, Callable[[], Turn]] = {}
        for name, program, variant, is_peer in contenders:
            python = peers_python() if is_peer else Path(sys.executable)
            takers[name] = stack.enter_context(running(python, program, variant, texts))
        turns: dict[str, list[Turn]] = {name: [] for name in takers}
        for _ in range(rounds):
            for name, take_turn in takers.items():
                turns[name].append(take_turn())
    return turns


def _measured(name: str, turns: Sequence[Turn], documents: int) -> Figures:
    cpu = Spread.of(cpu / documents * _MICROSECONDS for cpu, _ in turns)
    return {
        "name": name,
        "cpu_us": cpu,
        "wall_us": Spread.of(wall / documents * _MICROSECONDS for _, wall in turns),
        "documents_per_second": round(_MICROSECONDS / cpu.median),
    }


def _stage_times(profile: Profile, texts: Sequence[str], rounds: int) -> list[Figures]:
    """Measure the steps; in each round, the lexicon and the cache have not seen the texts."""
    measured = []
    for _ in range(rounds):
        steps = _Steps(profile)
        for start in range(0, len(texts), BATCH):
            steps.run(texts[start : start + BATCH])
        measured.append(steps.times)
    return [
        {"stage": stage, "cpu_us": Spread.of(each[stage].us_each(len(texts)) for each in measured)}
        for stage in measured[0]
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = new_parser("benchmarks.fingerprints", __doc__)
    add_text_options(parser, DOCUMENTS)
    add_number(parser, "--rounds", ROUNDS, "rounds of each variant")
    add_without_peers(parser)
    options = parser.parse_args(arguments)
    source, texts = texts_of(options)
    with errors_reported():
        publish(
            run(texts, options.rounds, source, with_peers=not options.without_peers), options.json
        )


if __name__ == "__main__":
    main()
