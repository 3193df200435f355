"""The figures of a demo, and their tables on the terminal, which fit 80 columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec
from prometheus_client.parser import text_string_to_metric_families
from rich.console import Console
from rich.table import Table
from rich.text import Text

from streams.corpus.generated import EditKind
from streams.demo.scoring import KindScore
from streams.monitoring.metrics import Stage
from streams.terminal.layout import Block, counted, show, table
from streams.terminal.record_lines import (
    DEAD_LETTER_STYLE,
    DUPLICATE_STYLE,
    QUIET_STYLE,
    UNDECIDABLE_STYLE,
    UNIQUE_STYLE,
)

# ---- The worker's time, from its metrics.

_STAGES: Final = "firstseen_stage_duration_seconds"
_PROCESSOR: Final = "process_cpu_seconds_total"


class StageTime(msgspec.Struct, frozen=True):
    stage: str
    batches: int
    seconds: float


def worker_times(exposition: str) -> tuple[tuple[StageTime, ...], float]:
    """Return the time of each stage, and the seconds of CPU time, from a worker's metrics."""
    values = {
        (sample.name, sample.labels.get("stage", "")): sample.value
        for family in text_string_to_metric_families(exposition)
        for sample in family.samples
    }
    stages = tuple(
        StageTime(stage, int(values[f"{_STAGES}_count", stage]), round(seconds, 3))
        for (name, stage), seconds in values.items()
        if name == f"{_STAGES}_sum" and values[f"{_STAGES}_count", stage]
        if stage != Stage.WATCH  # it runs beside the work
    )
    return stages, values.get((_PROCESSOR, ""), 0.0)


# ---- The figures, as in the JSON object of ``--json``.


class DemoReport(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a demo; docs/demo.md explains them."""

    input: str | None
    seed: int | None
    profile: str
    documents: int
    unique: int
    undecidable: int
    duplicates: int
    exact_duplicates: int
    near_duplicates: int
    dead_letters: int
    dead_letters_by_reason: Mapping[str, int]
    tombstones: int
    too_long: int
    lost: int
    repeated: int
    precision: float | None = None
    recall: float | None = None
    by_kind: Mapping[EditKind, KindScore] | None = None
    seconds: float
    documents_per_second: float
    shards: int
    worker_cpu_seconds: float = 0.0
    stages: tuple[StageTime, ...] = ()

    @property
    def decided(self) -> int:
        """The number of records with an output, and of tombstones, which have none."""
        return self.documents - self.lost

    @property
    def is_whole(self) -> bool:
        return self.lost == 0 and self.repeated == 0


# ---- The tables.

INDENT: Final = "  "

_REASONS: Final = 2
_KIND_NAMES: Final[Mapping[EditKind, str]] = {
    EditKind.EDIT_1_5: "edit, 1–5 %",
    EditKind.EDIT_5_10: "edit, 5–10 %",
    EditKind.EDIT_10_20: "edit, 10–20 %",
}
_STAGE_NAMES: Final = {"commit": "commit, until acknowledged"}


def print_summary(console: Console, report: DemoReport) -> None:
    headline = Text.assemble(
        (f"{counted(report.documents, 'record')} in {report.seconds:.1f} s", "bold"),
        f", {report.documents_per_second:,.0f} per second: ",
    )
    if report.is_whole:
        headline.append("nothing lost, nothing repeated", style="bold green")
    else:
        headline.append(f"{report.lost:,} lost, {report.repeated:,} repeated", style="bold red")
    show([headline, "", outputs(report)], console=console)
    if report.by_kind is not None:
        note = "Found: reported as a duplicate of the correct article, or of another copy of it."
        print_section(
            console, "Results by kind of copy", [_kinds(report, report.by_kind), _note(note)]
        )
    note = "Other steps run during a commit, so the sum may exceed the time of the run."
    print_section(console, "Time of the worker by step", [_stages(report), _note(note)])


def print_addresses(console: Console, brokers: str, pages: str, state_dir: Path) -> None:
    rows = (
        ("Kafka broker", brokers),
        ("worker", f"{pages}  (/metrics /healthz /readyz)"),
        ("state and log", str(state_dir)),
        ("send more", f"firstseen produce my.jsonl --broker {brokers}"),
        ("follow", f"firstseen consume --broker {brokers}"),
        ("stop", "Ctrl-C"),
    )
    print_section(console, "Still running", [_pairs(rows)])


def print_next(console: Console) -> None:
    rows = (
        ("with your own file", "firstseen demo --input my.jsonl"),
        ("", 'one JSON object per line: {"id": "1", "text": "…"}'),
        ("keep the broker running", "firstseen demo --keep-running"),
        ("without a broker", "firstseen dedup my.jsonl"),
        ("with your own Kafka", "firstseen topics create --help, then firstseen worker --help"),
    )
    print_section(console, "Next", [_pairs(rows)])


def print_section(console: Console, title: str, blocks: Iterable[Block]) -> None:
    show(["", Text(title, style="bold"), *blocks], console=console)


def outputs(report: DemoReport) -> Table:
    """Return how many records went to each output, also while the demo runs."""
    near = f"{report.exact_duplicates:,} of the same content, {report.near_duplicates:,} near"
    rows = [
        ("unique", report.unique, UNIQUE_STYLE, "output unchanged"),
        ("", report.undecidable, UNDECIDABLE_STYLE, "of these too short to compare"),
        ("duplicates", report.duplicates, DUPLICATE_STYLE, near),
        ("dead letters", report.dead_letters, DEAD_LETTER_STYLE, _reasons(report)),
    ]
    if report.tombstones:
        rows.append(("tombstones", report.tombstones, "", "without an output"))
    if report.too_long:
        rows.append(("left out", report.too_long, "red", "too long for the embedded broker"))
    cells = [
        (
            Text(name, style=style),
            f"{count:,}",
            f"{count / max(1, report.documents):.1%}" if name else "",
            Text(note, style=QUIET_STYLE),
        )
        for name, count, style, note in rows
    ]
    return table(cells, "<>><", INDENT)


def _reasons(report: DemoReport) -> str:
    reasons = list(report.dead_letters_by_reason.items())
    shown = [f"{reason} {count:,}" for reason, count in reasons[:_REASONS]]
    left = sum(count for _, count in reasons[_REASONS:])
    return ", ".join([*shown, *([f"others {left:,}"] if left else [])])


def _kinds(report: DemoReport, by_kind: Mapping[EditKind, KindScore]) -> Block:
    rows = [
        (
            _KIND_NAMES.get(kind, kind.replace("_", " ")),
            f"{each.copies:,}",
            f"{each.found:,}",
            _rate(each.recall),
            _rate(each.precision),
        )
        for kind, each in by_kind.items()
        if each.copies or each.called_duplicate
    ]
    copies, found = (
        f"{sum(getattr(each, name) for each in by_kind.values()):,}" for name in ("copies", "found")
    )
    total = ("all", copies, found, _rate(report.recall), _rate(report.precision))
    head = _head("kind", "copies", "found", "recall", "precision")
    return table([head, *rows, tuple(Text(cell, style="bold") for cell in total)], "<>>>>", INDENT)


def _rate(rate: float | None) -> str:
    return "–" if rate is None else f"{rate:.3f}"


def _stages(report: DemoReport) -> Block:
    times = [
        *((each.stage, f"{each.batches:,}", each.seconds) for each in report.stages),
        ("CPU time in total", "", report.worker_cpu_seconds),
    ]
    rows = [
        (
            _STAGE_NAMES.get(stage, stage),
            batches,
            f"{seconds:.2f}",
            f"{seconds / max(report.seconds, 1e-3):.0%}",
            f"{1e6 * seconds / max(1, report.documents):,.0f}",
        )
        for stage, batches, seconds in times
    ]
    head = _head("stage", "batches", "seconds", "of the run", "µs per record")
    return table([head, *rows], "<>>>>", INDENT)


def _head(*names: str) -> tuple[Text, ...]:
    return tuple(Text(name, style=QUIET_STYLE) for name in names)


def _note(text: str) -> Text:
    return Text(INDENT + text, style=QUIET_STYLE)


def _pairs(rows: Iterable[tuple[str, str]]) -> Block:
    return table(((Text(name, style=QUIET_STYLE), value) for name, value in rows), "<<", INDENT)
