"""The benchmark of quality runs to its end on a tiny set, and its page has the results."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from benchmarks.quality import __main__ as quality
from benchmarks.quality import experiments
from benchmarks.quality.contest import Contest, Standing, best_of
from benchmarks.quality.page import BEGIN, END, at_equal_false, at_one_threshold
from benchmarks.report import Spread
from simhash_core.text.profiles import PROFILES
from streams.evaluation.evaluation import Quality
from streams.settings.settings import Settings
from tests.unit.offline.labelled_sample import labelled_sample


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a tiny set, named as the set that the experiments edit, and sentences."""
    directory = tmp_path_factory.mktemp("data")
    sample = labelled_sample(directory, documents=40)
    target = directory / "revisions_zh"
    target.mkdir()
    content = Path(sample.documents).read_bytes()
    (target / "documents.jsonl.gz").write_bytes(gzip.compress(content))
    shutil.copy(sample.pairs, target / "pairs.tsv")
    sentences = [
        {"text": "今天天气怎么样？", "text2": "今天天气怎样？", "label": 1},
        {"text": "怎么去火车站", "text2": "怎么去火车站", "label": 1},
    ]
    lines = "\n".join(json.dumps(each, ensure_ascii=False) for each in sentences)
    (directory / "sentences_zh").mkdir()
    (directory / "sentences_zh" / "pairs.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    return directory


def test_figures_go_into_the_page_between_its_marks_and_again_from_the_json(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(experiments, "COPIES_A_TOPIC", 4)
    rows = [experiments.Method("classic", Settings(profile="classic"))]
    monkeypatch.setattr(experiments, "methods", lambda _profile: rows)
    monkeypatch.setattr(experiments, "TOPICS", {"all": ("的", "the", "。", ".")})
    page, figures = tmp_path / "page.md", tmp_path / "figures.json"
    page.write_text(f"before\n{BEGIN}\nstale figures\n{END}\nafter\n", "utf-8")
    options = ["--without-peers", "--rounds", "1", "--update", str(page)]
    quality.main(["--data", str(data), *options, "--json", str(figures)])
    written = page.read_text("utf-8")

    measured: Any = json.loads(figures.read_bytes())
    (contest,) = measured["contests"]
    assert [each["is_ours"] for each in contest["standings"]] == [True] * len(PROFILES)
    assert measured["experiments"][0]["near_duplicates"] > 0
    assert [each["pairs"] for each in measured["sentences"]] == [2] * len(PROFILES)
    assert [each["exact"] for each in measured["sentences"]] == [1] * len(PROFILES)
    recall = contest["standings"][0]["quality"]["recall"]
    assert f"| {recall:.3f} |" in written
    assert written.splitlines()[3].startswith("Python")
    assert written.startswith(f"before\n{BEGIN}\n")
    assert written.endswith(f"{END}\nafter\n")
    assert "stale" not in written
    for heading in ("revisions_zh", "edited copies among", "sentences_zh"):
        assert f"### {heading}" in written or heading in written

    page.write_text(f"before\n{BEGIN}\n{END}\nafter\n", "utf-8")
    quality.main(["--figures", str(figures), "--update", str(page)])
    assert page.read_text("utf-8") == written


def test_the_best_threshold_has_at_most_two_percent_false_duplicates_or_the_fewest() -> None:
    tried = {0.4: made(0.99, 0.03), 0.5: made(0.97, 0.02), 0.6: made(0.9, 0.0)}
    assert best_of(tried, "f1") == 0.5
    assert best_of({0.4: made(0.99, 0.3), 0.5: made(0.97, 0.2)}, "f1") == 0.5


def test_one_threshold_for_all_sets_errs_little_on_each() -> None:
    contests = [
        _contest("a", made(0.99, 0.03), made(0.98, 0.01), made(0.90, 0.0)),
        _contest("b", made(0.99, 0.01), made(0.90, 0.02), made(0.80, 0.0)),
    ]
    table = at_one_threshold(contests)
    assert [list(row) for row in table.rows] == [
        ["ours", "0.950", "0.000", "0.950", "0.000"],
        ["peer ≥ 0.5", "0.980", "0.010", "0.900", "0.020"],
    ]


def test_a_peer_that_always_has_more_false_duplicates_is_not_there() -> None:
    contests = [
        _contest("a", made(0.99, 0.03), made(0.97, 0.0104), made(0.90, 0.0), ours=made(0.95, 0.01)),
        _contest("b", made(0.99, 0.03), made(0.97, 0.02), made(0.90, 0.02), ours=made(0.95, 0.01)),
    ]
    rows = [(row[0], row[3]) for row in at_equal_false(contests).rows]
    assert rows == [("a: ours", "0.950"), ("a: peer ≥ 0.5", "0.970"), ("b: ours", "0.950")]


def _contest(set_: str, *peer: Quality, ours: Quality | None = None) -> Contest:
    def standing(name: str, threshold: str, quality: Quality) -> Standing:
        return Standing(
            name=name,
            threshold=threshold,
            is_ours=name == "ours",
            is_best=name == "ours",
            quality=quality,
            documents_per_cpu_second=Spread.of([1.0]),
        )

    standings = [standing("ours", "", ours or made(0.95, 0.0))]
    standings += [
        standing("peer", at, quality)
        for at, quality in zip(("≥ 0.4", "≥ 0.5", "≥ 0.6"), peer, strict=True)
    ]
    return Contest(set=set_, score="f1", documents=1, positives=1, rounds=1, standings=standings)


def made(f1: float, false: float) -> Quality:
    numbers = dict.fromkeys(Quality.__struct_fields__, 0)
    return Quality(**{**numbers, "f1": f1, "false_duplicates": false})  # type: ignore[arg-type] # by name
