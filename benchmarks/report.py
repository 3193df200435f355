"""The reports of all benchmarks: spreads, ratios, the machine, tables, JSON."""

from __future__ import annotations

import os
import platform
import statistics
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from benchmarks.command import STANDARD_OUTPUT

Figures = dict[str, Any]
"""The results of a benchmark, in the form of its JSON."""


_COLUMNS_MAX = 7


class Spread(msgspec.Struct, frozen=True):
    least: float
    median: float
    greatest: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        values = sorted(values)
        return cls(*(round(v, 4) for v in (values[0], statistics.median(values), values[-1])))

    def __str__(self) -> str:
        least, median, greatest = map(cell, (self.least, self.median, self.greatest))
        return f"{median} ({least} to {greatest})"


class Goal(msgspec.Struct, frozen=True, omit_defaults=True):
    at_most: float | None = None
    at_least: float | None = None

    def __str__(self) -> str:
        return f"≤ {self.at_most:,g}" if self.at_most is not None else f"≥ {self.at_least:,g}"

    def is_met(self, value: float) -> bool:
        return (self.at_most is None or value <= self.at_most) and (
            self.at_least is None or value >= self.at_least
        )


def machine() -> Figures:
    """Return facts about this machine; ``load`` is the mean number of runnable processes."""
    return {
        "python": platform.python_version(),
        "system": platform.system(),
        "architecture": platform.machine(),
        "processors": len(os.sched_getaffinity(0)),
        "load": round(os.getloadavg()[0], 1),
    }


def ratios(numerators: Sequence[float], denominators: Sequence[float]) -> Spread:
    """Return the spread of the ratios of pairs of measurements that were taken in turns."""
    pairs = zip(numerators, denominators, strict=True)
    return Spread.of(above / below for above, below in pairs)


def cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.4g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return " ".join(map(cell, value)) if isinstance(value, (list, tuple)) else str(value)


def new_table(title: str, heads: Iterable[str], rows: Iterable[Iterable[str]]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold")
    for number, head in enumerate(heads):
        table.add_column(head, no_wrap=number == 0, justify="right" if number else "left")
    for row in rows:
        table.add_row(*row)
    return table


def tables_of(figures: object, title: str = "") -> Iterator[Table]:
    """Yield the tables that show figures, one for each part that has values.

    Parts with the same fields, in a list or by name, are the rows of one table.
    """
    if isinstance(figures, msgspec.Struct):
        figures = msgspec.structs.asdict(figures)
    if isinstance(figures, Mapping) and figures and all(map(_is_part, figures.values())):
        figures = [{"": name, **_fields(part)} for name, part in figures.items()]
    is_list = isinstance(figures, list)
    rows = [_fields(part) for part in (figures if isinstance(figures, list) else [figures])]
    heads = list(dict.fromkeys(key for row in rows for key in row if not _is_nested(row[key])))
    names = [head.replace("_", " ") for head in heads]
    shown = [[cell(row.get(head)) for head in heads] for row in rows]
    if is_list and len(names) <= max(_COLUMNS_MAX, len(rows)):
        yield new_table(title, names, shown)
    elif heads:  # each part gets a column
        columns = zip(names, *shown, strict=True)
        yield new_table(title, next(columns) if is_list else ("", ""), columns)
    for row, cells in zip(rows, shown, strict=True):
        name = cells[0] if is_list and heads else title
        for key, value in row.items():
            if _is_nested(value):
                yield from tables_of(value, f"{name} {key}".replace("_", " ").strip())


def _is_part(value: object) -> bool:
    return isinstance(value, (Mapping, msgspec.Struct)) and not isinstance(value, (Spread, Goal))


def _is_nested(value: object) -> bool:
    return _is_part(value) or (isinstance(value, list) and bool(value) and _is_part(value[0]))


def _fields(part: object) -> Mapping[str, Any]:
    fields = msgspec.structs.asdict(part) if isinstance(part, msgspec.Struct) else part
    assert isinstance(fields, Mapping)
    return fields


def show(tables: Iterable[Table], target: str | None = None) -> None:
    """Print tables, to standard error if the JSON goes to standard output (``target``)."""
    console = Console(stderr=target == STANDARD_OUTPUT, highlight=False)
    for table in tables:
        console.print(table)
        console.print()


def write_json(figures: object, target: str | None) -> None:
    if target is None:
        return
    encoded = msgspec.json.format(msgspec.json.encode(figures), indent=2) + b"\n"
    if target == STANDARD_OUTPUT:
        sys.stdout.buffer.write(encoded)
        sys.stdout.flush()
    else:
        Path(target).write_bytes(encoded)


def publish(figures: object, target: str | None, shown: object = None) -> None:
    """Print tables of ``shown``, or of all figures; write the JSON to ``target``, if given."""
    show(tables_of(figures if shown is None else shown), target)
    write_json(figures, target)
