"""`firstseen explain`: each figure is true of the two texts, and the verdict is the real one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest
from rich.cells import cell_len

from simhash_core.fingerprints.fingerprint import distance_bits
from simhash_core.text.fingerprinter import Fingerprinter
from simhash_core.text.profiles import Profile, profile_named
from streams.cli.main import main
from streams.corpus.corpus import generate
from streams.corpus.generated import EditKind
from streams.errors import ExitCode
from streams.offline.explanation import explain, margins

pytestmark = pytest.mark.usefixtures("empty_directory")


def _texts() -> tuple[str, str, str]:
    """Return an article, a lightly edited copy of it, and another article."""
    records = list(generate(3, 400))
    texts = {r.id: json.loads(r.value)["text"] for r in records if r.value and r.root is not None}
    texts |= {
        r.id: json.loads(r.value)["text"]
        for r in records
        if r.value and r.kind is EditKind.ORIGINAL
    }
    copy = next(r for r in records if r.kind is EditKind.EDIT_1_5)
    other = next(r for r in records if r.kind is EditKind.ORIGINAL and r.id != copy.root)
    assert copy.id
    assert copy.parent
    assert other.id
    return texts[copy.parent], texts[copy.id], texts[other.id]


ARTICLE, COPY, OTHER = _texts()
SHORT: Final = "北京今天下雪了。"


def explained(capsys: pytest.CaptureFixture[str], a: str, b: str, *options: str) -> dict[str, Any]:
    """The object that the command prints for two texts."""
    assert main(["explain", "--text-a", a, "--text-b", b, "--json", *options]) == ExitCode.OK
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


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
def test_the_verdict(
    a: str,
    b: str,
    verdict: str,
    word: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Given a copy, an exact repeat, another article or a short text, then the verdict on B after
    A is said, and why; 80 columns are enough for the page.
    """
    monkeypatch.setenv("COLUMNS", "80")
    found = explained(capsys, a, b)
    assert (found["verdict"], word in found["verdict_in_words"]) == (verdict, True)

    assert main(["explain", "--text-a", a, "--text-b", b]) == ExitCode.OK
    page = capsys.readouterr().out
    assert word in page
    assert max(map(cell_len, page.splitlines())) <= 80


@pytest.mark.parametrize("profile", ["classic", "wide"])
@pytest.mark.parametrize("text", [COPY, OTHER])
def test_the_figures_are_true(profile: str, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Given two texts, then distance, differing bits and equal blocks are those of their
    fingerprints, counted here anew.
    """
    found = explained(capsys, ARTICLE, text, "--profile", profile)

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


def test_the_drawing_shows_the_differing_bits(capsys: pytest.CaptureFixture[str]) -> None:
    """Given two texts, then the marks of all blocks are as many as bits differ, in their places."""
    options = ["--set", "index.blocks=16", "--set", "index.cuts=2"]
    found = explained(capsys, ARTICLE, COPY, *options)
    main(["explain", "--text-a", ARTICLE, "--text-b", COPY, *options])

    rows = [line.split() for line in capsys.readouterr().out.splitlines() if "·" in line]
    assert [int(row[0]) for row in rows] == list(range(32))
    drawn = "".join(row[3] for row in rows[:16])
    places = sorted(bit["bit"] for bit in found["differing_bits"])
    assert [place for place, mark in enumerate(drawn) if mark == "x"] == places
    for _, a, b, marks, outcome in rows:
        assert f"{int(a, 16) ^ int(b, 16):016b}" == marks.replace("·", "0").replace("x", "1")
        assert outcome == ("equal" if a == b else str(marks.count("x")))


def test_bits_outside_the_blocks_are_drawn_too(capsys: pytest.CaptureFixture[str]) -> None:
    """Given blocks that do not cover the fingerprint, then the rest has a line of its own."""
    options = [
        *("--set", "index.blocks=21"),
        *("--set", "index.block_bits=12"),
        *("--set", "index.cuts=1"),
    ]
    main(["explain", "--text-a", ARTICLE, "--text-b", COPY, *options])
    rest = [line for line in capsys.readouterr().out.splitlines() if line.startswith(" rest")]
    assert [len(line.split()[1]) for line in rest] == [256 - 21 * 12]


@pytest.mark.parametrize("profile", ["classic", "wide"])
@pytest.mark.parametrize("text", [ARTICLE, COPY, OTHER])
def test_margins_make_the_fingerprint(profile: str, text: str) -> None:
    """Given a text, then the bits of its fingerprint are 1 exactly where its margins are above 0,
    and no margin is beyond all votes.
    """
    made = Fingerprinter(profile_named(profile))
    found = margins(made, dict(made.weighted_terms(text)))

    bits = int.from_bytes(made.fingerprint(text).fingerprint, "big")
    assert [int(margin > 0) for margin in found] == [int(bit) for bit in f"{bits:0{len(found)}b}"]
    assert abs(found).max() <= 1


def test_the_features_that_pull_texts_apart() -> None:
    """Given two texts that differ in one word, then that word weighs most in the difference, on
    both sides; and the shares make a whole.
    """
    profile = Profile(bits=64, blocks=4, block_bits=16, distance=3, min_features=1)
    found = explain(Fingerprinter(profile), "apple banana cherry", "apple banana damson")

    terms = {term.term: term for term in found.terms}
    assert [term.term for term in found.terms[:2]] == ["cherry", "damson"]
    assert (terms["cherry"].weight_b, terms["damson"].weight_a) == (0, 0)
    assert terms["apple"].share == terms["banana"].share == 0
    assert sum(term.share for term in found.terms) == pytest.approx(1)
    # All words are unknown to the idf table, hence of one weight: the cosine is 2/3.
    assert found.cosine == pytest.approx(2 / 3)
    assert found.expected_distance == pytest.approx(64 * 0.267_720, abs=1e-3)


def test_length_does_not_weigh() -> None:
    """Given a text and the same twice over, with plain term counts, then nothing pulls them apart,
    whatever the weights are.
    """
    profile = Profile(bits=64, blocks=4, block_bits=16, distance=3, weighting="tf", min_features=1)
    text = "apple banana cherry "
    found = explain(Fingerprinter(profile), text, text * 2)

    assert found.distance == 0
    assert found.cosine == pytest.approx(1)
    assert all(term.weight_b == 2 * term.weight_a for term in found.terms)
    assert all(term.share == 0 for term in found.terms)


def test_documents_by_id(capsys: pytest.CaptureFixture[str]) -> None:
    """Given files of documents, then A and B are found by their ids, or by their source position
    where they have none; the first of an id counts, and broken lines are passed over.
    """
    Path("one.jsonl").write_text(
        "\n".join(["{", json.dumps({"text": OTHER}), json.dumps({"id": 7, "text": ARTICLE})])
    )
    Path("two.jsonl").write_text(
        "\n".join(json.dumps({"id": "b", "text": text}) for text in (COPY, OTHER))
    )
    files = ["--documents", "one.jsonl", "--documents", "two.jsonl"]

    assert main(["explain", *files, "7", "b", "--json"]) == ExitCode.OK
    by_id = json.loads(capsys.readouterr().out)
    assert main(["explain", *files, "one.jsonl/0@1", "7", "--json"]) == ExitCode.OK
    by_place = json.loads(capsys.readouterr().out)

    assert by_id["distance"] == explained(capsys, ARTICLE, COPY)["distance"]
    assert by_place["distance"] == explained(capsys, OTHER, ARTICLE)["distance"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["f.txt"], "not 1"),
        (["f.txt", "f.txt", "f.txt"], "not 3"),
        (["f.txt", "f.txt", "--text-a", "x"], "not 2"),
        (["-", "-"], "standard input"),
        (["f.txt", "missing.txt"], "missing.txt"),
        (["--documents", "f.jsonl", "a", "z"], "'z'"),
        (["--documents", "missing.jsonl", "a", "z"], "missing.jsonl"),
    ],
)
def test_texts_that_are_not_there(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Given too few texts, too many, or none of that name, then the message says which."""
    Path("f.txt").write_text(ARTICLE, "utf-8")
    Path("f.jsonl").write_text(json.dumps({"id": "a", "text": ARTICLE}), "utf-8")

    assert main(["explain", *arguments]) == ExitCode.USAGE

    assert message in capsys.readouterr().err
