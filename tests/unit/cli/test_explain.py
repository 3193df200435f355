"""`firstseen explain`: each figure is true of the two texts, and the verdict is the real one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from rich.cells import cell_len

from simhash_core.fingerprints.fingerprint import distance_bits
from simhash_core.text.fingerprinter import Fingerprinter
from simhash_core.text.profiles import Profile, profile_named
from streams.corpus.corpus import generate
from streams.corpus.generated import BROKEN, EditKind
from streams.errors import ExitCode
from streams.offline.explanation import explain, margins
from tests.unit.cli.running import report_of, run_here

pytestmark = pytest.mark.usefixtures("empty_directory")


def _texts() -> tuple[str, str, str]:
    """An article, a lightly edited copy of it, and another article."""
    records = list(generate(3, 400))
    texts = {r.id: json.loads(r.value)["text"] for r in records if r.value and r.kind not in BROKEN}
    copy = next(r for r in records if r.kind is EditKind.EDIT_1_5)
    other = next(r for r in records if r.kind is EditKind.ORIGINAL and r.id != copy.root)
    return texts[copy.parent], texts[copy.id], texts[other.id]


ARTICLE, COPY, OTHER = _texts()
SHORT: Final = "北京今天下雪了。"
WORDS: Final = Profile(bits=64, blocks=4, block_bits=16, distance=3, min_features=1)


def explained(a: str, b: str, *options: str) -> dict[str, Any]:
    """The object that the command prints for two texts."""
    return report_of("explain", "--text-a", a, "--text-b", b, *options)


def page(a: str, b: str, *options: str) -> str:
    run = run_here("explain", "--text-a", a, "--text-b", b, *options)
    assert run.returncode == ExitCode.OK, run.stderr
    return run.stdout


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
def test_the_verdict_on_b_after_a_is_said_with_its_reason_in_80_columns(
    a: str, b: str, verdict: str, word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    found = explained(a, b)
    assert (found["verdict"], word in found["verdict_in_words"]) == (verdict, True)
    text = page(a, b)
    assert word in text
    assert max(map(cell_len, text.splitlines())) <= 80


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
    rows = [line.split() for line in page(ARTICLE, COPY, *options).splitlines() if "·" in line]
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


@pytest.mark.parametrize("profile", ["classic", "wide"])
@pytest.mark.parametrize("text", [ARTICLE, COPY, OTHER])
def test_bits_are_1_where_margins_are_above_0(profile: str, text: str) -> None:
    made = Fingerprinter(profile_named(profile))
    found = margins(made, dict(made.weighted_terms(text)))
    bits = int.from_bytes(made.fingerprint(text).fingerprint, "big")
    assert [int(margin > 0) for margin in found] == [int(bit) for bit in f"{bits:0{len(found)}b}"]
    assert abs(found).max() <= 1


def test_the_word_that_differs_pulls_texts_apart_most() -> None:
    found = explain(Fingerprinter(WORDS), "apple banana cherry", "apple banana damson")
    terms = {term.term: term for term in found.terms}
    assert [term.term for term in found.terms[:2]] == ["cherry", "damson"]
    assert (terms["cherry"].weight_b, terms["damson"].weight_a) == (0, 0)
    assert terms["apple"].share == terms["banana"].share == 0
    assert sum(term.share for term in found.terms) == pytest.approx(1)
    # All words are unknown to the idf table, hence of one weight: the cosine is 2/3.
    assert found.cosine == pytest.approx(2 / 3)
    assert found.expected_distance == pytest.approx(64 * 0.267_720, abs=1e-3)


def test_length_does_not_weigh() -> None:
    profile = msgspec.structs.replace(WORDS, weighting="tf")
    text = "apple banana cherry "
    found = explain(Fingerprinter(profile), text, text * 2)
    assert found.distance == 0
    assert found.cosine == pytest.approx(1)
    assert all(term.weight_b == 2 * term.weight_a for term in found.terms)
    assert all(term.share == 0 for term in found.terms)


def test_documents_are_found_by_id_or_by_position() -> None:
    """The first of an id counts, and broken lines are passed over."""
    one = ["{", json.dumps({"text": OTHER}), json.dumps({"id": 7, "text": ARTICLE})]
    two = [json.dumps({"id": "b", "text": text}) for text in (COPY, OTHER)]
    Path("one.jsonl").write_text("\n".join(one))
    Path("two.jsonl").write_text("\n".join(two))
    files = ["--documents", "one.jsonl", "--documents", "two.jsonl"]
    by_id = report_of("explain", *files, "7", "b")
    by_place = report_of("explain", *files, "one.jsonl/0@1", "7")
    assert by_id["distance"] == explained(ARTICLE, COPY)["distance"]
    assert by_place["distance"] == explained(OTHER, ARTICLE)["distance"]
