"""Columns for a terminal, where a Chinese character takes two cells."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from rich.cells import cell_len

from streams.terminal.terminal_text import one_line

_GAP: Final = "  "


def table(rows: Iterable[Sequence[str]], align: str, indent: str = "") -> list[str]:
    """Return the lines of a table; ``align`` has a ``<`` or ``>`` for each column."""
    cells = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for row in cells:
        padded = [
            " " * (width - cell_len(cell)) + cell
            if side == ">"
            else cell + " " * (width - cell_len(cell))
            for cell, width, side in zip(row, widths, align, strict=True)
        ]
        lines.append((indent + _GAP.join(padded)).rstrip())
    return lines
