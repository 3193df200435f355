"""What a demo shows at its end: where the documents went, how well, how fast, and what to do next.

Its tables are no wider than 80 cells where there is room, so that it can be pasted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.text import Text

from streams.corpus.generated import BROKEN, EditKind
from streams.demo.changes import describe_change
from streams.demo.examples import Examples, Pair
from streams.demo.report import DemoReport
from streams.terminal.layout import Block, show, table
from streams.terminal.record_lines import (
    DEAD_LETTER_STYLE,
    DUPLICATE_STYLE,
    QUIET_STYLE,
    UNDECIDABLE_STYLE,
    UNIQUE_STYLE,
)
from streams.terminal.terminal_text import counted, one_line

_REASONS: Final = 2
_EXAMPLES: Final = 8
_ID_CELLS: Final = 40
_ByKind = Mapping[str, Mapping[str, int | float | None]]
_SUMMED: Final = ("count", "copies", "found")
_BROKEN: Final = frozenset(map(str, BROKEN))
_KIND_NAMES: Final[Mapping[str, str]] = {
    EditKind.EDIT_1_5: "edit, 1–5 %",
    EditKind.EDIT_5_10: "edit, 5–10 %",
    EditKind.EDIT_10_20: "edit, 10–20 %",
}
_STAGE_NAMES: Final = {"commit": "commit, until acknowledged"}
_INDENT: Final = "  "


def print_summary(console: Console, report: DemoReport) -> None:
    """Print the figures."""
    show([_headline(report)], console=console)
    _print_section(console, "", _outputs(report))
    if report.by_kind is not None:
        _print_section(console, "How well, by kind of record", _kinds(report, report.by_kind))
    _print_section(console, "Where the worker's time went", _stages(report))


def print_examples(console: Console, examples: Examples) -> None:
    """Print pairs of a copy and its original, the furthest apart first, and dead letters."""
    pairs, refused = examples.pairs(), examples.refused()
    if pairs:
        lines = [line for pair in pairs[:_EXAMPLES] for line in _pair_lines(pair)]
        _print_section(console, "Pairs, the furthest apart first", lines)
    if refused:
        rows = [
            (each.where, Text(each.reason, style=DEAD_LETTER_STYLE), each.detail)
            for each in refused[:_EXAMPLES]
        ]
        _print_section(console, "Dead letters", [table(rows, "<<<", _INDENT)])


def _pair_lines(pair: Pair) -> Iterator[Block]:
    duplicate = pair.duplicate
    near = (
        "the same content"
        if duplicate.method == "exact"
        else f"{duplicate.distance} of {duplicate.bits} bits differ"
    )
    ids = f"{one_line(duplicate.id, _ID_CELLS)} ← {one_line(duplicate.original_id, _ID_CELLS)}"
    yield Text.assemble(_INDENT, (ids, DUPLICATE_STYLE), f"  {near}")
    if duplicate.method != "exact":
        change = one_line(describe_change(pair.original.text, pair.copy.text))
        yield Text(2 * _INDENT + change, style=QUIET_STYLE)


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
    _print_section(console, "Still up", _pairs(rows))


def print_next(console: Console) -> None:
    """Print what to do next."""
    rows = (
        ("your own file", "firstseen demo --input my.jsonl"),
        ("", 'one JSON object a line: {"id": "1", "text": "…"}'),
        ("look around", "firstseen demo --keep-running"),
        ("no broker at all", "firstseen dedup my.jsonl"),
        ("your own Kafka", "firstseen topics create --help, then firstseen worker --help"),
    )
    _print_section(console, "Next", _pairs(rows))


def _headline(report: DemoReport) -> Text:
    line = Text.assemble(
        (f"{counted(report.documents, 'record')} in {report.seconds:.1f} s", "bold"),
        f", {report.documents_per_second:,.0f} a second: ",
    )
    if report.is_whole:
        line.append("nothing lost, nothing repeated", style="bold green")
    else:
        line.append(f"{report.lost:,} lost, {report.repeated:,} repeated", style="bold red")
    return line


def _outputs(report: DemoReport) -> list[Block]:
    near = f"{report.exact_duplicates:,} of the same content, {report.near_duplicates:,} near"
    rows = [
        ("unique", report.unique, UNIQUE_STYLE, "passed on unchanged"),
        ("", report.undecidable, UNDECIDABLE_STYLE, "of them too short to compare"),
        ("duplicates", report.duplicates, DUPLICATE_STYLE, near),
        ("dead letters", report.dead_letters, DEAD_LETTER_STYLE, _reasons(report)),
    ]
    if report.tombstones:
        rows.append(("tombstones", report.tombstones, "", "these have no output"))
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
    return [table(cells, "<>><", _INDENT)]


def _reasons(report: DemoReport) -> str:
    reasons = list(report.dead_letters_by_reason.items())
    shown = [f"{reason} {count:,}" for reason, count in reasons[:_REASONS]]
    left = sum(count for _, count in reasons[_REASONS:])
    return ", ".join([*shown, *([f"others {left:,}"] if left else [])])


def _kinds(report: DemoReport, by_kind: _ByKind) -> list[Block]:
    kinds = {kind: scores for kind, scores in by_kind.items() if kind not in _BROKEN}
    sums = {name: _sum(by_kind, name) for name in _SUMMED}
    broken = sums["count"] - _sum(kinds, "count")
    rows = [
        (
            _KIND_NAMES.get(kind, kind.replace("_", " ")),
            *(f"{scores[name]:,}" for name in _SUMMED),
            _rate(scores["recall"]),
            _rate(scores["precision"]),
        )
        for kind, scores in kinds.items()
    ]
    everything = ("all", *(f"{each:,}" for each in sums.values()))
    kinds_table = table(
        (
            _head("kind", "records", "copies", "found", "recall", "precision"),
            *rows,
            ("broken records", f"{broken:,}", "0", "0", _rate(None), _rate(None)),
            tuple(
                Text(cell, style="bold")
                for cell in (*everything, _rate(report.recall), _rate(report.precision))
            ),
        ),
        "<>>>>>",
        _INDENT,
    )
    lines: list[Block] = [
        kinds_table,
        _note("Found: named as a duplicate of the right article, or of another copy of it."),
    ]
    if report.swapped:
        overtaken = (
            f"{report.swapped:,} originals arrived after a copy; “all” counts them as found."
        )
        lines.append(_note(overtaken))
    return lines


def _sum(by_kind: _ByKind, name: str) -> int:
    return sum(int(scores[name] or 0) for scores in by_kind.values())


def _stages(report: DemoReport) -> list[Block]:
    times = [
        *((stage.stage, f"{stage.batches:,}", stage.seconds) for stage in report.stages),
        ("processor time in all", "", report.worker_cpu_seconds),
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
    head = _head("stage", "batches", "seconds", "of the run", "µs a record")
    side_by_side = "Other steps run during a commit, so the sum may exceed the run."
    return [table((head, *rows), "<>>>>", _INDENT), _note(side_by_side)]


def _rate(rate: float | None) -> str:
    return "–" if rate is None else f"{rate:.3f}"


def _head(*names: str) -> tuple[Text, ...]:
    return tuple(Text(name, style=QUIET_STYLE) for name in names)


def _print_section(console: Console, title: str, blocks: Iterable[Block]) -> None:
    """Print lines and tables below a title."""
    show(["", *([Text(title, style="bold")] if title else []), *blocks], console=console)


def _note(text: str) -> Text:
    return Text(_INDENT + text, style=QUIET_STYLE)


def _pairs(rows: Iterable[tuple[str, str]]) -> list[Block]:
    return [table(((Text(name, style=QUIET_STYLE), value) for name, value in rows), "<<", _INDENT)]
