"""Columns for a terminal, where a Chinese character takes two cells, and no text is trusted."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from typing import Final

from rich.cells import cell_len, set_cell_size

_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"
_GAP: Final = "  "


def printable(text: str) -> str:
    """Return ``text`` on one line, without anything that a terminal would take for a command."""
    if text.isprintable():
        return text
    return "".join(
        _REPLACEMENT if unicodedata.category(character)[0] == "C" else character
        for character in " ".join(text.split())
    )


def cropped(text: str, cells: int) -> str:
    """Return printable text that takes at most ``cells`` cells; what was cut shows as ``…``."""
    text = printable(text)
    return text if cell_len(text) <= cells else set_cell_size(text, cells - 1).rstrip() + "…"


def table(rows: Iterable[Sequence[str]], align: str, indent: str = "") -> list[str]:
    """Return the lines of a table; ``align`` has a ``<`` or ``>`` for each column."""
    cells = [[printable(cell) for cell in row] for row in rows]
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
