"""The figures of an evaluation, worked out by hand, and the files that it reads."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from simhash_core.errors import UsageError
from streams.evaluation import figures
from streams.evaluation.figures import LabelledPair, Precision
from streams.evaluation.labelled_files import (
    LabelledDocuments,
    LabelledFileError,
    read_documents,
    read_pairs,
)
from streams.settings.settings import Settings

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
    LabelledPair(5, 6, -1, 0.4),  # joined, and not to be scored
    LabelledPair(0, 3, 0, 0.1),  # rightly apart
]


def test_documents_of_one_original_are_joined() -> None:
    assert figures.joined(ORIGINALS, LabelledPair(1, 2, 1))
    assert figures.joined(ORIGINALS, LabelledPair(0, 2, 1))
    assert not figures.joined(ORIGINALS, LabelledPair(2, 3, 1))
    assert figures.uniques(ORIGINALS) == 3


def test_recall_and_caught() -> None:
    assert figures.recall(ORIGINALS, PAIRS) == pytest.approx(3 / 5)
    assert figures.caught(ORIGINALS, PAIRS) == pytest.approx(4 / 5)


def test_recall_by_jaccard() -> None:
    more = [*PAIRS, LabelledPair(0, 5, 1, None), LabelledPair(0, 5, 1, 0.49)]
    bands = {"0.5": 0.5, "0.6": None, "0.7": None, "0.8": 0.0, "0.9": 1.0}
    assert figures.recall_by_jaccard(ORIGINALS, more) == bands


@pytest.mark.parametrize(
    ("groups", "more", "right", "judged"),
    [
        # By group 01 and 34 are right, 02 and 12 wrong; 56 is not to be scored.
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


def test_f1_needs_recall_and_precision() -> None:
    assert figures.f1(0.6, 0.5) == pytest.approx(6 / 11)
    assert figures.f1(0.0, 0.0) == 0
    assert figures.f1(None, 0.5) is None
    assert figures.f1(0.5, None) is None


def test_false_duplicates_are_below_half() -> None:
    assert figures.false_duplicates({1: 0.9, 2: 0.49, 4: 0.5, 6: 1.0}) == 0.25
    assert figures.false_duplicates({}) is None


def test_nothing_to_measure_is_not_zero() -> None:
    assert figures.recall([0, 1], []) is None
    assert figures.caught([0, 1], []) is None
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


def test_documents_are_numbered_in_their_order(documents: LabelledDocuments) -> None:
    assert documents.ids == ["a", "7", "c"]
    assert documents.groups == ["g", "3", None]
    assert documents.by_line == {0: 0, 2: 1, 3: 2}


def test_pairs_are_read_by_header_with_the_earlier_document_first(
    tmp_path: Path, documents: LabelledDocuments
) -> None:
    pairs = read_pairs(written(tmp_path, "p.tsv.gz", PAIR_LINES), documents)
    assert pairs == [
        LabelledPair(0, 1, 1, 0.75),
        LabelledPair(0, 2, -1, None),
        LabelledPair(1, 2, 0, 0.0),
    ]


def test_pair_in_both_directions_counts_once(tmp_path: Path, documents: LabelledDocuments) -> None:
    pairs = read_pairs(written(tmp_path, "p", "id1\tid2\tlabel\na\t7\t1\n7\ta\t1\n"), documents)
    assert pairs == [LabelledPair(0, 1, 1)]


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
