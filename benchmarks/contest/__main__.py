"""Firstseen beside what else one could run, on a real Kafka: speed, latency, stalls.

python -m benchmarks.contest [--documents N] [--rounds R] [--only NAME …] [--json FILE]
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaException
from rich.console import Console

from benchmarks.contest import figures
from benchmarks.contest.broker import running_broker
from benchmarks.contest.contenders import needs_peers
from benchmarks.contest.documents import streams
from benchmarks.contest.errors import ContestError
from benchmarks.contest.figures import Contest
from benchmarks.contest.latency import Observed, observe
from benchmarks.contest.shapes import COPIED_SHARE, DISTINCT, SHAPES, WARM_UP_SHAPES
from benchmarks.contest.speed import WARM_UP, Run, one_run, race
from benchmarks.contest.stall import stalls
from benchmarks.contest.tables import tables
from benchmarks.peers.environment import PeersUnavailableError, peers_python
from benchmarks.report import Spread, add_json_option, machine, publish
from benchmarks.texts import CHARACTERS
from tests.rigs.brokers.kafka_broker import KafkaBrokerError

DOCUMENTS: Final = 10_000
ROUNDS: Final = 3
SHARD_DOCUMENTS: Final = 100_000

LATENCY: Final = "latency"
KILL: Final = "kill"
PARTS: Final = (*(shape.name for shape in SHAPES), LATENCY, KILL)


class Plan(argparse.Namespace):
    """What the command line asks for."""

    documents: int
    rounds: int
    shard_documents: int
    only: list[str]
    json: str | None


def run(plan: Plan) -> Contest:
    """Run the contest.

    Raises ``ContestError``, ``KafkaBrokerError``, ``KafkaException`` and
    ``PeersUnavailableError``.
    """
    before = machine()
    shapes = [shape for shape in SHAPES if shape.name in plan.only]
    if any(needs_peers(shape) for shape in shapes):
        peers_python()
    texts = streams(plan.documents + WARM_UP)
    runs: dict[str, list[Run]] = {}
    observed: dict[int, list[Observed]] = {}
    longest: list[float] = []
    say = Console(stderr=True, highlight=False).print
    with tempfile.TemporaryDirectory(prefix="firstseen-contest-") as name:
        directory = Path(name)
        with running_broker(directory / "kafka") as broker:
            for shape in WARM_UP_SHAPES:
                one_run(shape, f"{shape.name}-warm-up", texts[shape.stream], directory, broker)
            runs = race(shapes, plan.rounds, texts, directory, broker, say)
            if LATENCY in plan.only:
                observed = observe(plan.rounds, texts[DISTINCT], directory, broker, say)
            if KILL in plan.only:
                longest = stalls(plan.shard_documents, texts[DISTINCT], directory, broker, say)
    spreads = figures.speed_ratios(runs)
    if observed:
        spreads[figures.IDLE] = figures.idle_share(observed)
    if longest:
        spreads[figures.STALL] = Spread.of(longest)
    return Contest(
        machine=before,
        documents=plan.documents,
        characters=CHARACTERS,
        copied_share=COPIED_SHARE,
        rounds=plan.rounds,
        ratios=figures.summary(spreads),
        ratio_spreads=spreads,
        goals=figures.GOALS,
        latency_ms=figures.latency(observed) if observed else {},
        latency_goals_ms=figures.LATENCY_GOALS_MS,
        contenders=[figures.measured(shape, runs[shape.name]) for shape in shapes],
        stalls=longest,
        shard_documents=plan.shard_documents,
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the contest as the command line says."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.contest", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument(
        "--documents", type=int, default=DOCUMENTS, help="of each run (%(default)s)"
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="runs of each (%(default)s)")
    parser.add_argument(
        "--shard-documents",
        type=int,
        default=SHARD_DOCUMENTS,
        metavar="N",
        help="in the index of each shard when a worker is killed (%(default)s)",
    )
    parser.add_argument(
        "--only",
        nargs="+",
        choices=PARTS,
        default=list(PARTS),
        metavar="NAME",
        help=f"some of: {', '.join(PARTS)}",
    )
    add_json_option(parser)
    plan = parser.parse_args(arguments, Plan())
    if min(plan.documents, plan.rounds, plan.shard_documents) < 1:
        parser.error("--documents, --rounds and --shard-documents must be 1 or more")
    try:
        contest = run(plan)
    except (ContestError, KafkaBrokerError, KafkaException, PeersUnavailableError) as error:
        raise SystemExit(str(error)) from error
    publish(contest, tables(contest), plan.json)


if __name__ == "__main__":
    main()
