"""The output of commands fits the terminal, cannot control it, and names its schema."""

from __future__ import annotations

import io
import json
import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from streams.cli.options import json_line
from streams.errors import fit_terminal
from streams.terminal.layout import Listing, one_line, show, table
from tests.repository.source_tree import ROOT

ROWS = [
    ("document", "near", "source position"),
    ("市图书馆新馆周末试运行，首批开放的阅览室有三千个座位", "yes", "raw-documents/1@17"),
    ("en-2", "no", "dlq.a-topic-with-a-long-name-that-has-no-blank/0@4711"),
]
LINE = "  fingerprint  " + "9cad9b8edf7b164d" * 8


def printed(width: int, *blocks: object) -> list[str]:
    out = io.StringIO()
    show(blocks, console=Console(file=out, width=width, highlight=False))  # type: ignore[arg-type]
    return out.getvalue().splitlines()


@pytest.mark.parametrize("width", [50, 30])
def test_a_narrow_terminal_folds_cells_and_lines(width: int) -> None:
    lines = printed(width, table(ROWS, "<<<"))
    assert max(map(cell_len, lines)) <= width
    assert set("市图书馆新馆周末试运行") <= set("".join(lines))
    first, *rest = printed(width, LINE)
    assert first.startswith("  fingerprint")
    assert all(line.startswith("    ") and cell_len(line) <= width for line in rest)
    assert "".join(line.strip() for line in rest).endswith("9cad9b8edf7b164d")


def test_a_wide_terminal_shows_each_row_on_a_line_with_columns_aligned() -> None:
    lines = printed(200, table(ROWS, "<>>", "  "), LINE)
    assert len(lines) == len(ROWS) + 1
    assert lines[-1] == LINE
    assert all(line == line.rstrip() and line.startswith("  ") for line in lines)
    assert len({cell_len(line) for line in lines[:-1]}) == 1


def test_escapes_and_markup_in_a_cell_have_no_effect() -> None:
    (line,) = printed(80, table([("a\x1b[2Jb", "[bold]c[/]")], "<<"))
    assert line == "a[2Jb  [bold]c[/]"


@given(st.text(max_size=200), st.integers(10, 60))
def test_no_part_of_a_line_is_wider_than_the_console(text: str, width: int) -> None:
    text = "".join(sign for sign in text if sign.isprintable())
    assert all(cell_len(line) <= width for line in printed(width, text))


def test_a_listing_is_a_table_where_its_words_fit_and_else_paragraphs() -> None:
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


def test_messages_of_errors_are_folded_on_a_terminal_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    message = "firstseen: topics 'one' and 'two' are missing: run 'firstseen topics create'"
    monkeypatch.setenv("COLUMNS", "40")
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    shown = fit_terminal(message, terminal)
    assert max(map(cell_len, shown.splitlines())) <= 40
    assert " ".join(shown.split()) == message
    assert fit_terminal(message, io.StringIO()) == message


@pytest.mark.parametrize(
    ("text", "cells", "expected"),
    [
        ("abcdef", 6, "abcdef"),
        ("abcdef", 5, "abcd…"),
        ("北京下雪", 8, "北京下雪"),
        ("北京下雪", 7, "北京下…"),
        ("北京下雪", 6, "北京…"),  # a character of two cells does not fit into the last cell
        ("北", 1, "…"),
        ("北", 0, ""),
        ("", 3, ""),
        ("a\x1b[2Jb\r\n\tc\u202ed\u2028e\x00\ue000", 99, "a[2Jb cd e"),
    ],
)
def test_texts_are_cut_by_cells_without_escapes(text: str, cells: int, expected: str) -> None:
    assert one_line(text, cells) == expected


@given(st.text(), st.integers(0, 40))
def test_one_line_is_never_wider_and_prints(text: str, cells: int) -> None:
    line = one_line(text, cells)
    assert cell_len(line) <= cells
    assert line.replace("\u0378", "").isprintable()


class Size(msgspec.Struct):
    documents: int
    state: str | None = None


def test_json_is_one_line_with_its_schema_first_and_escapes_what_does_not_print() -> None:
    assert json_line("size", Size(3)) == '{"schema":"firstseen.size/1","documents":3,"state":null}'
    text = "a\x1b[2J\x9b1m\u202e\U000e0041雪"
    line = json_line("text", {"text": text})
    assert line.isprintable()
    assert json.loads(line)["text"] == text


def test_every_kind_of_json_is_in_the_docs() -> None:
    page = (ROOT / "docs" / "formats.md").read_text("utf-8")
    listed = page.partition("### What commands write")[2].partition("###")[0]
    written = re.compile(r'(?:write_json|write_answer|json_line)\(\s*"([a-z-]+)"')
    modules = (ROOT / "streams" / "cli").glob("*.py")
    found = {kind for each in modules for kind in written.findall(each.read_text("utf-8"))}
    assert len(found) > 15
    assert {kind for kind in found if f"`{kind}`" not in listed} == set()
