"""``firstseen evaluate``: the real deduplicator on labelled files, as users start it."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from simhash_core.analysis.exact_similarity import exact_jaccard
from simhash_core.documents import Document, SourcePosition
from simhash_core.text.fingerprinter import Fingerprinter
from simhash_core.text.profiles import index_digest, profile_named
from streams.cli.main import main
from streams.errors import ExitCode
from streams.evaluation.dedup_pass import decide, exact_jaccards, named_by, of_pass
from streams.evaluation.labelled_files import read_documents
from streams.settings.settings import Settings
from tests.unit.cli.dedup_corpus import json_lines
from tests.unit.cli.running import clean_environment, firstseen
from tests.unit.offline.labelled_sample import LabelledSample, labelled_sample


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> LabelledSample:
    return labelled_sample(tmp_path_factory.mktemp("sample"))


@pytest.fixture
def command(sample: LabelledSample) -> list[str]:
    return ["evaluate", "--documents", sample.documents, "--pairs", sample.pairs]


@pytest.fixture
def evaluated(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> Callable[..., dict[str, Any]]:
    """Evaluates the sample with some options, and gives the figures."""

    def evaluate(*options: str) -> dict[str, Any]:
        assert main([*command, "--json", *options]) == ExitCode.OK
        result: dict[str, Any] = json.loads(capsys.readouterr().out)
        return result

    return evaluate


def test_figures_are_of_what_dedup_decides(
    sample: LabelledSample,
    evaluated: Callable[..., dict[str, Any]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """False duplicates are counted by comparing each text with the original that it names."""
    outputs = {name: str(tmp_path / name) for name in ("unique", "duplicates", "dead-letters")}
    flags = [part for name, path in outputs.items() for part in (f"--{name}", path)]
    assert main(["dedup", sample.documents, *flags, "--json"]) == ExitCode.OK
    dedup = json.loads(capsys.readouterr().out)
    lines = Path(sample.documents).read_bytes().splitlines()
    texts = {each["id"]: each["text"] for each in map(json.loads, lines)}
    records = json_lines(Path(outputs["duplicates"]))
    false = [
        exact_jaccard(texts[record["id"]], texts[record["original"]["id"]]) < 0.5
        for record in records
    ]
    quality = evaluated()
    assert quality["documents"] == dedup["documents"] == sample.size
    assert quality["uniques"] == dedup["unique"]
    assert quality["duplicates"] == dedup["duplicates"] == len(records) > 20
    assert quality["false_duplicates"] == pytest.approx(sum(false) / len(false), abs=1e-6)
    assert quality["index"] == dedup["index"]
    assert quality["positives"] == sample.positives


def test_figures_that_users_compare_stand_first(evaluated: Callable[..., dict[str, Any]]) -> None:
    assert list(evaluated())[:10] == [
        *("schema", "documents", "uniques", "recall", "recall_by_jaccard", "caught"),
        *("precision", "f1", "false_duplicates", "documents_per_second"),
    ]


def test_any_setting_of_the_index_is_an_option(evaluated: Callable[..., dict[str, Any]]) -> None:
    options = ["--profile", "classic", "--distance", "0", "--set", "index.min_features=9"]
    wide, strict = evaluated(), evaluated(*options)
    of_strict = msgspec.structs.replace(profile_named("classic"), distance=0, min_features=9)
    assert strict["index"] == index_digest(Fingerprinter(of_strict).identity)
    assert strict["index"] != wide["index"]
    assert strict["recall"] < wide["recall"]


def test_duplicates_are_compared_with_the_originals_they_name() -> None:
    texts = ["雪下得很大今天", "别的什么文字呢", "雪下得很大今天", "雪下得很大明天"]
    passes = [[0, 1, 0, 0], [0, 1, 2, 2]]
    seen: list[int] = []
    named = [each for originals in passes for each in named_by(originals)]
    documents = [
        Document(str(at), text, SourcePosition("f", 0, at), 0) for at, text in enumerate(texts)
    ]
    jaccards = exact_jaccards(documents, named, seen.append)
    assert jaccards == {
        (2, 0): 1.0,
        (3, 0): exact_jaccard(texts[0], texts[3]),
        (3, 2): exact_jaccard(texts[2], texts[3]),
    }
    assert of_pass(jaccards, passes[0]) == {2: 1.0, 3: jaccards[3, 0]}
    assert seen == [1, 2, 3, 4]


def test_decisions_are_told_by_the_numbers_of_documents(tmp_path: Path) -> None:
    """A blank line in the file does not count."""
    path = tmp_path / "d.jsonl"
    path.write_text('{"id":"a","text":"雪"}\n\n{"id":"b","text":"雨"}\n{"id":"c","text":"雪"}\n')
    documents = read_documents(str(path), Settings())
    decided = decide(str(path), Settings(), documents)
    assert list(decided.originals) == [0, 1, 0]
    assert decided.distances == {2: 0}
    assert decided.counts["undecidable"] == 2


def test_every_figure_has_a_line_for_people(
    sample: LabelledSample, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command) == ExitCode.OK
    shown = capsys.readouterr().out
    for name in ("recall", "jaccard 0.9", "caught", "precision", "f1", "false duplicates"):
        assert f"  {name} " in shown
    assert max(map(len, shown.splitlines()[:-1])) <= 100 + len(sample.documents)


def test_unknown_id_is_reported_in_one_line(sample: LabelledSample, tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("id1\tid2\tlabel\nno-such\tneither\t1\n")
    ended = firstseen("evaluate", "--documents", sample.documents, "--pairs", str(pairs))
    assert ended.returncode == ExitCode.RUNTIME
    (line,) = ended.stderr.splitlines()
    assert f"{pairs}, line 2: id1 is 'no-such'" in line


def test_terminal_shows_a_bar_with_the_step(command: list[str]) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "streams.cli.main", *command],
        stderr=theirs,
        stdout=subprocess.DEVNULL,
        env=clean_environment() | {"TERM": "xterm", "COLUMNS": "100"},
    )
    os.close(theirs)
    shown = b""
    try:
        while chunk := os.read(ours, 4096):
            shown += chunk
    except OSError:  # the other end is closed
        pass
    finally:
        os.close(ours)
        assert process.wait(timeout=120) == ExitCode.OK
    assert b"deduplicating" in shown
    assert b"comparing" in shown
