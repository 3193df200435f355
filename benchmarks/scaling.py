"""What scale costs: the same documents through 1 and 2 workers on 1, 4 and 16 partitions of Kafka.

Beside the messages between shards that were measured stand those of the simulator of the tests, for
the same fingerprints in the same order.

    python -m benchmarks.scaling [--count N] [--rounds N] [--copies SHARE] [--json FILE]
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec
from rich.table import Table

from benchmarks.kafka_stream import (
    RAW_PARTITIONS,
    WARM_UP,
    KafkaStream,
    MeasurementError,
    Taken,
    measured_kafka,
)
from benchmarks.report import Machine, Spread, add_json_option, machine, new_table, publish, ratios
from benchmarks.texts import CHARACTERS, generated_documents, with_copies
from simhash_core.errors import FirstseenError
from simhash_core.fingerprinter import Fingerprinter
from simhash_core.placement import Placement
from streams.settings import Settings
from tests.brokers.kafka_broker import KafkaBrokerError
from tests.simulation.cluster import simulate
from tests.simulation.scenario import Delivery, RawDocument, Scenario

DOCUMENTS: Final = 4_000
ROUNDS: Final = 3
COPIES: Final = 0.75
PARTITIONS: Final = (1, 4, 16)
WORKERS: Final = (1, 2)
SIMULATED: Final = 1_000
GOAL: Final = 1.5

_TEN_THOUSAND: Final = 10_000
_BATCH: Final = 8


class Scale(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one number of workers and partitions.

    ``cpu_seconds``: of all workers, for 10,000 documents. ``growth``: of these over those of one
    partition, within a round. ``messages``: between shards, for a document.
    """

    workers: int
    partitions: int
    documents_per_second: Spread
    cpu_seconds: Spread
    growth: Spread
    messages: Spread
    simulated_messages: float


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """All that is measured here. ``duplicates``: the share that was found to be."""

    machine: Machine
    documents: int
    copies: float
    duplicates: float
    rounds: int
    goal: float
    scales: list[Scale]


def run(count: int, rounds: int, copies: float) -> Figures:
    """Measure; raises ``FirstseenError``, ``KafkaBrokerError`` and ``MeasurementError``."""
    before = machine()
    texts = with_copies(generated_documents(count + WARM_UP, CHARACTERS), copies)
    shapes = [(workers, partitions) for workers in WORKERS for partitions in PARTITIONS]
    taken: dict[tuple[int, int], list[Taken]] = {shape: [] for shape in shapes}
    with tempfile.TemporaryDirectory(prefix="firstseen-benchmark-") as name:
        directory = Path(name)
        with measured_kafka(directory / "kafka") as brokers:
            for number in range(rounds):
                for workers, partitions in shapes if number % 2 else shapes[::-1]:
                    title = f"scale-{workers}-{partitions}-{number}"
                    stream = KafkaStream(
                        brokers, directory / title, title, partitions=partitions, workers=workers
                    )
                    with stream:
                        stream.measure(texts[:WARM_UP])
                        taken[workers, partitions].append(stream.measure(texts[WARM_UP:]))
    simulated = {p: _simulated(texts[:SIMULATED], p) for p in PARTITIONS}
    decided = [found for runs in taken.values() for found in runs]
    return Figures(
        machine=before,
        documents=count,
        copies=copies,
        duplicates=round(
            sum(n for each in decided for verdict, n in each.decided.items() if "dup" in verdict)
            / sum(each.documents for each in decided),
            4,
        ),
        rounds=rounds,
        goal=GOAL,
        scales=[
            _scale(shape, runs, taken[shape[0], 1], simulated[shape[1]])
            for shape, runs in taken.items()
        ],
    )


def _scale(
    shape: tuple[int, int], runs: Sequence[Taken], on_one: Sequence[Taken], simulated: float
) -> Scale:
    return Scale(
        workers=shape[0],
        partitions=shape[1],
        documents_per_second=Spread.of(each.documents / each.seconds for each in runs),
        cpu_seconds=Spread.of(each.cpu_seconds / each.documents * _TEN_THOUSAND for each in runs),
        growth=ratios([each.cpu_seconds for each in runs], [each.cpu_seconds for each in on_one]),
        messages=Spread.of(sum(each.messages.values()) / each.documents for each in runs),
        simulated_messages=simulated,
    )


def _simulated(texts: Sequence[str], partitions: int) -> float:
    """Return the messages between shards that the simulator counts, for a document."""
    fingerprinter = Fingerprinter(Settings().index_profile())
    documents = tuple(
        RawDocument(f"{n}", n % RAW_PARTITIONS, 0, made.fingerprint, made.content_digest)
        for n, made in enumerate(fingerprinter.fingerprint_batch(texts))
    )
    scenario = Scenario(
        schedule_seed=0,
        placement=Placement(fingerprinter.scheme, partitions),
        raw_partitions=RAW_PARTITIONS,
        workers=1,
        delivery=Delivery.EXACTLY_ONCE,
        documents=documents,
        faults=frozenset(),
        faults_most=0,
        batch_most=_BATCH,
    )
    return round(simulate(scenario).messages.total() / len(texts), 2)


def tables(figures: Figures) -> Iterator[Table]:
    """Show the figures."""
    title = (
        f"Scale, Apache Kafka: {figures.documents} documents, {figures.duplicates:.0%} of them "
        f"duplicates, {figures.rounds} rounds"
    )
    table = new_table(
        title,
        "workers × partitions",
        "documents/s",
        "CPU s, 10,000 documents",
        f"to one partition (goal {figures.goal:g})",
        "messages a document",
        "simulated",
    )
    for each in figures.scales:
        table.add_row(
            f"{each.workers} × {each.partitions}",
            each.documents_per_second.shown(),
            each.cpu_seconds.shown(digits=2),
            each.growth.shown(digits=2),
            each.messages.shown(digits=2),
            f"{each.simulated_messages:.2f}",
        )
    yield table


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark as the command line says."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.scaling", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--count", type=int, default=DOCUMENTS, help="documents (%(default)s)")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="runs of each (%(default)s)")
    parser.add_argument(
        "--copies", type=float, default=COPIES, help="share that copies others (%(default)s)"
    )
    add_json_option(parser)
    options = parser.parse_args(arguments)
    if options.count < 1 or options.rounds < 1 or not 0 <= options.copies < 1:
        parser.error("--count and --rounds must be 1 or more, --copies from 0 to less than 1")
    try:
        figures = run(options.count, options.rounds, options.copies)
    except (FirstseenError, KafkaBrokerError, MeasurementError) as error:
        raise SystemExit(str(error)) from error
    publish(figures, tables(figures), options.json)


if __name__ == "__main__":
    main()
