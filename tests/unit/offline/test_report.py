"""The report of an evaluation: one complete and safe page, with bars and texts side by side.

In a real browser it fits a desktop and a phone, and can be read in light and dark mode.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from playwright.sync_api import Browser

from simhash_core.text.fingerprinter import Fingerprinted
from simhash_core.text.idf import IdfModel
from simhash_core.text.profiles import profile_named
from streams.cli.main import main
from streams.errors import ExitCode
from streams.evaluation.dedup_pass import remembering
from streams.evaluation.evaluation import PairDistances
from streams.evaluation.report_page import _distance_figure, report_page
from streams.evaluation.tuning import (
    Threshold,
    confirmations_around,
    distances_around,
    means_around,
    with_threshold,
)
from streams.offline.pages.text_differences import (
    SHOWN_MAX,
    TEXT_MAX,
    Piece,
    PieceKind,
    side_by_side,
)
from streams.settings.settings import IndexSettings, Settings
from tests.unit.offline.labelled_sample import labelled_sample
from tests.unit.ops_page.browser import FAINT, Watched, chromium

HOSTILE = "</div><script>alert(1)</script><img src=x onerror=alert(2)> &amp; \"'"
TEXT = "今天下雪了，地铁照常运行，公交停了，学校放假一天，市民注意出行安全。"
SAME, ONLY, FOLDED = PieceKind.SAME, PieceKind.ONLY, PieceKind.FOLDED


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Make the report of a sample with hostile texts, at a threshold with both kinds of error."""
    sample = labelled_sample(tmp_path_factory.mktemp("report"), documents=60)
    documents = [json.loads(line) for line in Path(sample.documents).read_bytes().splitlines()]
    for number, fields in enumerate(documents):
        fields["text"] = HOSTILE + fields["text"]
        fields["title"] = HOSTILE
        fields["group"] = f"{HOSTILE}{number}"
    Path(sample.documents).write_text("\n".join(map(json.dumps, documents)), "utf-8")
    settings = Settings(index=IndexSettings(distance=14))
    return report_page((sample.documents, sample.pairs), settings)[0]


class Outline(HTMLParser):
    """Collects elements and their attributes; fails if a tag is not closed in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(page)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.counts[tag] += 1
        self.attributes += attrs
        if tag not in {"meta", "br", "img"}:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_page_is_whole_and_loads_nothing_and_texts_are_never_markup(page: str) -> None:
    outline = Outline(page)
    assert outline.counts["html"] == outline.counts["main"] == 1
    assert outline.counts["script"] == outline.counts["img"] == outline.counts["link"] == 0
    names = {name for name, _ in outline.attributes}
    assert names.isdisjoint({"src", "href", "onerror", "onclick"})
    assert not re.search(r"url\(|@import|<script|<img", page)
    assert "<script>alert(1)</script>" in outline.text
    ids = [value for name, value in outline.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    named = " ".join(value or "" for name, value in outline.attributes if "labelledby" in name)
    assert set(named.split()) <= set(ids)


def test_report_has_figures_and_cases(page: str) -> None:
    outline = Outline(page)
    for said in (
        *("By distance threshold", "By similarity threshold", "By mean of both similarities"),
        *("Distances", "Recall by similarity", "Worst misses", "Worst false joins"),
        *("labelled positives (", "random pairs", "14 (in use)", "of different groups"),
    ):
        assert said in outline.text
    assert outline.counts["table"] == outline.counts["figure"] == 5
    assert outline.counts["mark"] > 0


def test_distances_are_shares_of_each_kind_in_bins() -> None:
    made = _distance_figure(PairDistances([0, 1, 48, 49], [60], [], {}), 47, 256)
    assert made.head == ["distance", "labelled positives (4)", "labelled negatives (1)"]
    assert [row for row in made.rows if any(row[1])] == [
        ("0 to 2", [0.5, 0.0]),
        ("48 to 50", [0.5, 0.0]),
        ("60 to 62", [0.0, 1.0]),
    ]
    assert (made.marked, made.largest) == ("45 to 47", 1.0)
    assert _distance_figure(PairDistances([], [], [], {}), 47, 256).marked == "0 to 0"


def test_option_writes_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sample = labelled_sample(tmp_path, documents=30)
    files = ["evaluate", "--documents", sample.documents, "--pairs", sample.pairs, "--json"]
    target = tmp_path / "page.html"
    assert main([*files, "--report", str(target), "--profile", "classic"]) == ExitCode.OK
    recall = json.loads(capsys.readouterr().out)["recall"]
    assert f"{recall:.1%}" in target.read_text("utf-8")
    assert main([*files, "--report", str(tmp_path / "no" / "page.html")]) == ExitCode.USAGE
    assert "cannot write" in capsys.readouterr().err


def test_a_run_that_fails_keeps_the_page_and_the_inputs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sample = labelled_sample(tmp_path, documents=30)
    page = tmp_path / "page.html"
    page.write_text("earlier")
    before = {each: each.read_bytes() for each in tmp_path.iterdir()}
    demo = ["demo", "--input", sample.documents, "--report", sample.documents]
    assert main(demo) == ExitCode.USAGE
    for documents, pairs, target in (
        (sample.documents, sample.pairs, sample.documents),
        (sample.documents, sample.pairs, sample.pairs),
        (sample.pairs, sample.pairs, str(page)),
    ):
        command = ["evaluate", "--documents", documents, "--pairs", pairs, "--report", target]
        assert main(command) != ExitCode.OK
    assert capsys.readouterr().err.count("is an input itself") == 3
    assert {each: each.read_bytes() for each in tmp_path.iterdir()} == before


def test_thresholds_around_the_one_in_force() -> None:
    classic = Settings(profile="classic")
    assert [at.distance for at in distances_around(classic)] == [0, 1, 2, 3, 4, 5, 6]
    assert confirmations_around(classic) == []
    confirmed = Settings(index=IndexSettings(verify="shingles", verify_at=0.9))
    around = [at.verify_at for at in confirmations_around(confirmed)]
    assert around == sorted(set(around))
    assert 0.9 in around
    assert around[-1] == 1.0
    changed = with_threshold(confirmed, Threshold(11, 0.25)).index_profile()
    assert (changed.distance, changed.verify_at) == (11, 0.25)
    assert means_around(classic) == []
    wide = profile_named("wide")
    means = means_around(Settings())
    assert Threshold(wide.distance, wide.verify_at, wide.mean_at) in means
    assert {each.mean_at for each in means} >= {0.64, 0.66, 0.68, 0.7, 0.72}


def test_fingerprints_are_made_once_unless_they_differ() -> None:
    fingerprinter_of = remembering()
    index = IndexSettings(min_features=3, verify="cosine")
    plain = Settings(profile="classic", index=index).index_profile()

    def made(texts: list[str], **changes: object) -> list[Fingerprinted]:
        profile = replace(plain, **changes)
        return fingerprinter_of(profile).fingerprint_batch(texts)

    first = made([TEXT, "雪"])
    again = made(["雪", TEXT], distance=9, blocks=2, verify_at=0.3)
    assert again[1] is first[0]
    assert again[0] is first[1]
    assert len(made([TEXT], bits=128)[0].fingerprint) == 2 * len(first[0].fingerprint)
    trained = made([TEXT], idf=IdfModel("mine", {"地铁": 9.0}, 1.0))
    assert trained[0].fingerprint != first[0].fingerprint


@pytest.mark.parametrize(
    ("left", "right", "left_pieces", "right_pieces"),
    [
        (
            *("The bridge opens today.", "The tunnel opens today."),
            [(SAME, "The "), (ONLY, "bridge"), (SAME, " opens today.")],
            [(SAME, "The "), (ONLY, "tunnel"), (SAME, " opens today.")],
        ),
        (
            *("今天下雪了。", "今天下大雪了。"),
            [(SAME, "今天下雪了。")],
            [(SAME, "今天下"), (ONLY, "大"), (SAME, "雪了。")],
        ),
        (
            *("Provided AS IS.\nNo warranty.", "Provided  as is. NO WARRANTY."),
            [(SAME, "Provided AS IS.\nNo warranty.")],
            [(SAME, "Provided  as is. NO WARRANTY.")],
        ),
    ],
    ids=["words", "characters", "case and white space"],
)
def test_differences_are_marked(
    left: str, right: str, left_pieces: list[Piece], right_pieces: list[Piece]
) -> None:
    assert side_by_side(left, right) == (left_pieces, right_pieces)


def test_long_equal_text_is_folded() -> None:
    text = "这是一句话。" * 100
    shown = side_by_side(text + "完", text + "终")
    assert [piece.kind for piece in shown.left] == [FOLDED, SAME, ONLY]
    assert shown.left[0].text == "… 540 characters alike …"
    assert len(shown.left[1].text) == 60
    assert [piece.kind for piece in side_by_side("雪" * 119 + "完", "雪" * 119 + "终").left] == [
        SAME,
        ONLY,
    ]


def test_long_texts_are_cut_and_take_little_time() -> None:
    begun = time.process_time()
    shown = side_by_side("天" * 50_000, "a b " * 20_000)
    side_by_side("天地。" * 20_000, "地天。" * 20_000)
    assert time.process_time() - begun < 5
    for pieces in shown:
        assert sum(len(piece.text) for piece in pieces if piece.kind is ONLY) == SHOWN_MAX
        assert pieces[-1].kind is FOLDED
        assert "more" in pieces[-1].text
    assert f"{50_000 - SHOWN_MAX:,}" in shown.left[-1].text
    assert TEXT_MAX < 50_000


@given(st.text("ab雪。 \n.", max_size=200), st.text("ab雪。 \n.", max_size=200))
def test_pieces_make_up_each_text_again(left: str, right: str) -> None:
    for text, pieces in zip((left, right), side_by_side(left, right), strict=True):
        length = 0
        for piece in pieces:
            if piece.kind is FOLDED:
                length += int(piece.text.split()[1].replace(",", ""))
            else:
                assert text[length : length + len(piece.text)] == piece.text
                length += len(piece.text)
        assert length == len(text)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.mark.browser
@pytest.mark.parametrize("colours", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_report_fits_and_can_be_read(
    browser: Browser, page: str, width: int, colours: Literal["light", "dark"]
) -> None:
    """Texts have the contrast of WCAG AA; hostile texts run nothing."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=colours)
    watched = Watched(context.new_page())
    watched.page.set_content(page)
    assert watched.page.evaluate("document.documentElement.scrollWidth") <= width
    assert watched.page.evaluate(FAINT) == []
    sides = watched.page.locator(".case").first.locator(".side")
    first, second = sides.nth(0).bounding_box(), sides.nth(1).bounding_box()
    assert first is not None
    assert second is not None
    beside = second["x"] >= first["x"] + first["width"]
    assert beside == (width > 1000)
    assert beside or second["y"] >= first["y"] + first["height"]
    assert watched.complaints == []
    assert watched.elsewhere == []
    context.close()
