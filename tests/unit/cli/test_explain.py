"""Commands that analyse texts: `firstseen explain`, `fingerprint` and `idf`."""

from __future__ import annotations

import gzip
import io
import json
import sys
from pathlib import Path
from typing import Any, Final

import pytest
from rich.cells import cell_len

from simhash_core.fingerprints.fingerprint import distance_bits
from simhash_core.text.fingerprinter import Fingerprinter
from simhash_core.text.profiles import Profile, index_digest, profile_named
from streams.corpus.corpus import generate
from streams.corpus.generated import BROKEN, EditKind
from streams.errors import ExitCode
from streams.offline.explanation import explain
from tests.unit.cli.dedup_corpus import TEXT
from tests.unit.cli.running import report_of, run_here

pytestmark = pytest.mark.usefixtures("empty_directory")


def _texts() -> tuple[str, str, str]:
    """Return an article, a lightly edited copy of it, and another article."""
    records = list(generate(3, 400))
    texts = {r.id: json.loads(r.value)["text"] for r in records if r.value and r.kind not in BROKEN}
    copy = next(r for r in records if r.kind is EditKind.EDIT_1_5)
    other = next(r for r in records if r.kind is EditKind.ORIGINAL and r.id != copy.root)
    return texts[copy.parent], texts[copy.id], texts[other.id]


ARTICLE, COPY, OTHER = _texts()
SHORT: Final = "北京今天下雪了。"
WORDS: Final = Profile(bits=64, blocks=4, block_bits=16, distance=3, min_features=1)


def explained(a: str, b: str, *options: str) -> dict[str, Any]:
    return report_of("explain", "--text-a", a, "--text-b", b, *options)


def test_json_of_files_whose_names_are_not_utf8() -> None:
    name = "a\udcff.txt"
    Path(name).write_text(ARTICLE, "utf-8")
    assert report_of("explain", name, "--text-b", COPY)["a"]["name"] == "a\ufffd.txt"


def shown(*arguments: str) -> str:
    """Return the output of a command, which must succeed and fit the terminal."""
    run = run_here(*arguments)
    assert run.returncode == ExitCode.OK, run.stderr
    assert max(map(cell_len, run.stdout.splitlines())) <= 80
    return run.stdout


def page(a: str, b: str, *options: str) -> str:
    return shown("explain", "--text-a", a, "--text-b", b, *options)


@pytest.mark.parametrize(
    ("a", "b", "verdict", "word"),
    [
        (ARTICLE, COPY, "DuplicateOf", "near"),
        (ARTICLE, f"  {ARTICLE}\n", "DuplicateOf", "exact"),
        (ARTICLE, OTHER, "Unique", "unique"),
        (ARTICLE, SHORT, "Undecidable", "too_few_features"),
        (SHORT, ARTICLE, "Unique", "no fingerprint"),
        (SHORT, f"{SHORT} ", "DuplicateOf", "exact"),
    ],
)
def test_the_verdict_on_b_after_a_has_its_reason(a: str, b: str, verdict: str, word: str) -> None:
    found = explained(a, b)
    assert (found["verdict"], word in found["verdict_in_words"]) == (verdict, True)
    assert word in page(a, b)


@pytest.mark.parametrize("profile", ["classic", "wide"])
@pytest.mark.parametrize("text", [COPY, OTHER])
def test_distance_bits_and_blocks_are_those_of_the_fingerprints(profile: str, text: str) -> None:
    found = explained(ARTICLE, text, "--profile", profile)

    made = Fingerprinter(profile_named(profile))
    a, b = (made.fingerprint(text).fingerprint for text in (ARTICLE, text))
    assert (found["a"]["fingerprint"], found["b"]["fingerprint"]) == (a.hex(), b.hex())
    assert found["distance"] == distance_bits(a, b) == len(found["differing_bits"])
    rebuilt = int.from_bytes(a, "big")
    for bit in found["differing_bits"]:
        rebuilt ^= 1 << (made.scheme.bits - 1 - bit["bit"])
        assert (bit["margin_a"] > 0) != (bit["margin_b"] > 0)
        assert bit["block"] == (bit["bit"] // 16 if made.scheme.blocks else None)
    assert rebuilt == int.from_bytes(b, "big")
    touched = {bit["bit"] for bit in found["differing_bits"]}
    blocks = range(made.scheme.all_blocks)
    assert found["shared_blocks"] == [
        block for block in blocks if touched.isdisjoint(made.scheme.bits_of(block))
    ]
    assert found["meet"] == bool(found["shared_blocks"] or found["shared_bands"])
    assert bool(found["shared_bands"]) == (profile == "wide" and text == COPY)
    assert found["near"] == (found["distance"] <= made.scheme.distance)
    assert (found["agreement"] is None) == (profile == "classic")


def test_the_drawing_marks_the_differing_bits_of_all_blocks() -> None:
    options = ["--set", "index.blocks=16", "--set", "index.cuts=2"]
    found = explained(ARTICLE, COPY, *options)
    drawing = page(ARTICLE, COPY, *options)
    assert "Features that contribute most" in drawing
    rows = [line.split() for line in drawing.splitlines() if "·" in line]
    assert [int(row[0]) for row in rows] == list(range(32))
    drawn = "".join(row[3] for row in rows[:16])
    places = sorted(bit["bit"] for bit in found["differing_bits"])
    assert [place for place, mark in enumerate(drawn) if mark == "x"] == places
    for _, a, b, marks, outcome in rows:
        assert f"{int(a, 16) ^ int(b, 16):016b}" == marks.replace("·", "0").replace("x", "1")
        assert outcome == ("equal" if a == b else str(marks.count("x")))


def test_bits_outside_the_blocks_have_a_line_of_their_own() -> None:
    changes = ("index.blocks=21", "index.block_bits=12", "index.cuts=1")
    drawn = page(ARTICLE, COPY, *(part for change in changes for part in ("--set", change)))
    rest = [line for line in drawn.splitlines() if line.startswith(" rest")]
    assert [len(line.split()[1]) for line in rest] == [256 - 21 * 12]


def test_the_word_that_differs_pulls_texts_apart_most() -> None:
    found = explain(Fingerprinter(WORDS), "apple banana cherry", "apple banana damson")
    terms = {term.term: term for term in found.terms}
    assert [term.term for term in found.terms[:2]] == ["cherry", "damson"]
    assert (terms["cherry"].weight_b, terms["damson"].weight_a) == (0, 0)
    assert terms["apple"].share == terms["banana"].share == 0
    assert sum(term.share for term in found.terms) == pytest.approx(1)
    # The idf table has none of the words, so all have the same weight: the cosine is 2/3.
    assert found.cosine == pytest.approx(2 / 3)
    assert found.expected_distance == pytest.approx(64 * 0.267_720, abs=1e-3)


def test_length_does_not_weigh() -> None:
    found = explain(Fingerprinter(WORDS), "apple banana cherry", "apple banana cherry " * 2)
    assert found.distance == 0
    assert found.cosine == pytest.approx(1)
    assert all(term.share == 0 for term in found.terms)


def test_a_short_text_that_passes_is_not_called_different() -> None:
    found = explained(SHORT, SHORT, "--set", "index.short_texts=pass")
    assert found["verdict"] == "Undecidable"
    assert "no exact repeat" not in found["verdict_in_words"]
    assert "index.short_texts=pass" in found["verdict_in_words"]


def test_scopes_and_times_of_documents_count() -> None:
    fields: list[dict[str, object]] = [
        {"timestamp": 0},
        {"timestamp": 86_400_000},
        {"timestamp": 86_400_001},
        {"scope": "b"},
    ]
    for text, verdict in ((ARTICLE, "Unique"), (SHORT, "Undecidable")):
        documents = [{"id": f"{at}", "text": text, **each} for at, each in enumerate(fields)]
        Path("a.jsonl").write_text("\n".join(map(json.dumps, documents)))
        options = ["--documents", "a.jsonl", "--set", "index.window=1d"]
        found = [
            report_of("explain", *options, "--set", "fields.scope=scope", "0", other)
            for other in "123"
        ]
        assert [each["verdict"] for each in found] == ["DuplicateOf", verdict, verdict]
        words = [each["verdict_in_words"] for each in found]
        assert "times are 86400001ms apart, more than the window of 1d" in words[1]
        assert "they have different scopes" in words[2]
        inline = report_of("explain", *options, "--text-a", text, "2")
        assert inline["verdict"] == "DuplicateOf"


def test_titles_of_documents_weigh() -> None:
    documents = [
        {"id": "a", "text": ARTICLE, "title": ARTICLE[:40]},
        {"id": "b", "text": ARTICLE, "title": ARTICLE[60:90]},
    ]
    Path("a.jsonl").write_text("\n".join(map(json.dumps, documents)))
    weighting = ["--set", "index.weighting=tfidf-roles"]
    report = report_of("explain", "--documents", "a.jsonl", *weighting, "a", "b")
    lines = shown("fingerprint", "--jsonl", "a.jsonl", "--profile", "classic", *weighting)
    assert report["distance"] > 0
    prints = [line.split("\t")[1] for line in lines.splitlines()]
    assert prints[0] != prints[1]


def test_documents_are_found_by_id_or_by_position() -> None:
    """The first document with an id counts, and broken lines are skipped."""
    one = ["{", json.dumps({"text": OTHER}), json.dumps({"id": 7, "text": ARTICLE})]
    two = [json.dumps({"id": "b", "text": text}) for text in (COPY, OTHER)]
    Path("one.jsonl").write_text("\n".join(one))
    Path("two.jsonl").write_text("\n".join(two))
    files = ["--documents", "one.jsonl", "--documents", "two.jsonl"]
    by_id = report_of("explain", *files, "7", "b")
    by_place = report_of("explain", *files, "one.jsonl/0@1", "7")
    assert by_id["distance"] == explained(ARTICLE, COPY)["distance"]
    assert by_place["distance"] == explained(OTHER, ARTICLE)["distance"]


# ---- `firstseen fingerprint` shows what the index would have.


@pytest.mark.parametrize("profile", ["classic", "wide"])
def test_the_object_is_what_the_core_says(profile: str) -> None:
    Path("text.txt").write_text(TEXT, "utf-8")
    found = report_of("fingerprint", "text.txt", "--profile", profile, "--top", "3")

    fingerprinter = Fingerprinter(profile_named(profile))
    scheme, made = fingerprinter.scheme, fingerprinter.fingerprint(TEXT)
    assert found["fingerprint"] == made.fingerprint.hex()
    assert found["bits"] == scheme.bits
    if scheme.blocks:
        of_one_cut = found["blocks"][: scheme.blocks]
        assert "".join(block["value"] for block in of_one_cut) == made.fingerprint.hex()
    assert [block["index"] for block in found["blocks"]] == list(range(scheme.all_blocks))
    assert found["content_digest"] == made.content_digest.hex()
    assert found["features"] == made.features
    assert found["undecidable"] is None
    heaviest = fingerprinter.weighted_terms(TEXT)[:3]
    assert [(term["term"], term["weight"]) for term in found["terms"]] == heaviest
    assert found["index"] == index_digest(fingerprinter.identity)


def test_every_way_to_give_a_text_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("text.txt").write_text(TEXT, "utf-8")
    Path("text.gz").write_bytes(gzip.compress(TEXT.encode()))
    Path("one.jsonl").write_text(json.dumps({"id": "n1", "text": TEXT}), "utf-8")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TEXT.encode())))
    ways = [("text.txt",), ("text.gz",), ("--text", TEXT), ("-",), ("one.jsonl", "--jsonl")]
    assert len({report_of("fingerprint", *way)["fingerprint"] for way in ways}) == 1


def test_the_page_has_every_block_with_its_bits() -> None:
    changes = ("index.bits=512", "index.blocks=32", "index.cuts=1")
    flags = [flag for change in changes for flag in ("--set", change)]
    text = shown("fingerprint", "--text", TEXT, *flags, "--top", "2")
    made = Fingerprinter(profile_named("wide"))
    assert f"features     {made.fingerprint(TEXT).features}" in text
    rows = [line.split() for line in text.splitlines() if line[:5].strip().isdigit()]
    assert [int(row[0]) for row in rows] == list(range(32))
    for _, value, bits in rows:
        assert int(value, 16) == int(bits, 2)
    digits = "".join(value for _, value, _ in rows)
    for part in (digits[:64], digits[64:], "more (--top)"):
        assert part in text


@pytest.mark.parametrize(
    ("text", "reason"),
    [(SHORT, "too_few_features"), ("🙂🙂。。。", "no_features"), (" \n\t", "empty")],
)
def test_an_undecidable_text_has_a_reason_in_place_of_a_fingerprint(text: str, reason: str) -> None:
    found = report_of("fingerprint", "--text", text)
    assert (found["fingerprint"], found["undecidable"], found["blocks"]) == (None, reason, [])
    assert f"none: undecidable ({reason})" in shown("fingerprint", "--text", text)


def test_documents_have_a_line_each_and_others_are_told() -> None:
    documents = [{"id": "a", "text": TEXT}, {"id": "b\x1b[2J", "text": SHORT}]
    lines = [json.dumps(document) for document in documents]
    Path("f.jsonl").write_text("\n".join([lines[0], "", "{", lines[1]]), "utf-8")
    run = run_here("fingerprint", "--jsonl", "f.jsonl", "--profile", "classic")
    assert run.returncode == ExitCode.OK
    made = Fingerprinter(profile_named("classic")).fingerprint(TEXT)
    first, second = run.stdout.splitlines()
    assert first == f"a\t{made.fingerprint.hex()}\t{made.features}"
    assert second.endswith("\t-\ttoo_few_features")
    assert "\x1b" not in run.stdout
    assert "line 3: not_json" in run.stderr


# ---- `firstseen idf`: training from files, and using the model.

TEXTS = [
    "市交通局发布公告称，跨江大桥的加固工程将于下月初开始，货车绕行北环高速。",
    "跨江大桥昨晚封闭，货车绕行，公交线路改由隧道通行，居民表示理解。",
    "一家初创公司展示了新型电池，研究人员说关键在于陶瓷隔膜。",
]


@pytest.fixture
def corpus(tmp_path: Path) -> str:
    path = tmp_path / "news.jsonl.gz"
    lines = [json.dumps({"id": i, "text": text}) for i, text in enumerate(TEXTS)]
    path.write_bytes(gzip.compress("\n".join([*lines, "{"]).encode()))
    return str(path)


def test_a_model_is_trained_shown_and_named_in_the_index(corpus: str, tmp_path: Path) -> None:
    model = str(tmp_path / "news.v1.idf")
    Path(model).write_text("old")
    trained = run_here("idf", "train", corpus, "-o", model, "--least", "1", "--json", "--force")
    assert trained.returncode == ExitCode.OK, trained.stderr
    assert trained.stderr.count("\n") == 1, "the line that is no document"
    made = json.loads(trained.stdout)
    assert made["name"] == "news"
    assert (made["documents"], made["segmenter"], made["undercount"]) == (3, "words", 0)

    shown = report_of("idf", "show", model, "大桥", "的", "没有")
    assert shown["idf"] == {"大桥": 0.9163, "的": 1.3863, "没有": shown["unknown"]}

    used = ("--set", f"index.idf={model}")
    configured = report_of("config", "show", *used)
    assert f"idf={made['identity']} " in configured["identity"]
    found = report_of("fingerprint", "--text", TEXTS[0], *used)
    assert found["index"] == configured["index"]


def test_lines_of_text_folders_and_json_lines_are_documents(corpus: str, tmp_path: Path) -> None:
    lines = tmp_path / "more.txt"
    lines.write_text("\n".join(TEXTS[:2]), "utf-8")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a.md").write_text(TEXTS[2], "utf-8")
    made = report_of(
        *("idf", "train", str(lines), str(folder), corpus, "-o", str(tmp_path / "m")),
        *("--name", "all-3"),
    )
    assert made["documents"] == 6
    assert made["identity"].startswith("all-3-")


def test_a_dictionary_and_a_stop_list_change_terms_and_identity(tmp_path: Path) -> None:
    words, stops = tmp_path / "words.txt", tmp_path / "stop.txt"
    words.write_text("跨江大桥\n", "utf-8")
    stops.write_text("货车\n", "utf-8")
    found = report_of(
        *("fingerprint", "--text", TEXTS[0], "--top", "100"),
        *("--set", f"index.user_dictionary={words}", "--set", f"index.stop_words={stops}"),
    )
    terms = {term["term"] for term in found["terms"]}
    assert "跨江大桥" in terms
    assert "货车" not in terms
    plain = report_of("config", "show")
    assert found["index"] != plain["index"]
    assert "stop-words=" not in plain["identity"]
