"""Compares Firstseen with its alternatives on a real Kafka: speed, latency, stalls.

python -m benchmarks.contest [--documents N] [--rounds R] [--only NAME …] [--json FILE]
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaException

from benchmarks.command import add_number, errors_reported, new_parser
from benchmarks.contest.broker import running_broker
from benchmarks.contest.contenders import needs_peers
from benchmarks.contest.figures import contest_of, shown
from benchmarks.contest.service import Observed, observe, stalls
from benchmarks.contest.shapes import COPIED_SHARE, COPIES, DISTINCT, SHAPES, WARM_UP_SHAPES
from benchmarks.contest.speed import WARM_UP, one_run, race
from benchmarks.peers.environment import peers_python
from benchmarks.report import Figures, machine, publish
from benchmarks.texts import CHARACTERS, generated_documents, with_copies
from tests.rigs.brokers.kafka_broker import KafkaBrokerError

DOCUMENTS: Final = 10_000
ROUNDS: Final = 3
SHARD_DOCUMENTS: Final = 100_000

LATENCY: Final = "latency"
KILL: Final = "kill"
PARTS: Final = (*(shape.name for shape in SHAPES), LATENCY, KILL)


def run(plan: argparse.Namespace) -> Figures:
    before = machine()
    shapes = [shape for shape in SHAPES if shape.name in plan.only]
    if any(needs_peers(shape) for shape in shapes):
        peers_python()
    distinct = generated_documents(plan.documents + WARM_UP, CHARACTERS)
    texts = {DISTINCT: distinct, COPIES: with_copies(distinct, COPIED_SHARE)}
    observed: dict[int, list[Observed]] = {}
    longest: list[float] = []
    with (
        tempfile.TemporaryDirectory(prefix="firstseen-contest-") as directory,
        running_broker(Path(directory)) as broker,
    ):
        for shape in WARM_UP_SHAPES:
            one_run(shape, f"{shape.name}-warm-up", texts[shape.stream], broker)
        runs = race(shapes, plan.rounds, texts, broker)
        if LATENCY in plan.only:
            observed = observe(plan.rounds, distinct, broker)
        if KILL in plan.only:
            longest = stalls(plan.shard_documents, distinct, broker)
    return {
        "machine": before,
        "documents": plan.documents,
        "characters": CHARACTERS,
        "copied_share": COPIED_SHARE,
        "rounds": plan.rounds,
        "shard_documents": plan.shard_documents,
        **contest_of(runs, observed, longest),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = new_parser("benchmarks.contest", __doc__)
    add_number(parser, "--documents", DOCUMENTS, "documents of each run")
    add_number(parser, "--rounds", ROUNDS, "rounds of each system")
    add_number(
        parser, "--shard-documents", SHARD_DOCUMENTS, "documents of each shard before a kill"
    )
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, metavar="NAME")
    plan = parser.parse_args(arguments)
    with errors_reported(KafkaBrokerError, KafkaException):
        contest = run(plan)
    publish(contest, plan.json, shown(contest))


if __name__ == "__main__":
    main()
