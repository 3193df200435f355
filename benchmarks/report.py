"""What benchmarks have in common when they report: spreads, ratios, the machine, tables, JSON."""

from __future__ import annotations

import os
import platform
import statistics
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from benchmarks.command import STANDARD_OUTPUT

Figures = dict[str, Any]
"""What a benchmark has measured, as its JSON shows it."""


class Spread(msgspec.Struct, frozen=True):
    """Several measurements of one thing."""

    least: float
    median: float
    greatest: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        values = sorted(values)
        return cls(*(round(v, 4) for v in (values[0], statistics.median(values), values[-1])))

    def __format__(self, spec: str) -> str:
        """Return the median, and the least and greatest in brackets."""
        least, median, greatest = (
            format(value, spec) for value in (self.least, self.median, self.greatest)
        )
        return f"{median} ({least} to {greatest})"


class Goal(msgspec.Struct, frozen=True, omit_defaults=True):
    at_most: float | None = None
    at_least: float | None = None

    def is_met(self, value: float) -> bool:
        return (self.at_most is None or value <= self.at_most) and (
            self.at_least is None or value >= self.at_least
        )


class Machine(msgspec.Struct, frozen=True):
    """Where it was measured. ``load``: processes that wanted to run, over the minute before."""

    python: str
    system: str
    architecture: str
    processors: int
    load: float


def machine() -> Machine:
    return Machine(
        python=platform.python_version(),
        system=platform.system(),
        architecture=platform.machine(),
        processors=len(os.sched_getaffinity(0)),
        load=round(os.getloadavg()[0], 1),
    )


def ratios(numerators: Sequence[float], denominators: Sequence[float]) -> Spread:
    """Return the spread of the ratios of measurements that were taken in turn, pair by pair."""
    pairs = zip(numerators, denominators, strict=True)
    return Spread.of(above / below for above, below in pairs)


def new_table(title: str, heads: Iterable[str], rows: Iterable[Iterable[str]]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold")
    for number, head in enumerate(heads):
        table.add_column(head, no_wrap=number == 0, justify="right" if number else "left")
    for row in rows:
        table.add_row(*row)
    return table


def table_of(title: str, items: Iterable[Figures], columns: Mapping[str, str]) -> Table:
    """Return a table with a row for each item.

    ``columns``: the format of a cell, such as ``{seconds:.1f}``, by the head of the column.
    """
    rows = ([cell.format_map(each) for cell in columns.values()] for each in items)
    return new_table(title, columns, rows)


def show(tables: Iterable[Table], target: str | None = None) -> None:
    """Print tables: to standard error where ``target`` of the JSON is standard output."""
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


def publish(figures: object, tables: Iterable[Table], target: str | None) -> None:
    """Print tables, and write the JSON where ``--json`` says, if it does."""
    show(tables, target)
    write_json(figures, target)
