"""The output of a demo: changes in a line, the live view, the summary, and the page."""

from __future__ import annotations

import io
import re

import msgspec
import pytest
from rich.cells import cell_len
from rich.console import Console

from simhash_core.documents import SourcePosition
from streams.corpus.generated import EditKind
from streams.demo.examples import (
    EXAMPLES_MAX,
    Examples,
    demo_page,
    describe_change,
    print_examples,
)
from streams.demo.live_view import LineView, LiveView, Progress, shown
from streams.demo.scoring import KindScore
from streams.demo.summary import DemoReport, StageTime, print_summary
from streams.documents.fields import FieldSettings
from streams.documents.output_records import DeadLetterOutput, DuplicateOutput, UniqueOutput
from streams.documents.raw_documents import DocumentReader
from tests.unit.ops_page.browser import Watched, chromium


@pytest.mark.parametrize(
    ("original", "copy", "said"),
    [
        ("今天 下雪。", "今天\n下雪。", "only case or white space"),
        ("雪" * 12_000 + "雨", "雪" * 12_000, "not in the first 12,000 characters"),
        (
            "前面一句。今年的冬小麦长得很好。后面一句。",
            "前面一句。今年的早稻长得很好。后面一句。",
            "−3 +2 characters; “冬小麦” → “早稻”",
        ),
        (
            "It rained. We left early. End.",
            "It rained hard. We left early.",
            "−4 +4 characters; “” → “hard”; “End.” → “”",
        ),
        (
            f"开头。{'很长的话' * 50}。",
            "开头。",
            "−201 +0 characters; “很长的话很长的话很长的…的话很长的话很长的话。” → “”",
        ),
    ],
)
def test_a_change_is_said_in_a_line_largest_first(original: str, copy: str, said: str) -> None:
    assert describe_change(original, copy) == said
    assert len(describe_change(original * 20, copy * 20)) <= 160


REPORT = DemoReport(
    input=None,
    seed=1,
    profile="wide",
    documents=100,
    unique=21,
    undecidable=1,
    duplicates=39,
    exact_duplicates=9,
    near_duplicates=30,
    dead_letters=40,
    dead_letters_by_reason={"not_json": 30, "too_large": 6, "wrong_type": 3, "missing_text": 1},
    tombstones=0,
    too_long=0,
    lost=0,
    repeated=0,
    precision=1.0,
    recall=0.975,
    by_kind={
        EditKind.EDIT_10_20: KindScore(60, 40, 39, 39, 0.975, 1.0),
        EditKind.NOT_JSON: KindScore(40, 0, 0, 0, None, None),
    },
    seconds=3.25,
    documents_per_second=50.0,
    shards=1,
    worker_cpu_seconds=1.5,
    stages=(StageTime("lookup", 7, 0.5),),
)
CHANGE = "−12 +15 characters; “教师发展中心” → “实验小学”; “在操场上多跑” → “睡得更好”" * 3


def source(offset: int) -> SourcePosition:
    return SourcePosition("raw", 0, offset)


def progress(share: float | None) -> Progress:
    ids = (f"新闻-第{number}篇-" + "很长的编号" * 10 for number in range(24))
    latest = [
        DuplicateOutput(source(0), id_, source(0), "原文", 31, 256, 0.8789, "near") for id_ in ids
    ]
    return Progress(REPORT, latest, share, 461.5)


@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 40), (40, 12)])
@pytest.mark.parametrize("share", [0.5, None])
def test_the_picture_fits_latest_first(width: int, height: int, share: float | None) -> None:
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
    if height >= 24:
        assert any("100 decided in 3.2 s" in line and "462/s" in line for line in picture)
        rows = [line for line in picture if " ← " in line]
        assert len(rows) >= 6
        assert "第23篇" in rows[0]
        assert all("31 of 256 bits differ" in row for row in rows)


def test_without_a_terminal_there_are_lines_and_none_too_soon() -> None:
    written = io.StringIO()
    with shown(Console(file=written, width=80), "3,000 records", plain=False) as view:
        assert isinstance(view, LineView)
        view.starting("Starting a worker")
        for share in (0.5, 0.5, 1.0):
            view.show(progress(share), lambda _: "one word")
    first, starting, half, pair, change, whole, *_ = written.getvalue().splitlines()
    numbers = "100 decided (462/s): 21 unique, 39 duplicates, 40 dead letters"
    assert (first, starting) == ("firstseen demo: 3,000 records", "Starting a worker …")
    assert (half, whole) == (f"   3.2 s   50%  {numbers}", f"   3.2 s  100%  {numbers}")
    assert pair.endswith(" ← 原文  31 of 256 bits differ")
    assert change.strip() == "one word"


def summary_rows(report: DemoReport) -> list[str]:
    written = io.StringIO()
    print_summary(Console(file=written, width=80, highlight=False), report)
    assert max(map(cell_len, written.getvalue().splitlines())) <= 80
    return [" ".join(line.split()) for line in written.getvalue().splitlines()]


def test_the_summary_says_how_well_and_where_the_time_went() -> None:
    rows = summary_rows(REPORT)
    assert rows[0].startswith("100 records in 3.2 s, 50 per second: nothing lost")
    for row in (
        "unique 21 21.0% output unchanged",
        "duplicates 39 39.0% 9 of the same content, 30 near",
        "dead letters 40 40.0% not_json 30, too_large 6, others 4",
        "edit, 10–20 % 40 39 0.975 1.000",
        "all 40 39 0.975 1.000",
        "lookup 7 0.50 15% 5,000",
    ):
        assert row in rows
    changes = {"by_kind": None, "lost": 1, "too_long": 3, "tombstones": 2}
    report = msgspec.structs.replace(REPORT, **changes)
    assert report.decided == 99
    of_users = summary_rows(report)
    assert of_users[0].endswith("1 lost, 0 repeated")
    assert "left out 3 3.0% too long for the embedded broker" in of_users
    assert "tombstones 2 2.0% without an output" in of_users
    assert not any("Results by kind" in row for row in of_users)


# ---- Pairs and dead letters of a user's own documents.

HOSTILE = "<script>document.title='owned'</script>\\u001b[2J北京今天下雪了，地铁照常运行。"


def duplicate(offset: int, distance: int) -> DuplicateOutput:
    """A duplicate of the first document."""
    method = "near" if distance else "exact"
    ids = (f"d{offset}", "d0")
    return DuplicateOutput(source(offset), ids[0], source(0), ids[1], distance, 256, 0.9, method)


@pytest.fixture
def examples() -> Examples:
    found = Examples(DocumentReader(FieldSettings(), 1 << 20))
    for offset in range(4):
        value = f'{{"id": "d{offset}", "title": "<b>", "text": "{HOSTILE} {offset}"}}'
        found.note_sent(None, value.encode(), source(offset), f"my.jsonl, line {offset + 1}")
    found.note_sent(None, b"<i>no json", source(4), "my.jsonl, line 5")
    duplicates = (duplicate(1, 3), duplicate(2, 41), duplicate(3, 0), duplicate(9, 60))
    for output in (UniqueOutput(source(0), "d0", ""), *duplicates):
        found.note_output(output)
    found.note_output(DeadLetterOutput(source(4), "not_json", "not JSON: <i>"))
    return found


def test_the_furthest_pairs_whose_documents_are_at_hand_come_first(examples: Examples) -> None:
    assert [pair.duplicate.distance for pair in examples.pairs()] == [41, 3, 0]
    assert examples.refused() == [("my.jsonl, line 5", "not_json", "not JSON: <i>")]
    assert examples.change(duplicate(9, 60)) == ""
    assert examples.change(duplicate(0, 0)).startswith("“<script>")
    for number in range(2 * EXAMPLES_MAX):
        examples.note_output(duplicate(1 + number % 3, number % 50 + 1))
    distances = [pair.duplicate.distance for pair in examples.pairs()]
    assert distances == sorted(distances, reverse=True)
    assert len(distances) == EXAMPLES_MAX - 1  # the text of one is not kept
    assert min(distances) >= 25


def test_the_oldest_texts_are_dropped_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streams.demo.examples._BYTES_MAX", 4 * 100)
    kept = Examples(DocumentReader(FieldSettings(format="text"), 1 << 20))
    for offset in range(3):
        kept.note_sent(None, b"x" * 40, source(offset))
    assert kept.pair(duplicate(2, 1)) is None
    assert kept.pair(msgspec.structs.replace(duplicate(2, 1), original=source(1))) is not None


@pytest.mark.parametrize("width", [120, 50])
def test_examples_fit_the_terminal_and_cannot_draw_on_it(examples: Examples, width: int) -> None:
    out = io.StringIO()
    print_examples(Console(file=out, width=width, highlight=False), examples)
    shown = out.getvalue()
    assert "d2 ← d0  41 of 256 bits differ" in shown
    assert "not_json" in shown
    assert "\x1b" not in shown
    assert max(map(cell_len, shown.splitlines())) <= width


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_shows_a_script_and_does_not_run_it(examples: Examples, width: int) -> None:
    name = "archive-of-the-year/documents-without-a-blank.jsonl"
    report = msgspec.structs.replace(REPORT, by_kind=None, input=name, seed=None, duplicates=3)
    with chromium() as browser:
        context = browser.new_context(viewport={"width": width, "height": 900})
        page = Watched(context.new_page()).page
        page.set_content(demo_page(report, examples))
        assert name in page.title()
        assert page.locator("article.case").count() == 3
        assert "<script>" in page.locator(".text").first.inner_text()
        assert page.get_by_text("my.jsonl, line 5").count() == 1
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        context.close()
