"""`firstseen fingerprint`: what is shown is what the index would hold."""

from __future__ import annotations

import gzip
import io
import json
import sys
from pathlib import Path
from typing import Final

import pytest
from rich.cells import cell_len

from simhash_core.text.fingerprinter import Fingerprinter
from simhash_core.text.profiles import index_digest, profile_named
from streams.cli.main import main
from streams.errors import ExitCode

pytestmark = pytest.mark.usefixtures("empty_directory")

TEXT: Final = (
    "北京今天下雪了，地铁照常运行，早高峰时各条线路都有人扫雪，公交车慢一些，出租车少一些，"
    "学校推迟上课，机场取消航班，市民最好提前出门。"
)
SHORT: Final = "北京今天下雪了。"


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What the command prints, which must succeed."""
    assert main(["fingerprint", *arguments]) == ExitCode.OK
    return capsys.readouterr().out


@pytest.mark.parametrize("profile", ["classic", "wide"])
def test_the_object_is_what_the_core_says(profile: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Given a text, then fingerprint, digest, features and terms are those of the core, and the
    values of the blocks of one cut, one after the other, are the fingerprint.
    """
    Path("text.txt").write_text(TEXT, "utf-8")
    found = json.loads(shown(capsys, "text.txt", "--profile", profile, "--json", "--top", "3"))

    fingerprinter = Fingerprinter(profile_named(profile))
    made = fingerprinter.fingerprint(TEXT)
    assert found["fingerprint"] == made.fingerprint.hex()
    assert found["bits"] == fingerprinter.scheme.bits
    of_one_cut = found["blocks"][: fingerprinter.scheme.blocks]
    if fingerprinter.scheme.blocks:
        assert "".join(block["value"] for block in of_one_cut) == made.fingerprint.hex()
    assert [block["index"] for block in found["blocks"]] == list(
        range(fingerprinter.scheme.all_blocks)
    )
    assert found["content_digest"] == made.content_digest.hex()
    assert found["features"] == made.features
    assert found["undecidable"] is None
    heaviest = fingerprinter.weighted_terms(TEXT)[:3]
    assert [(term["term"], term["weight"]) for term in found["terms"]] == heaviest
    assert found["index"] == index_digest(fingerprinter.identity)


def test_every_way_to_give_a_text_is_the_same(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given one text as a file, as gzip, as an option, on standard input, and as a document with
    --jsonl, then the fingerprint is the same.
    """
    Path("text.txt").write_text(TEXT, "utf-8")
    Path("text.gz").write_bytes(gzip.compress(TEXT.encode()))
    Path("one.jsonl").write_text(json.dumps({"id": "n1", "text": TEXT}), "utf-8")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TEXT.encode())))

    ways = [("text.txt",), ("text.gz",), ("--text", TEXT), ("-",), ("one.jsonl", "--jsonl")]
    found = {json.loads(shown(capsys, *way, "--json"))["fingerprint"] for way in ways}

    assert len(found) == 1


def test_the_page_fits_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """Given 512 bits and Chinese terms, then no line is wider than 80 cells, and what is there is
    shown: the fingerprint, every block with its bits, the terms.
    """
    changes = ("index.bits=512", "index.blocks=32", "index.cuts=1")
    flags = [flag for change in changes for flag in ("--set", change)]
    text = shown(capsys, "--text", TEXT, *flags, "--top", "2")

    assert max(map(cell_len, text.splitlines())) <= 80
    made = Fingerprinter(profile_named("wide"))
    assert f"features     {made.fingerprint(TEXT).features}" in text
    rows = [line.split() for line in text.splitlines() if line[:5].strip().isdigit()]
    assert [int(row[0]) for row in rows] == list(range(32))
    for _, value, bits in rows:
        assert int(value, 16) == int(bits, 2)
    digits = "".join(value for _, value, _ in rows)
    assert digits[:64] in text
    assert digits[64:] in text
    assert "more (--top)" in text


@pytest.mark.parametrize(
    ("text", "reason"),
    [(SHORT, "too_few_features"), ("🙂🙂。。。", "no_features"), (" \n\t", "empty")],
)
def test_a_text_that_is_undecidable(
    text: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Given a text with too little in it, then there is the reason instead of a fingerprint."""
    found = json.loads(shown(capsys, "--text", text, "--json"))
    assert (found["fingerprint"], found["undecidable"], found["blocks"]) == (None, reason, [])

    page = shown(capsys, "--text", text)
    assert f"none: undecidable ({reason})" in page
    assert max(map(cell_len, page.splitlines())) <= 80


def test_documents_a_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    """Given documents, then each has a line of id, fingerprint and features; one that is
    undecidable its reason; a line that is no document is told on standard error.
    """
    documents = [{"id": "a", "text": TEXT}, {"id": "b\x1b[2J", "text": SHORT}]
    lines = [json.dumps(document) for document in documents]
    Path("f.jsonl").write_text("\n".join([lines[0], "", "{", lines[1]]), "utf-8")

    assert main(["fingerprint", "--jsonl", "f.jsonl", "--profile", "classic"]) == ExitCode.OK

    captured = capsys.readouterr()
    made = Fingerprinter(profile_named("classic")).fingerprint(TEXT)
    first, second = captured.out.splitlines()
    assert first == f"a\t{made.fingerprint.hex()}\t{made.features}"
    assert second.endswith("\t-\ttoo_few_features")
    assert "\x1b" not in captured.out
    assert "line 3: not_json" in captured.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--text"),
        (["f.txt", "--text", "x"], "--text"),
        (["--text", "x", "--jsonl"], "--jsonl"),
        (["missing.txt"], "missing.txt"),
        (["latin.txt"], "latin.txt: not UTF-8 at byte 1"),
        (["cut.gz"], "cut.gz"),
        (["long.txt", "--set", "max_record_bytes=1024"], "max_record_bytes"),
    ],
)
def test_texts_that_cannot_be_read(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Given nothing to read, or something that is no text, then the message names it and why."""
    Path("f.txt").write_text(TEXT, "utf-8")
    Path("latin.txt").write_bytes(b"\x41\xe9\x41")
    Path("cut.gz").write_bytes(gzip.compress(TEXT.encode())[:-9])
    Path("long.txt").write_bytes(b"x" * 1025)

    assert main(["fingerprint", *arguments]) == ExitCode.USAGE

    assert message in capsys.readouterr().err
