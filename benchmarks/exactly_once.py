"""What exactly-once costs: the same documents with and without it, on a real Kafka, in turns.

python -m benchmarks.exactly_once [--count N] [--rounds N] [--json FILE]
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec
from rich.table import Table

from benchmarks.kafka_stream import WARM_UP, KafkaStream, MeasurementError, Taken, measured_kafka
from benchmarks.report import Machine, Spread, add_json_option, machine, new_table, publish, ratios
from benchmarks.texts import CHARACTERS, generated_documents, with_copies
from simhash_core.errors import FirstseenError
from tests.brokers.kafka_broker import KafkaBrokerError

DOCUMENTS: Final = 6_000
ROUNDS: Final = 5
PARTITIONS: Final = 4
COPIES: Final = 0.5
MODES: Final = ("at_least_once", "exactly_once")

_TEN_THOUSAND: Final = 10_000


class Mode(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one way of delivery. ``cpu_seconds``: of the worker, for 10,000 documents."""

    delivery: str
    documents_per_second: Spread
    cpu_seconds: Spread


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """All that is measured here; the ratios are of exactly once to at least once, in one round."""

    machine: Machine
    documents: int
    copies: float
    rounds: int
    partitions: int
    modes: list[Mode]
    time_ratio: Spread
    cpu_ratio: Spread


def run(count: int, rounds: int) -> Figures:
    """Measure; raises ``FirstseenError``, ``KafkaBrokerError`` and ``MeasurementError``."""
    before = machine()
    texts = with_copies(generated_documents(count + WARM_UP, CHARACTERS), COPIES)
    taken: dict[str, list[Taken]] = {mode: [] for mode in MODES}
    with tempfile.TemporaryDirectory(prefix="firstseen-benchmark-") as name:
        directory = Path(name)
        with measured_kafka(directory / "kafka") as brokers:
            for number in range(rounds):
                order = MODES if number % 2 else MODES[::-1]
                for mode in order:
                    stream = KafkaStream(
                        brokers,
                        directory / f"{mode}-{number}",
                        f"{mode}-{number}",
                        partitions=PARTITIONS,
                        options=[f"delivery={mode}"],
                    )
                    with stream:
                        stream.measure(texts[:WARM_UP])
                        taken[mode].append(stream.measure(texts[WARM_UP:]))
    times = {mode: [each.seconds for each in found] for mode, found in taken.items()}
    cpu = {mode: [each.cpu_seconds for each in found] for mode, found in taken.items()}
    return Figures(
        machine=before,
        documents=count,
        copies=COPIES,
        rounds=rounds,
        partitions=PARTITIONS,
        modes=[
            Mode(
                delivery=mode,
                documents_per_second=Spread.of(e.documents / e.seconds for e in found),
                cpu_seconds=Spread.of(e.cpu_seconds / e.documents * _TEN_THOUSAND for e in found),
            )
            for mode, found in taken.items()
        ],
        time_ratio=ratios(times[MODES[1]], times[MODES[0]]),
        cpu_ratio=ratios(cpu[MODES[1]], cpu[MODES[0]]),
    )


def tables(figures: Figures) -> Iterator[Table]:
    """Show the figures."""
    title = (
        f"One worker, {figures.partitions} shards, Apache Kafka: {figures.documents} documents, "
        f"{figures.copies:.0%} copies, {figures.rounds} rounds"
    )
    table = new_table(title, "delivery", "documents/s", "worker's CPU s, 10,000 documents")
    for mode in figures.modes:
        table.add_row(
            mode.delivery, mode.documents_per_second.shown(), mode.cpu_seconds.shown(digits=2)
        )
    table.add_row("times the time", figures.time_ratio.shown(digits=2), "")
    table.add_row("times the processor", "", figures.cpu_ratio.shown(digits=2))
    yield table


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark as the command line says."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.exactly_once", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--count", type=int, default=DOCUMENTS, help="documents (%(default)s)")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="runs of each (%(default)s)")
    add_json_option(parser)
    options = parser.parse_args(arguments)
    if options.count < 1 or options.rounds < 1:
        parser.error("--count and --rounds must be 1 or more")
    try:
        figures = run(options.count, options.rounds)
    except (FirstseenError, KafkaBrokerError, MeasurementError) as error:
        raise SystemExit(str(error)) from error
    publish(figures, tables(figures), options.json)


if __name__ == "__main__":
    main()
