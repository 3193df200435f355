"""Texts of strangers on a terminal: by cells, on one line, and with no power over the screen."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from streams.terminal.layout import counted, cut, one_line


@pytest.mark.parametrize(
    ("text", "cells", "expected"),
    [
        ("abcdef", 6, "abcdef"),
        ("abcdef", 5, "abcd…"),
        ("北京下雪", 8, "北京下雪"),
        ("北京下雪", 7, "北京下…"),
        ("北京下雪", 6, "北京…"),  # two cells do not fit the one that is left
        ("北", 1, "…"),
        ("北", 0, ""),
        ("", 3, ""),
    ],
)
def test_cut_by_cells(text: str, cells: int, expected: str) -> None:
    """A Chinese character takes two cells, the ellipsis one."""
    assert cut(text, cells) == expected


@given(st.text(), st.integers(0, 40))
def test_never_wider_and_never_more_than_a_line(text: str, cells: int) -> None:
    """Given any text; then its line is no wider than asked for, and holds nothing but characters
    that can be printed.
    """
    line = one_line(text, cells)

    assert cell_len(line) <= cells
    assert line.replace("\u0378", "").isprintable()


def test_a_number_has_the_right_noun() -> None:
    """Given a count, then its noun is singular for one alone."""
    shown = [counted(n, "worker") for n in (0, 1, 1200)]
    assert shown == ["0 workers", "1 worker", "1,200 workers"]
    assert counted(2, "index", "indices") == "2 indices"


def test_escapes_and_directions_are_left_out() -> None:
    """Given a text that would colour, clear and turn; then only its letters are left."""
    assert one_line("a\x1b[2Jb\r\n\tc\u202ed\u2028e\x00\ue000") == "a[2Jb cd e"


def test_a_long_text_is_not_gone_through() -> None:
    """Given a text of ten million characters; then only its beginning is looked at."""
    assert one_line(" 雪" * 5_000_000, 10) == "雪 雪 雪…"
