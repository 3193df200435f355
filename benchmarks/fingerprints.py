"""Text to fingerprint on one core, beside the library that a Python user would take.

Each contender is a process. All have the same documents, each has one processor and one thread, and
they work in turns, round after round, so that a busy machine is busy for all of them. What counts
is the processor's time, and the ratios of turns of one round.

    python -m benchmarks.fingerprints [--documents FILE] [--json FILE]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from rich.table import Table

from benchmarks.contender_process import ContenderError, ContenderProcess, Turn
from benchmarks.contenders.firstseen import BATCH
from benchmarks.fingerprint_stages import StageTime, stage_times
from benchmarks.peers.environment import PeersUnavailableError, peers_python
from benchmarks.report import (
    Machine,
    Spread,
    add_json_option,
    machine,
    new_table,
    publish,
    ratios,
)
from benchmarks.texts import add_text_options, texts_of
from simhash_core.text.profiles import OF_TERMS, PROFILES

DOCUMENTS: Final = 500
ROUNDS: Final = 7

_MICROSECONDS: Final = 1e6


class _Contender(NamedTuple):
    name: str
    module: str
    variant: str
    is_peer: bool = False


_OURS: Final = tuple(_Contender(f"firstseen {name}", "firstseen", name) for name in PROFILES)
_SEGMENTATION: Final = _Contender("rjieba, no fingerprint", "rjieba_words", "")
_PEERS: Final = (
    _Contender("simhash, jieba words", "simhash_library", "jieba", is_peer=True),
    _Contender("simhash, 4-grams", "simhash_library", "ngrams", is_peer=True),
)
_GOALS: Final = {_PEERS[0].name: 8.0, _SEGMENTATION.name: 0.5}


class Measured(msgspec.Struct, frozen=True):
    """The times of one contender, microseconds a document."""

    name: str
    cpu_us: Spread
    wall_us: Spread
    documents_per_second: float


class Ratio(msgspec.Struct, frozen=True):
    """How many times as fast as another a contender of ours is, round by round."""

    name: str
    against: str
    times_as_fast: Spread
    goal: float | None


class Stages(msgspec.Struct, frozen=True):
    """Where the time of a profile goes."""

    profile: str
    stages: list[StageTime]


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """All that is measured here."""

    machine: Machine
    documents: int
    characters: int
    source: str
    batch: int
    rounds: int
    contenders: list[Measured]
    ratios: list[Ratio]
    stages: list[Stages]


def run(texts: Sequence[str], rounds: int, source: str, *, with_peers: bool) -> Figures:
    """Measure; raises ``PeersUnavailableError`` and ``ContenderError``."""
    before = machine()
    others = [_SEGMENTATION, *_PEERS] if with_peers else [_SEGMENTATION]
    turns = _turns([*_OURS, *others], texts, rounds)
    cpu = {name: [turn.cpu for turn in measured] for name, measured in turns.items()}
    return Figures(
        machine=before,
        documents=len(texts),
        characters=max(map(len, texts)),
        source=source,
        batch=BATCH,
        rounds=rounds,
        contenders=[_measured(name, measured, len(texts)) for name, measured in turns.items()],
        ratios=[
            Ratio(
                ours.name,
                other.name,
                ratios(cpu[other.name], cpu[ours.name]),
                _GOALS.get(other.name),
            )
            for other in others
            for ours in _OURS
        ],
        stages=[
            Stages(name, stage_times(profile, texts, BATCH, rounds))
            for name, profile in PROFILES.items()
            if profile.fingerprint == OF_TERMS
        ],
    )


def _turns(
    contenders: Sequence[_Contender], texts: Sequence[str], rounds: int
) -> dict[str, list[Turn]]:
    with ExitStack() as stack:
        processes: dict[str, ContenderProcess] = {}
        for name, module, variant, is_peer in contenders:
            python = peers_python() if is_peer else Path(sys.executable)
            process = ContenderProcess(python, module, variant, texts)
            processes[name] = stack.enter_context(process)
        turns: dict[str, list[Turn]] = {name: [] for name in processes}
        for _ in range(rounds):
            for name, process in processes.items():
                turns[name].append(process.turn())
    return turns


def _measured(name: str, turns: Sequence[Turn], documents: int) -> Measured:
    cpu = Spread.of(turn.cpu / documents * _MICROSECONDS for turn in turns)
    wall = Spread.of(turn.wall / documents * _MICROSECONDS for turn in turns)
    return Measured(name, cpu, wall, round(_MICROSECONDS / cpu.median))


def tables(figures: Figures) -> Iterator[Table]:
    """Show the figures."""
    title = (
        f"Text to fingerprint: {figures.documents} documents of {figures.characters} characters "
        f"({figures.source}), {figures.rounds} rounds"
    )
    table = new_table(title, "", "documents/s", "CPU µs a document", "clock µs")
    for each in figures.contenders:
        table.add_row(
            each.name,
            f"{each.documents_per_second:,.0f}",
            each.cpu_us.shown(),
            each.wall_us.shown(),
        )
    yield table
    table = new_table("Times as fast, round by round", "", "against", "", "goal")
    for ratio in figures.ratios:
        goal = "" if ratio.goal is None else f"≥ {ratio.goal:g}"
        table.add_row(ratio.name, ratio.against, ratio.times_as_fast.shown(2), goal)
    yield table
    for profile, stages in ((each.profile, each.stages) for each in figures.stages):
        total = sum(stage.cpu_us.median for stage in stages)
        table = new_table(f"Where the time of {profile} goes", "step", "CPU µs a document", "share")
        for stage in stages:
            share = stage.cpu_us.median / total
            table.add_row(stage.stage, stage.cpu_us.shown(1), f"{share:.0%}")
        yield table


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark as the command line says."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.fingerprints", description=(__doc__ or "").partition("\n")[0]
    )
    add_text_options(parser, DOCUMENTS)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="turns of each (%(default)s)")
    parser.add_argument(
        "--without-peers", action="store_true", help="do not install and run other libraries"
    )
    add_json_option(parser)
    options = parser.parse_args(arguments)
    if options.rounds < 1:
        parser.error("--rounds must be 1 or more")
    source = "generated" if options.documents is None else options.documents.name
    try:
        figures = run(
            texts_of(options), options.rounds, source, with_peers=not options.without_peers
        )
    except (PeersUnavailableError, ContenderError) as error:
        raise SystemExit(str(error)) from error
    publish(figures, tables(figures), options.json)


if __name__ == "__main__":
    main()
