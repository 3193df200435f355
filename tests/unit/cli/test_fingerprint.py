"""`firstseen fingerprint`: what is shown is what the index would hold."""

from __future__ import annotations

import gzip
import io
import json
import sys
from pathlib import Path

import pytest
from rich.cells import cell_len

from simhash_core.text.fingerprinter import Fingerprinter
from simhash_core.text.profiles import index_digest, profile_named
from streams.errors import ExitCode
from tests.unit.cli.dedup_corpus import TEXT
from tests.unit.cli.running import report_of, run_here

pytestmark = pytest.mark.usefixtures("empty_directory")

SHORT = "北京今天下雪了。"


def shown(*arguments: str) -> str:
    """The page that the command prints, which must succeed and fit a terminal."""
    run = run_here("fingerprint", *arguments)
    assert run.returncode == ExitCode.OK, run.stderr
    assert max(map(cell_len, run.stdout.splitlines())) <= 80
    return run.stdout


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
    text = shown("--text", TEXT, *flags, "--top", "2")
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
    assert f"none: undecidable ({reason})" in shown("--text", text)


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
