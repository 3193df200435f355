"""Pairs and dead letters of a user's own documents: on the terminal, and on a page."""

from __future__ import annotations

import io

import pytest
from rich.cells import cell_len
from rich.console import Console

from simhash_core.documents import SourcePosition
from streams.corpus.example_file import EXAMPLE_LINES, example_lines
from streams.demo.summary import PAIRS_MAX, Examples, TextMemory, demo_page, print_examples
from streams.documents.fields import FieldSettings
from streams.documents.output_records import DeadLetterOutput, DuplicateOutput
from streams.documents.raw_documents import DocumentReader
from tests.repository.source_tree import ROOT
from tests.unit.demo.demo_reports import demo_report
from tests.unit.ops_page.browser import Watched, chromium

HOSTILE = "<script>document.title='owned'</script>\x1b[2J北京今天下雪了，地铁照常运行。"


def source(offset: int) -> SourcePosition:
    """Return a position on the raw topic."""
    return SourcePosition("raw", 0, offset)


def duplicate(offset: int, distance: int, original: int = 0) -> DuplicateOutput:
    """Return a duplicate of a document."""
    method = "near" if distance else "exact"
    ids = f"d{offset}", f"d{original}"
    return DuplicateOutput(
        source(offset), ids[0], source(original), ids[1], distance, 256, 0.9, method
    )


@pytest.fixture
def examples() -> Examples:
    """Examples of a stream of hostile documents."""
    texts = TextMemory(DocumentReader(FieldSettings(), 1 << 20))
    for offset in range(4):
        value = f'{{"id": "d{offset}", "title": "<b>", "text": "HOSTILE {offset}"}}'
        text = value.replace("HOSTILE", HOSTILE.replace("\x1b", "\\u001b"))
        texts.remember(None, text.encode(), source(offset), f"my.jsonl, line {offset + 1}")
    texts.remember(None, b"<i>no json", source(4), "my.jsonl, line 5")
    found = Examples(texts)
    for output in (duplicate(1, 3), duplicate(2, 41), duplicate(3, 0), duplicate(9, 60)):
        found.note_output(output)
    found.note_output(DeadLetterOutput(source(4), "not_json", "not JSON: <i>"))
    return found


def test_the_furthest_pairs_come_first(examples: Examples) -> None:
    """Given duplicates, one of a document that is not at hand, then the others are pairs, the
    furthest apart first; a dead letter is named by file and line.
    """
    assert [pair.duplicate.distance for pair in examples.pairs()] == [41, 3, 0]
    assert examples.refused() == [("my.jsonl, line 5", "not_json", "not JSON: <i>")]


def test_many_pairs_are_bounded(examples: Examples) -> None:
    """Given more duplicates than are kept, then the furthest are."""
    for number in range(2 * PAIRS_MAX):
        examples.note_output(duplicate(1 + number % 3, number % 50 + 1))
    distances = [pair.duplicate.distance for pair in examples.pairs()]
    assert distances == sorted(distances, reverse=True)
    assert len(distances) == PAIRS_MAX - 1  # the text of one is not at hand
    assert min(distances) >= 25


@pytest.mark.parametrize("width", [120, 50])
def test_the_terminal_shows_them(examples: Examples, width: int) -> None:
    """Given a terminal, then pairs and dead letters fit it, and no text can draw on it."""
    out = io.StringIO()
    print_examples(Console(file=out, width=width, highlight=False), examples)
    shown = out.getvalue()
    assert "d2 ← d0  41 of 256 bits differ" in shown
    assert "not_json" in shown
    assert "\x1b" not in shown
    assert max(map(cell_len, shown.splitlines())) <= width


LONG_NAME = "archive-of-the-year/documents-without-a-blank.jsonl"


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_in_a_browser(examples: Examples, width: int) -> None:
    """Given the page on a desk's and a phone's screen, then it does not scroll sideways, all pairs
    are there, and a text that is a script is shown and not run.
    """
    with chromium() as browser:
        context = browser.new_context(viewport={"width": width, "height": 900})
        watched = Watched(context.new_page())
        watched.page.set_content(
            demo_page(demo_report(input=LONG_NAME, seed=None, duplicates=3), examples)
        )
        assert LONG_NAME in watched.page.title()
        assert watched.page.locator("article.case").count() == 3
        assert "<script>" in watched.page.locator(".text").first.inner_text()
        assert watched.page.get_by_text("my.jsonl, line 5").count() == 1
        assert watched.page.evaluate("document.documentElement.scrollWidth") <= width
        context.close()


def test_the_example_file_is_the_generators() -> None:
    """Given examples/documents.jsonl, then it is what its module writes."""
    content = (ROOT / "examples" / "documents.jsonl").read_bytes()
    assert content == b"".join(example_lines())
    assert content.count(b"\n") == EXAMPLE_LINES
