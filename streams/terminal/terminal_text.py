"""Texts of strangers on a terminal: one line, nothing that moves the cursor, cut by cells.

A Chinese character takes two cells. Control characters, escape sequences and marks that turn the
direction of writing are left out, since a document must not be able to draw on the screen.
"""

from __future__ import annotations

import unicodedata
from typing import Final

from rich.cells import cell_len, set_cell_size

ELLIPSIS: Final = "…"
_DROPPED: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})
_LOOKED_AT: Final = 8
"""Characters looked at for each cell wanted: enough for white space and marks, whatever comes."""


def one_line(text: str, cells: int | None = None) -> str:
    """Return ``text`` on one line, cut to ``cells`` where that is given."""
    if cells is not None and len(text) > cells * _LOOKED_AT:
        text = text[: cells * _LOOKED_AT] + ELLIPSIS
    text = " ".join(text.split())
    if not text.isprintable():
        text = "".join(sign for sign in text if unicodedata.category(sign) not in _DROPPED)
    return text if cells is None else cut(text, cells)


def escaped(text: str) -> str:
    """Return ``text`` with escapes in place of what does not print; lines and blanks stay."""
    return "".join(
        sign
        if sign.isprintable() or sign == "\n" or unicodedata.category(sign) == "Zs"
        else sign.encode("unicode_escape", "backslashreplace").decode()
        for sign in text
    )


def cut(text: str, cells: int) -> str:
    """Return ``text``, with an ellipsis at its end where it is wider than ``cells``."""
    if cell_len(text) <= cells:
        return text
    return set_cell_size(text, cells - 1).rstrip() + ELLIPSIS if cells > 0 else ""


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun: ``1 worker``, ``2 workers``."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"
