"""The output of a demo: changes in a line, the live view, the summary, and the page."""

from __future__ import annotations

import io
import re
import time

import msgspec
import pytest
from rich.cells import cell_len
from rich.console import Console

from simhash_core.documents import SourcePosition
from streams.demo.feed import Counts
from streams.demo.live_view import LineView, LiveView, Progress, shown
from streams.demo.summary import (
    PAIRS_MAX,
    TEXT_MAX,
    DemoReport,
    Examples,
    StageTime,
    demo_page,
    describe_change,
    print_examples,
    print_summary,
)
from streams.documents.fields import FieldSettings
from streams.documents.output_records import DeadLetterOutput, DuplicateOutput
from streams.documents.raw_documents import DocumentReader
from tests.unit.ops_page.browser import Watched, chromium

# ---- The changes of a copy.


@pytest.mark.parametrize(
    ("original", "copy", "said"),
    [
        ("今天下雨。", "今天下雨。", "no change"),
        ("今天 下雨。", "今天\n下雨。", "only white space"),
        ("今天有12人。", "今天有１２人.", "only punctuation, widths, case or white space"),
        ("A Day at Sea.", "a DAY at sea!", "only punctuation, widths, case or white space"),
        ("甲。乙丙。丁。", "丁。甲。乙丙。", "the same sentences in another order"),
        ("One ran. Two sat. ", "Two sat. One ran.", "the same sentences in another order"),
        (
            "前面一句。今年的冬小麦长得很好。后面一句。",
            "前面一句。今年的早稻长得很好。后面一句。",
            "−3 +2 characters; “冬小麦” → “早稻”",
        ),
        (
            "It rained. We left early. End.",
            "It rained hard. We left early.",
            "−5 +5 characters; + “hard”; − “End.”",
        ),
        (
            f"开头。{'很长的话' * 50}。",
            "开头。",
            "−201 +0 characters; − “很长的话很长的话很长的…的话很长的话很长的话。”",
        ),
    ],
)
def test_a_change_is_said_in_a_line(original: str, copy: str, said: str) -> None:
    assert describe_change(original, copy) == said


def test_the_largest_changes_come_first_and_the_limit_is_kept() -> None:
    original = "乙二。丙三。甲一。" * 20
    copy = original.replace("甲一", "戊己庚辛壬", 2).replace("丙", "子")
    said = describe_change(original, copy)
    assert 140 < len(said) <= 160
    assert said.index("戊己庚辛壬") < said.index("子")


def test_only_the_beginnings_of_very_long_texts_are_compared() -> None:
    original = "".join(f"第{n}句话。" for n in range(3_000))
    assert len(original) > TEXT_MAX
    said = describe_change(original, original.replace("第7句", "第七句", 1))
    assert said == "−1 +1 characters in the first 5,000 characters; “7” → “七”"
    assert describe_change(original, original + "完") == "no change in the first 5,000 characters"


@pytest.mark.parametrize(
    ("original", "copy"),
    [
        ("a. b. " * 2_000, "b. a. " * 2_000),
        ("a b. " * 2_000, "b a. " * 2_000),
        ("好。" * 2_500, "坏。好。" * 1_250),
        ("的是" * 2_500, "是的的" * 1_600),
        ("的" * 240 + "。", "的" * 239 + "是。"),
    ],
)
def test_texts_made_to_be_slow_are_not(original: str, copy: str) -> None:
    """Without limits one of them takes minutes; the time-out here allows for a busy machine."""
    started = time.process_time()
    assert len(describe_change(original, copy)) <= 160
    assert time.process_time() - started < 5


# ---- The live view.

CHANGE = (
    "−12 +15 characters; “教师发展中心” → “实验小学”; “在操场上多跑” → “睡得更好，第二天也精神”" * 3
)


def progress(share: float | None) -> Progress:
    source = SourcePosition("raw-documents", 0, 0)
    ids = (f"新闻-第{number}篇-" + "很长的编号" * 10 for number in range(24))
    counts = Counts()
    counts.unique, counts.undecidable = 800, 100
    counts.by_method["near"], counts.by_reason["not_json"] = 650, 50
    counts.latest.extend(
        DuplicateOutput(source, id_, source, "原文", 31, 256, 0.8789, "near") for id_ in ids
    )
    return Progress(counts, decided=1500, share=share, seconds=3.25, per_second=461.5)


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
    assert "3.2 s" in picture[0]
    assert any("1,500 decided" in line and "462/s" in line for line in picture)
    if height >= 24:
        rows = [line for line in picture if " ← " in line]
        assert len(rows) == (6 if height == 24 else 8)
        assert "第23篇" in rows[0]
        assert all("31 of 256 bits differ" in row for row in rows)


def test_without_a_terminal_there_are_lines_and_none_too_soon() -> None:
    written = io.StringIO()

    with shown(Console(file=written, width=80), "3,000 records", plain=False) as view:
        assert isinstance(view, LineView)
        view.starting("Starting a worker")
        for share in (0.5, 0.5, 1.0):
            view.show(progress(share), lambda _: "one word")

    lines = written.getvalue().splitlines()
    numbers = "1,500 decided (462/s): 800 unique, 650 duplicates, 50 dead letters"
    assert lines[0] == "firstseen demo: 3,000 records"
    assert lines[1] == "Starting a worker …"
    assert lines[2] == f"   3.2 s   50%  {numbers}"
    assert lines[3].endswith(" ← 原文  31 of 256 bits differ  one word")
    assert lines[4] == f"   3.2 s  100%  {numbers}"


# ---- The summary.

KINDS = {"copies": 40, "found": 39, "called_duplicate": 39, "rightly_called": 39}
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
    dead_letters_by_reason={"not_json": 40},
    tombstones=0,
    too_long=0,
    lost=0,
    repeated=0,
    precision=1.0,
    recall=0.975,
    swapped=2,
    by_kind={
        "edit_10_20": {"count": 60, **KINDS, "recall": 0.975, "precision": 1.0},
        "not_json": {"count": 40, **dict.fromkeys(KINDS, 0), "recall": None, "precision": None},
    },
    seconds=2.0,
    documents_per_second=50.0,
    shards=4,
    worker_cpu_seconds=1.5,
    stages=(StageTime("lookup", 7, 0.5),),
)


def summary_lines(report: DemoReport) -> list[str]:
    written = io.StringIO()
    print_summary(Console(file=written, width=80, highlight=False), report)
    return [line.rstrip() for line in written.getvalue().splitlines()]


def test_the_summary_says_how_well_and_where_the_time_went() -> None:
    lines = summary_lines(REPORT)

    assert lines[0].startswith("100 records in 2.0 s, 50 per second")
    assert max(map(cell_len, lines)) <= 80
    rows = [" ".join(line.split()) for line in lines]
    for row in (
        "unique 21 21.0% output unchanged",
        "duplicates 39 39.0% 9 of the same content, 30 near",
        "edit, 10–20 % 60 40 39 0.975 1.000",
        "broken records 40 0 0 – –",
        "all 100 40 39 0.975 1.000",
        "2 originals arrived after a copy; “all” counts them as found.",
        "lookup 7 0.50 25% 5,000",
    ):
        assert row in rows


def test_the_summary_of_the_users_documents_does_not_say_how_well() -> None:
    lines = summary_lines(msgspec.structs.replace(REPORT, by_kind=None, lost=1, too_long=3))
    assert lines[0].endswith("1 lost, 0 repeated")
    assert not any("Results by kind" in line for line in lines)
    assert any(line.startswith("  left out       3") for line in lines)


# ---- Pairs and dead letters of a user's own documents.

HOSTILE = "<script>document.title='owned'</script>\\u001b[2J北京今天下雪了，地铁照常运行。"


def source(offset: int) -> SourcePosition:
    return SourcePosition("raw", 0, offset)


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
    for output in (duplicate(1, 3), duplicate(2, 41), duplicate(3, 0), duplicate(9, 60)):
        found.note_output(output)
    found.note_output(DeadLetterOutput(source(4), "not_json", "not JSON: <i>"))
    return found


def test_the_furthest_pairs_whose_documents_are_at_hand_come_first(examples: Examples) -> None:
    assert [pair.duplicate.distance for pair in examples.pairs()] == [41, 3, 0]
    assert examples.refused() == [("my.jsonl, line 5", "not_json", "not JSON: <i>")]


def test_of_many_pairs_the_furthest_are_kept(examples: Examples) -> None:
    for number in range(2 * PAIRS_MAX):
        examples.note_output(duplicate(1 + number % 3, number % 50 + 1))
    distances = [pair.duplicate.distance for pair in examples.pairs()]
    assert distances == sorted(distances, reverse=True)
    assert len(distances) == PAIRS_MAX - 1  # the text of one is not kept
    assert min(distances) >= 25


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
