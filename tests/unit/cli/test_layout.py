"""Tables and lines on a terminal: never wider than it, and whole where there is none."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from streams.errors import fit_terminal
from streams.terminal.layout import Listing, show, table

ROWS = [
    ("document", "near", "source position"),
    ("市图书馆新馆周末试运行，首批开放的阅览室有三千个座位", "yes", "raw-documents/1@17"),
    ("en-2", "no", "dlq.a-topic-with-a-long-name-that-has-no-blank/0@4711"),
]
LINE = "  fingerprint  " + "9cad9b8edf7b164d" * 8


def printed(width: int, *blocks: object) -> list[str]:
    """Return what a console of this width shows."""
    out = io.StringIO()
    show(blocks, console=Console(file=out, width=width, highlight=False))  # type: ignore[arg-type]
    return out.getvalue().splitlines()


@pytest.mark.parametrize("width", [50, 30])
def test_a_narrow_terminal_folds_cells_and_lines(width: int) -> None:
    """Given a narrow terminal, then nothing is wider, and no character of a cell is lost."""
    lines = printed(width, table(ROWS, "<<<"), LINE)

    assert max(map(cell_len, lines)) <= width
    shown = "".join("".join(lines).split())
    assert set("市图书馆新馆周末试运行") <= set(shown)
    assert "".join(line.strip() for line in lines[-6:]).endswith("9cad9b8edf7b164d")


def test_a_wide_terminal_shows_each_row_on_a_line() -> None:
    """Given room, then a row is a line, its columns aligned by cells, with no blanks at the end."""
    lines = printed(200, table(ROWS, "<>>", "  "), LINE)

    assert len(lines) == len(ROWS) + 1
    assert lines[-1] == LINE
    assert all(line == line.rstrip() and line.startswith("  ") for line in lines)
    assert len({cell_len(line) for line in lines[:-1]}) == 1


def test_nothing_in_a_cell_moves_the_cursor() -> None:
    """Given a cell with an escape sequence and markup, then neither has an effect."""
    (line,) = printed(80, table([("a\x1b[2Jb", "[bold]c[/]")], "<<"))
    assert line == "a[2Jb  [bold]c[/]"


@given(st.text(max_size=200), st.integers(10, 60))
def test_a_line_of_any_text_fits(text: str, width: int) -> None:
    """Given any printable text, then no part of it is wider than the console."""
    text = "".join(sign for sign in text if sign.isprintable())
    assert all(cell_len(line) <= width for line in printed(width, text))


def test_a_listing_is_a_table_where_its_words_fit() -> None:
    """Given a terminal that is wide enough for the longest word of each column, then a listing is
    the table that its rows make; given a narrower one, then each row is a paragraph whose lines
    name their columns, no word is cut, and cells without text are left out.
    """
    head = ("topic", "partitions", "kept")
    rows = [("firstseen.changelog", "4", "for ever"), ("dlq.raw-documents", "1", "")]

    assert printed(60, Listing(head, rows, "<><")) == printed(60, table([head, *rows], "<><"))
    assert printed(30, Listing(head, rows, "<><")) == [
        "firstseen.changelog",
        "  partitions  4",
        "  kept        for ever",
        "dlq.raw-documents",
        "  partitions  1",
    ]


def test_messages_of_errors_fit_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given a long message on a terminal, then no line of it is wider; in a file it is one line."""
    message = "firstseen: topics 'one' and 'two' are missing: run 'firstseen topics create'"
    monkeypatch.setenv("COLUMNS", "40")

    shown = fit_terminal(message, Terminal())

    assert max(map(cell_len, shown.splitlines())) <= 40
    assert " ".join(shown.split()) == message
    assert fit_terminal(message, io.StringIO()) == message


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        """Return True."""
        return True
