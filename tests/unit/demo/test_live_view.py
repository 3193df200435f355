"""What a demo shows: it fits the terminal, in Chinese too, and lines where there is no terminal."""

from __future__ import annotations

import io
import re

import pytest
from rich.cells import cell_len
from rich.console import Console

from simhash_core.documents import SourcePosition
from streams.demo.live_view import LineView, LiveView, Progress, shown
from streams.demo.summary import DemoReport, print_summary
from streams.documents.output_records import DuplicateOutput
from tests.unit.demo.demo_reports import demo_report

CHANGE = (
    "−12 +15 characters; “教师发展中心” → “实验小学”; “在操场上多跑” → “睡得更好，第二天也精神”" * 3
)


def duplicate(number: int, method: str = "near") -> DuplicateOutput:
    """A duplicate with a long Chinese id."""
    source = SourcePosition("raw-documents", 0, number)
    return DuplicateOutput(
        source, f"新闻-第{number}篇-" + "很长的编号" * 10, source, "原文", 31, 256, 0.8789, method
    )


def progress(share: float | None = 0.5, duplicates: int = 24) -> Progress:
    """A demo half-way."""
    return Progress(
        sent=1600,
        decided=1500,
        share=share,
        unique=800,
        undecidable=100,
        duplicates=650,
        dead_letters=50,
        seconds=3.25,
        per_second=461.5,
        latest=[duplicate(number) for number in range(duplicates)],
    )


@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 40), (40, 12)])
@pytest.mark.parametrize("share", [0.5, None])
def test_the_picture_fits(width: int, height: int, share: float | None) -> None:
    """Given a terminal of some size; when a demo with Chinese ids and changes is shown; then no
    line is wider, there are no more lines than fit, and the latest duplicate is the first.
    """
    screen = io.StringIO()
    console = Console(
        file=screen, force_terminal=True, width=width, height=height, color_system=None
    )

    with shown(console, "3,000 records", plain=False) as view:
        assert isinstance(view, LiveView)
        view.starting("Starting a worker")
        screen.truncate(0)
        view.show(progress(share), lambda _: CHANGE)
        picture = re.sub(r"\x1b\[[\d;?]*[A-Za-z]|\r", "", screen.getvalue()).splitlines()

    assert max(cell_len(line) for line in picture) <= width
    assert len(picture) <= height
    assert "3.2 s" in picture[0]
    assert any("1,500 decided" in line and "462/s" in line for line in picture)
    if height >= 24:
        rows = [line for line in picture if " ← " in line]
        assert len(rows) == (6 if height == 24 else 8)
        assert "第23篇" in rows[0]
        assert all("31 of 256 bits differ" in row for row in rows)


def test_lines_where_there_is_no_terminal() -> None:
    """Given no terminal, or the wish for lines; then there is a line at once, none so soon after
    it, one at the end, and of the newest duplicate what it changed.
    """
    written = io.StringIO()
    console = Console(file=written, width=80)

    with shown(console, "3,000 records", plain=False) as view:
        assert isinstance(view, LineView)
        view.starting("Starting a worker")
        view.show(progress(), lambda _: "one word")
        view.show(progress(), lambda _: "one word")
        view.show(progress(share=1.0), lambda _: "one word")

    lines = written.getvalue().splitlines()
    numbers = "1,500 decided (462/s): 800 unique, 650 duplicates, 50 dead letters"
    assert lines[0] == "firstseen demo: 3,000 records"
    assert lines[1] == "Starting a worker …"
    assert lines[2] == f"   3.2 s   50%  {numbers}"
    assert lines[3].endswith(" ← 原文  31 of 256 bits differ  one word")
    assert lines[4] == f"   3.2 s  100%  {numbers}"


def report(**changes: object) -> DemoReport:
    """A demo of 100 records."""
    kinds = {"copies": 40, "found": 39, "called_duplicate": 39, "rightly_called": 39}
    by_kind: dict[str, dict[str, int | float | None]] = {
        "edit_10_20": {"count": 60, **kinds, "recall": 0.975, "precision": 1.0},
        "not_json": {"count": 40, **dict.fromkeys(kinds, 0), "recall": None, "precision": None},
    }
    return demo_report(**{"by_kind": by_kind, **changes})


def summary_lines(of: DemoReport) -> list[str]:
    """The summary as it is written where there is no terminal."""
    written = io.StringIO()
    print_summary(Console(file=written, width=80, highlight=False), of)
    return [line.rstrip() for line in written.getvalue().splitlines()]


def test_the_summary_says_how_well_and_where_the_time_went() -> None:
    """Given the figures of a demo; then its summary has them, within 80 cells."""
    lines = summary_lines(report())

    assert lines[0].startswith("100 records in 2.0 s, 50 a second")
    assert max(map(cell_len, lines)) <= 80
    rows = [" ".join(line.split()) for line in lines]
    for row in (
        "unique 21 21.0% passed on unchanged",
        "duplicates 39 39.0% 9 of the same content, 30 near",
        "edit, 10–20 % 60 40 39 0.975 1.000",
        "broken records 40 0 0 – –",
        "all 100 40 39 0.975 1.000",
        "2 originals arrived after a copy; “all” counts them as found.",
        "lookup 7 0.50 25% 5,000",
    ):
        assert row in rows


def test_the_summary_of_what_nobody_knows_the_truth_of() -> None:
    """Given the user's own documents, and one lost; then how well is not said, and the loss is."""
    lines = summary_lines(report(by_kind=None, precision=None, recall=None, lost=1, too_long=3))

    assert lines[0].endswith("1 lost, 0 repeated")
    assert not any("How well" in line for line in lines)
    assert any(line.startswith("  left out       3") for line in lines)
