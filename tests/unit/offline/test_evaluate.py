"""``firstseen evaluate`` runs the real deduplicator on labelled files and computes figures."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from simhash_core.analysis.exact_similarity import exact_jaccard
from simhash_core.documents import Document, SourcePosition
from simhash_core.errors import UsageError
from simhash_core.text.fingerprinter import Fingerprinter
from simhash_core.text.profiles import index_digest, profile_named
from streams.cli.main import main
from streams.errors import ExitCode
from streams.evaluation import figures
from streams.evaluation.dedup_pass import decide, exact_jaccards, named_by, of_pass
from streams.evaluation.figures import LabelledPair, Precision
from streams.evaluation.labelled_files import (
    LabelledDocuments,
    LabelledFileError,
    read_documents,
    read_pairs,
)
from streams.settings.settings import Settings
from tests.unit.cli.dedup_corpus import json_lines
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
    """Return a function that evaluates the sample with options and returns the figures."""

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
    """False duplicates are found by comparing each text with the original that it names."""
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
    assert list(quality)[:10] == [
        *("schema", "documents", "uniques", "recall", "recall_by_jaccard", "caught"),
        *("precision", "f1", "false_duplicates", "documents_per_second"),
    ]
    assert quality["positives"] == sample.positives


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
    lines = '{"id":"a","text":"雪"}\n\n{"id":"b","text":"雨"}\n{"id":"c","text":"雪"}\n'
    path = written(tmp_path, "d.jsonl", lines)
    decided = decide(path, Settings(), read_documents(path, Settings()))
    assert list(decided.originals) == [0, 1, 0]
    assert decided.distances == {2: 0}
    assert decided.counts["undecidable"] == 2


def test_every_figure_has_a_line_for_people_and_a_terminal_shows_the_step(
    sample: LabelledSample,
    command: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal
    assert main(command) == ExitCode.OK
    shown = capsys.readouterr()
    for name in ("recall", "jaccard 0.9", "caught", "precision", "f1", "false duplicates"):
        assert f"  {name} " in shown.out
    assert max(map(len, shown.out.splitlines()[:-1])) <= 100 + len(sample.documents)
    assert "comparing with originals" in shown.err
    assert "100%" in shown.err


# Seven documents in the order of their file. 1 and 2 repeat 0, 4 repeats 3, 6 repeats 5:
# clusters {0, 1, 2}, {3, 4}, {5, 6}.
ORIGINALS = [0, 0, 0, 3, 3, 5, 5]
GROUPS = ["a", "a", "b", "c", "c", "d", "e"]
PAIRS = [
    LabelledPair(0, 1, 1, 0.95),  # joined
    LabelledPair(1, 2, 1, 0.55),  # joined, though 2 was never compared with 1
    LabelledPair(3, 4, 1, 1.0),  # joined
    LabelledPair(2, 3, 1, 0.5),  # missed, and 3 is unique: not caught either
    LabelledPair(1, 4, 1, 0.8),  # missed, but 4 is a duplicate: caught
    LabelledPair(5, 6, -1, 0.4),  # joined, but not scored
    LabelledPair(0, 3, 0, 0.1),  # rightly apart
]


def test_recall_and_caught() -> None:
    for first, second, wanted in ((1, 2, True), (0, 2, True), (2, 3, False)):
        assert figures.joined(ORIGINALS, LabelledPair(first, second, 1)) is wanted
    assert figures.uniques(ORIGINALS) == 3
    assert figures.recall(ORIGINALS, PAIRS) == pytest.approx(3 / 5)
    assert figures.caught(ORIGINALS, PAIRS) == pytest.approx(4 / 5)
    more = [*PAIRS, LabelledPair(0, 5, 1, None), LabelledPair(0, 5, 1, 0.49)]
    bands = {"0.5": 0.5, "0.6": None, "0.7": None, "0.8": 0.0, "0.9": 1.0}
    assert figures.recall_by_jaccard(ORIGINALS, more) == bands


@pytest.mark.parametrize(
    ("groups", "more", "right", "judged"),
    [
        # By group 01 and 34 are right, 02 and 12 wrong; 56 is not scored.
        (GROUPS, [], 2, 4),
        (GROUPS, [LabelledPair(3, 4, -1)], 1, 3),
        # By label 01, 12 and 34 are right; a joined negative is wrong.
        ([None] * 7, [], 3, 3),
        ([None] * 7, [LabelledPair(0, 2, 0)], 3, 4),
        # By group 01 is right, 02 and 12 wrong; by label 34 is right.
        (["a", "a", "b", None, None, None, None], [], 2, 4),
    ],
)
def test_precision_goes_by_group_or_else_by_label(
    groups: list[str | None], more: list[LabelledPair], right: int, judged: int
) -> None:
    counts = figures.precision_counts(ORIGINALS, groups, [*PAIRS, *more])
    assert counts == Precision(right, judged)


def test_nothing_to_measure_is_not_zero() -> None:
    assert figures.f1(0.6, 0.5) == pytest.approx(6 / 11)
    assert figures.f1(0.0, 0.0) == 0
    assert figures.false_duplicates({1: 0.9, 2: 0.49, 4: 0.5, 6: 1.0}) == 0.25
    nothing = [
        *(figures.f1(None, 0.5), figures.f1(0.5, None), figures.false_duplicates({})),
        *(figures.recall([0, 1], []), figures.caught([0, 1], [])),
    ]
    assert nothing == [None] * 5
    assert figures.precision_counts([0, 1], ["a", "b"], []) == Precision(0, 0)


DOCUMENTS = (
    '{"id": "a", "text": "one", "group": "g"}\n'
    "\n"
    '{"id": 7, "text": "two", "group": 3}\n'
    '{"id": "c", "text": "", "title": "T"}\n'
)
PAIR_LINES = "label\tid1\tnote\tid2\tjaccard\n1\t7\tx\ta\t0.75\n\n-1\ta\t\tc\t\n0\t7\tx\tc\t0\n"


def written(directory: Path, name: str, content: str) -> str:
    path = directory / name
    path.write_bytes(gzip.compress(content.encode()) if name.endswith(".gz") else content.encode())
    return str(path)


@pytest.fixture
def documents(tmp_path: Path) -> LabelledDocuments:
    return read_documents(written(tmp_path, "d.jsonl.gz", DOCUMENTS), Settings())


def test_pairs_are_read_by_header_with_the_earlier_document_first(
    tmp_path: Path, documents: LabelledDocuments
) -> None:
    assert documents.ids == ["a", "7", "c"]
    assert documents.groups == ["g", "3", None]
    assert documents.by_line == {0: 0, 2: 1, 3: 2}
    assert read_pairs(written(tmp_path, "p.tsv.gz", PAIR_LINES), documents) == [
        LabelledPair(0, 1, 1, 0.75),
        LabelledPair(0, 2, -1, None),
        LabelledPair(1, 2, 0, 0.0),
    ]
    twice = written(tmp_path, "p", "id1\tid2\tlabel\na\t7\t1\n7\ta\t1\n")
    assert read_pairs(twice, documents) == [LabelledPair(0, 1, 1)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", r"d\.jsonl"),
        ('{"id": "a", "text": "x"}\n{', "d.jsonl, line 2: "),
        ('\n{"id": "a"}', 'line 2: .*"text"'),
        ('{"text": "x"}', 'line 1: .*"id"'),
        ('{"id":"a","text":""}\n{"id":"a","text":""}', "line 2: .*'a'.* line 1"),
        ('{"id":"a","text":"","group":[]}', 'line 1: .*"group"'),
        ('{"id":"a","text":"' + "x" * (1 << 20) + '"}', "line 1: .*max_record_bytes"),
    ],
)
def test_invalid_documents_are_named_by_line(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(LabelledFileError, match=message):
        read_documents(written(tmp_path, "d.jsonl", content), Settings())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", r"p\.tsv .*id1, id2, label"),
        ("id1\tid2\tlabel\n", r"p\.tsv .*header"),
        ("a\t7\t1\n", "line 1: .*id1.*id2.*label"),
        ("id1,id2,label\n", "tabs"),
        ("id1\tid2\tlabel\na\t7\n", "line 2: .*2 .*3"),
        ("id1\tid2\tlabel\na\tz\t1\n", "line 2: id2 is 'z'"),
        ("id1\tid2\tlabel\na\ta\t1\n", "line 2: .*'a'"),
        ("id1\tid2\tlabel\na\t7\tyes\n", "line 2: .*'yes'"),
        ("id1\tid2\tlabel\na\t7\t1\n7\ta\t0\n", "line 3: .* 0, .*line 2 .* 1"),
        ("id1\tid2\tlabel\tjaccard\na\t7\t1\t1.5\n", "line 2: .*'1.5'"),
        ("id1\tid2\tlabel\tjaccard\na\t7\t1\tnan\n", "line 2: .*'nan'"),
    ],
)
def test_invalid_pairs_are_named_by_line(
    tmp_path: Path, documents: LabelledDocuments, content: str, message: str
) -> None:
    with pytest.raises(LabelledFileError, match=message):
        read_pairs(written(tmp_path, "p.tsv", content), documents)


def test_standard_input_and_absent_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--documents"):
        read_documents("-", Settings())
    with pytest.raises(UsageError, match="absent"):
        read_documents(str(tmp_path / "absent"), Settings())
