"""A worker end to end: documents from one topic to the others, on the embedded broker.

It is the demo's run on documents of one length: broker, worker and feed are a process each, and the
feed is never more than a thousand documents ahead of the outputs (docs/demo.md says what is real).

    python -m benchmarks.worker [--documents FILE] [--json FILE]
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec
from rich.table import Table

from benchmarks.report import Machine, Spread, add_json_option, machine, new_table, publish
from benchmarks.texts import add_text_options, texts_of
from simhash_core.errors import FirstseenError
from simhash_core.text.profiles import PROFILES
from streams.demo.live_view import Change, Progress
from streams.demo.request import DemoRequest
from streams.demo.run import running_demo
from streams.demo.summary import DemoReport

DOCUMENTS: Final = 4_000
ROUNDS: Final = 3

_MICROSECONDS: Final = 1e6


class StageTime(msgspec.Struct, frozen=True):
    """The time of the clock of one step: microseconds a document; documents a batch."""

    stage: str
    wall_us: Spread
    documents_a_batch: float


class Profiled(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one profile. ``worker_cpu_us``: the processor's time of the whole worker."""

    profile: str
    documents_per_second: Spread
    worker_cpu_us: Spread
    stages: list[StageTime]


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """All that is measured here."""

    machine: Machine
    documents: int
    characters: int
    source: str
    rounds: int
    profiles: list[Profiled]


class IncompleteRunError(Exception):
    """A run in which not each document had one output: its time says nothing."""


class _Silence:
    """No picture of the run: it would be part of what is measured."""

    def starting(self, what: str) -> None:
        """Say nothing."""

    def show(self, progress: Progress, change: Change) -> None:
        """Show nothing."""

    def finish(self) -> None:
        """Do nothing."""


def run(texts: Sequence[str], rounds: int, source: str) -> Figures:
    """Measure both profiles in turns.

    Raises ``FirstseenError`` for what does not start, and ``IncompleteRunError``.
    """
    before = machine()
    reports: dict[str, list[DemoReport]] = {profile: [] for profile in PROFILES}
    with tempfile.TemporaryDirectory(prefix="firstseen-benchmark-") as directory:
        path = Path(directory) / "documents.jsonl"
        encoded = msgspec.json.Encoder()
        path.write_bytes(
            encoded.encode_lines({"id": f"{i}", "text": text} for i, text in enumerate(texts))
        )
        for _ in range(rounds):
            for profile, measured in reports.items():
                measured.append(_one_run(str(path), profile))
    return Figures(
        machine=before,
        documents=len(texts),
        characters=max(map(len, texts)),
        source=source,
        rounds=rounds,
        profiles=[_profiled(profile, measured) for profile, measured in reports.items()],
    )


def _one_run(path: str, profile: str) -> DemoReport:
    view = _Silence()
    with running_demo(DemoRequest(input=path, profile=profile), view) as demo:
        report = demo.play(view)
    if not report.is_whole:
        raise IncompleteRunError(f"lost {report.lost}, repeated {report.repeated} documents")
    return report


def _profiled(profile: str, reports: Sequence[DemoReport]) -> Profiled:
    names = [stage.stage for stage in reports[-1].stages]
    profile_seconds = {
        name: [
            (stage, report) for report in reports for stage in report.stages if stage.stage == name
        ]
        for name in names
    }
    return Profiled(
        profile=profile,
        documents_per_second=Spread.of(report.documents_per_second for report in reports),
        worker_cpu_us=Spread.of(
            report.worker_cpu_seconds / report.documents * _MICROSECONDS for report in reports
        ),
        stages=[
            StageTime(
                name,
                Spread.of(
                    stage.seconds / report.documents * _MICROSECONDS for stage, report in times
                ),
                round(
                    sum(report.documents for _, report in times)
                    / sum(stage.batches for stage, _ in times),
                    1,
                ),
            )
            for name, times in profile_seconds.items()
        ],
    )


def tables(figures: Figures) -> Iterator[Table]:
    """Show the figures."""
    title = (
        f"One worker, one shard, embedded broker: {figures.documents} documents of "
        f"{figures.characters} characters ({figures.source}), {figures.rounds} rounds"
    )
    table = new_table(title, "profile", "documents/s", "worker's CPU µs a document")
    for each in figures.profiles:
        table.add_row(each.profile, each.documents_per_second.shown(), each.worker_cpu_us.shown())
    yield table
    for each in figures.profiles:
        table = new_table(
            f"Where the time of a worker goes, {each.profile}",
            "step",
            "clock µs a document",
            "documents a batch",
        )
        for stage in each.stages:
            table.add_row(stage.stage, stage.wall_us.shown(), f"{stage.documents_a_batch:,.0f}")
        yield table


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark as the command line says."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.worker", description=(__doc__ or "").partition("\n")[0]
    )
    add_text_options(parser, DOCUMENTS)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="runs of each (%(default)s)")
    add_json_option(parser)
    options = parser.parse_args(arguments)
    if options.rounds < 1:
        parser.error("--rounds must be 1 or more")
    source = "generated" if options.documents is None else options.documents.name
    try:
        figures = run(texts_of(options), options.rounds, source)
    except (FirstseenError, IncompleteRunError) as error:
        raise SystemExit(str(error)) from error
    publish(figures, tables(figures), options.json)


if __name__ == "__main__":
    main()
