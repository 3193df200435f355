"""What a demo shows at its end: where the documents went, how well, how fast, and what to do next.

Wider than 80 cells it never is, so that it can be read anywhere and pasted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from streams.demo.generated import BROKEN, EditKind
from streams.demo.report import DemoReport
from streams.record_lines import (
    DEAD_LETTER_STYLE,
    DUPLICATE_STYLE,
    QUIET_STYLE,
    UNDECIDABLE_STYLE,
    UNIQUE_STYLE,
)

_REASONS: Final = 3
_SUMMED: Final = ("count", "copies", "found")
_BROKEN: Final = frozenset(map(str, BROKEN))
_KIND_NAMES: Final[Mapping[str, str]] = {
    EditKind.EDIT_1_5: "edit, 1–5 %",
    EditKind.EDIT_5_10: "edit, 5–10 %",
    EditKind.EDIT_10_20: "edit, 10–20 %",
}
_STAGE_NAMES: Final = {"send": "send, until acknowledged"}
_INDENT: Final = (0, 0, 0, 2)


def print_summary(console: Console, report: DemoReport) -> None:
    """Print the figures."""
    console.print(_headline(report), soft_wrap=True)
    console.print(_section("", _outputs(report)))
    if report.by_kind is not None:
        console.print(_section("How well, by kind of record", _kinds(report)))
    console.print(_section("Where the worker's time went", _stages(report)))


def print_addresses(console: Console, brokers: str, pages: str, state_dir: Path) -> None:
    """Print what is still up, how to use it, and how to stop it."""
    rows = (
        ("Kafka broker", brokers),
        ("worker", f"{pages}  (/metrics /healthz /readyz)"),
        ("state and log", str(state_dir)),
        ("send more", f"firstseen produce my.jsonl --broker {brokers}"),
        ("follow", f"firstseen consume --broker {brokers}"),
        ("stop", "Ctrl-C"),
    )
    console.print(_section("Still up", _pairs(rows)))


def print_next(console: Console) -> None:
    """Print what to do next."""
    rows = (
        ("your own file", "firstseen demo --input my.jsonl"),
        ("", 'one JSON object a line: {"id": "1", "text": "…"}'),
        ("look around", "firstseen demo --keep-running"),
        ("no broker at all", "firstseen dedup my.jsonl"),
        ("your own Kafka", "firstseen topics create --help, then firstseen worker --help"),
    )
    console.print(_section("Next", _pairs(rows)))


def _headline(report: DemoReport) -> Text:
    records = "record" if report.documents == 1 else "records"
    line = Text.assemble(
        (f"{report.documents:,} {records} in {report.seconds:.1f} s", "bold"),
        f", {report.documents_per_second:,.0f} a second: ",
    )
    if report.is_whole:
        line.append("nothing lost, nothing repeated", style="bold green")
    else:
        line.append(f"{report.lost:,} lost, {report.repeated:,} repeated", style="bold red")
    return line


def _outputs(report: DemoReport) -> RenderableType:
    table = _grid(">>", 4)
    rows = [
        ("unique", report.unique, UNIQUE_STYLE, "passed on unchanged"),
        ("", report.undecidable, UNDECIDABLE_STYLE, "of them too short to compare"),
        (
            "duplicates",
            report.duplicates,
            DUPLICATE_STYLE,
            f"{report.exact_duplicates:,} of the same content, {report.near_duplicates:,} near",
        ),
        ("dead letters", report.dead_letters, DEAD_LETTER_STYLE, _reasons(report)),
    ]
    if report.tombstones:
        rows.append(("tombstones", report.tombstones, "", "nothing comes out of these"))
    if report.too_long:
        rows.append(("left out", report.too_long, "red", "too long for the embedded broker"))
    for name, count, style, note in rows:
        share = f"{count / max(1, report.documents):.1%}" if name else ""
        table.add_row(Text(name, style=style), f"{count:,}", share, Text(note, style=QUIET_STYLE))
    return table


def _reasons(report: DemoReport) -> str:
    reasons = list(report.dead_letters_by_reason.items())
    shown = [f"{reason} {count:,}" for reason, count in reasons[:_REASONS]]
    left = sum(count for _, count in reasons[_REASONS:])
    return ", ".join([*shown, *([f"others {left:,}"] if left else [])])


def _kinds(report: DemoReport) -> RenderableType:
    assert report.by_kind is not None
    table = _grid(">>>>>", 7)
    table.add_row(*_head("kind", "records", "copies", "found", "recall", "precision"))
    kinds = {kind: scores for kind, scores in report.by_kind.items() if kind not in _BROKEN}
    for kind, scores in kinds.items():
        table.add_row(
            _KIND_NAMES.get(kind, kind.replace("_", " ")),
            *(f"{scores[name]:,}" for name in _SUMMED),
            _rate(scores["recall"]),
            _rate(scores["precision"]),
        )
    broken = len(report.by_kind) - len(kinds)
    sums = {name: _sum(report.by_kind, name) for name in _SUMMED}
    if broken:
        left = sums["count"] - _sum(kinds, "count")
        table.add_row(f"broken in {broken} ways", f"{left:,}", "0", "0", "–", "–")
    table.add_row(
        *(Text(cell, style="bold") for cell in ("all", *(f"{each:,}" for each in sums.values()))),
        Text(_rate(report.recall), style="bold"),
        Text(_rate(report.precision), style="bold"),
    )
    notes = ["Found: called a repeat of the right article, or of another copy of it."]
    if report.swapped:
        notes.append(f"Overtaken by a copy of theirs: {report.swapped:,}; “all” has them as found.")
    return Group(table, *(Text(note, style=QUIET_STYLE) for note in notes))


def _sum(by_kind: Mapping[str, Mapping[str, int | float | None]], name: str) -> int:
    return sum(int(scores[name] or 0) for scores in by_kind.values())


def _stages(report: DemoReport) -> RenderableType:
    table = _grid(">>>>", 5)
    table.add_row(*_head("stage", "batches", "seconds", "of the run", "µs a record"))
    for stage, batches, seconds in (
        *((stage.stage, f"{stage.batches:,}", stage.seconds) for stage in report.stages),
        ("processor time in all", "", report.worker_cpu_seconds),
    ):
        table.add_row(
            _STAGE_NAMES.get(stage, stage),
            batches,
            f"{seconds:.2f}",
            f"{seconds / max(report.seconds, 1e-3):.0%}",
            f"{1e6 * seconds / max(1, report.documents):,.0f}",
        )
    note = "Shards wait for acknowledgements side by side: their sum may exceed the run."
    return Group(table, Text(note, style=QUIET_STYLE))


def _rate(rate: float | None) -> str:
    return "–" if rate is None else f"{rate:.3f}"


def _head(*names: str) -> Iterator[Text]:
    return (Text(name, style=QUIET_STYLE) for name in names)


def _grid(aligned: str, spare: int) -> Table:
    """Return a table whose first column is at the left, as are those after ``aligned``."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    for _ in aligned:
        table.add_column(justify="right", no_wrap=True)
    for _ in range(spare - 1 - len(aligned)):
        table.add_column()
    return table


def _pairs(rows: tuple[tuple[str, str], ...]) -> RenderableType:
    table = _grid("", 2)
    for name, value in rows:
        table.add_row(Text(name, style=QUIET_STYLE), Text(value, overflow="fold"))
    return table


def _section(title: str, content: RenderableType) -> RenderableType:
    head = [Text(), Text(title, style="bold")] if title else [Text()]
    return Group(*head, Padding(content, _INDENT, expand=False))
