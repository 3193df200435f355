"""Each benchmark runs to its end at a tiny size, and its JSON has what its tables show."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import __main__ as all_benchmarks
from benchmarks import fingerprints, worker
from benchmarks.command import MeasurementError
from benchmarks.fingerprints import ContenderProcess
from benchmarks.peers import environment
from benchmarks.report import Spread, ratios
from benchmarks.texts import generated_documents, with_copies
from simhash_core.text.profiles import PROFILES

TINY = ["--count", "6", "--rounds", "2", "--characters", "300"]


def figures_of(path: Path) -> Any:  # noqa: ANN401 - what JSON may be
    """Return the figures that a benchmark has written."""
    return json.loads(path.read_text("utf-8"))


def test_generated_documents_are_chinese_and_always_the_same() -> None:
    """Given a number and a length, then there are as many distinct texts of just that length."""
    texts = generated_documents(20, 500)
    assert texts == generated_documents(20, 500)
    assert len(set(texts)) == 20
    assert {len(text) for text in texts} == {500}
    for text in texts:
        assert sum("\u4e00" <= character <= "\u9fff" for character in text) > 350


def test_fingerprints_without_peers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Given a tiny run without other libraries, then all profiles stand beside segmentation."""
    path = tmp_path / "figures.json"
    fingerprints.main([*TINY, "--without-peers", "--json", str(path)])
    figures = figures_of(path)

    names = [each["name"] for each in figures["contenders"]]
    assert names == [*(f"firstseen {name}" for name in PROFILES), "rjieba, no fingerprint"]
    assert all(each["cpu_us"]["median"] > 0 for each in figures["contenders"])
    assert [each["goal"] for each in figures["ratios"]] == [0.5] * len(PROFILES)
    assert figures["documents"] == 6
    assert figures["characters"] == 300
    assert figures["machine"]["processors"] >= 1
    steps = ["normalise", "segment", "count", "weigh", "sum", "digest"]
    assert [[stage["stage"] for stage in each["stages"]] for each in figures["stages"]] == [
        steps,
        [*steps[:-1], "sketch", steps[-1]],
    ]
    shown = capsys.readouterr().out
    assert all(name in shown for name in [*names, *steps])


@pytest.mark.skipif(not environment.is_there(), reason="no .venv-peers: make bench makes it")
def test_fingerprints_beside_the_peers(tmp_path: Path) -> None:
    """Given the environment of the peers, then they do the same documents, and have ratios."""
    path = tmp_path / "figures.json"
    fingerprints.main([*TINY, "--json", str(path)])
    figures = figures_of(path)
    assert len(figures["contenders"]) == len(PROFILES) + 3
    goals = {each["against"]: each["goal"] for each in figures["ratios"]}
    assert goals == {
        "rjieba, no fingerprint": 0.5,
        "simhash, jieba words": 8.0,
        "simhash, 4-grams": None,
    }


@pytest.mark.parametrize("name", ["documents.jsonl", "documents.jsonl.gz"])
def test_documents_from_a_file(
    tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes], name: str
) -> None:
    """Given JSON lines, then texts that are long enough are cut, and standard output is JSON."""
    lines = [json.dumps({"text": "新桥今天通车了，" * size}) for size in (1, 40, 50)]
    path = tmp_path / name
    content = "\n".join(lines).encode()
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    arguments = [*TINY, "--without-peers", "--documents", str(path), "--json", "-"]

    fingerprints.main(arguments)

    figures = json.loads(capsysbinary.readouterr().out)
    assert figures["documents"] == 2
    assert figures["source"] == name


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "No such file"),
        ("{}", "'text'"),
        ("not JSON", "JSON lines"),
        ('{"text": "短"}', "no text of 300 characters"),
    ],
)
def test_a_file_that_does_not_do(tmp_path: Path, content: str | None, message: str) -> None:
    """Given a file without documents to measure on, then the error names it and the reason."""
    path = tmp_path / "documents.jsonl"
    if content is not None:
        path.write_text(content, "utf-8")
    with pytest.raises(SystemExit, match=message) as error:
        fingerprints.main([*TINY, "--without-peers", "--documents", str(path)])
    assert "documents.jsonl" in str(error.value)


@pytest.mark.slow
def test_a_worker_end_to_end(tmp_path: Path) -> None:
    """Given a few documents, then all profiles have a rate and the steps of the worker."""
    path = tmp_path / "figures.json"
    worker.main(["--count", "40", "--rounds", "1", "--json", str(path)])
    figures = figures_of(path)
    assert {each["profile"] for each in figures["profiles"]} == PROFILES.keys()
    for each in figures["profiles"]:
        assert each["documents_per_second"]["median"] > 0
        assert each["worker_cpu_us"]["median"] > 0
        steps = {stage["stage"] for stage in each["stages"]}
        assert {"fingerprint", "append", "lookup", "decide", "output", "commit", "store"} <= steps


def test_all_in_one_json(
    monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    """Given two of the benchmarks, then standard output is one object with both, and no table."""
    monkeypatch.setattr(fingerprints, "DOCUMENTS", 4)
    monkeypatch.setattr(fingerprints, "ROUNDS", 1)
    monkeypatch.setattr(all_benchmarks, "_RECOVERED", 300)
    arguments = ["--only", "fingerprints", "recovery", "--without-peers", "--json", "-"]

    all_benchmarks.main(arguments)

    figures = json.loads(capsysbinary.readouterr().out)
    assert list(figures) == ["fingerprints", "recovery"]
    recovered = [each["documents"] for each in figures["recovery"]["figures"]]
    assert recovered == [300] * len(PROFILES)


def test_a_contender_that_dies_or_hangs_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given a contender without a module, and one that gets no time, then the run ends."""
    python = Path(sys.executable)
    with (
        pytest.raises(MeasurementError, match="absent has died"),
        ContenderProcess(python, "absent", "", ["text"]),
    ):
        pass
    monkeypatch.setattr(fingerprints, "_TURN_SECONDS", 0.01)
    with (
        pytest.raises(MeasurementError, match="firstseen wide has died, or took more than"),
        ContenderProcess(python, "firstseen", "wide", ["text"]),
    ):
        pass


def test_ratios_are_of_turns_of_one_round() -> None:
    """Given a round in which the machine was busy, then the ratio of that round is as the rest."""
    assert ratios([2.0, 20.0, 2.2], [1.0, 10.0, 1.0]) == Spread(2.0, 2.0, 2.2)


def test_a_share_of_documents_copies_others() -> None:
    """Given a share of copies, then so many documents are near an earlier one and not equal to it,
    all texts keep their length, and they are always the same.
    """
    texts = generated_documents(200, 300)
    mixed = with_copies(texts, 0.75)
    fresh = set(texts)

    assert mixed == with_copies(texts, 0.75)
    assert {len(text) for text in mixed} == {300}
    assert 0.1 < sum(text in fresh for text in mixed) / len(mixed) < 0.55
    assert with_copies(texts, 0.0) == texts
