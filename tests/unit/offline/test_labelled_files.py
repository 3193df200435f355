"""The files of an evaluation: what is read of them, and what is wrong with them, by line."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from simhash_core.errors import UsageError
from streams.evaluation.figures import LabelledPair
from streams.evaluation.labelled_files import LabelledFileError, read_documents, read_pairs
from streams.settings.settings import Settings

DOCUMENTS = (
    '{"id": "a", "text": "one", "group": "g"}\n'
    "\n"
    '{"id": 7, "text": "two", "group": 3}\n'
    '{"id": "c", "text": "", "title": "T"}\n'
)
PAIRS = "label\tid1\tnote\tid2\tjaccard\n1\t7\tx\ta\t0.75\n\n-1\ta\t\tc\t\n0\t7\tx\tc\t0\n"


def written(directory: Path, name: str, content: str) -> str:
    path = directory / name
    path.write_bytes(gzip.compress(content.encode()) if name.endswith(".gz") else content.encode())
    return str(path)


def test_documents_are_numbered_in_their_order(tmp_path: Path) -> None:
    documents = read_documents(written(tmp_path, "d.jsonl.gz", DOCUMENTS), Settings())
    assert documents.ids == ["a", "7", "c"]
    assert documents.groups == ["g", "3", None]
    assert documents.by_line == {0: 0, 2: 1, 3: 2}


def test_pairs_are_read_by_the_names_in_the_header_the_earlier_document_first(
    tmp_path: Path,
) -> None:
    documents = read_documents(written(tmp_path, "d.jsonl", DOCUMENTS), Settings())
    pairs = read_pairs(written(tmp_path, "p.tsv.gz", PAIRS), documents)
    assert pairs == [
        LabelledPair(0, 1, 1, 0.75),
        LabelledPair(0, 2, -1, None),
        LabelledPair(1, 2, 0, 0.0),
    ]


def test_pair_in_both_directions_counts_once(tmp_path: Path) -> None:
    documents = read_documents(written(tmp_path, "d.jsonl", DOCUMENTS), Settings())
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
def test_invalid_pairs_are_named_by_line(tmp_path: Path, content: str, message: str) -> None:
    documents = read_documents(written(tmp_path, "d.jsonl", DOCUMENTS), Settings())
    with pytest.raises(LabelledFileError, match=message):
        read_pairs(written(tmp_path, "p.tsv", content), documents)


def test_standard_input_and_absent_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--documents"):
        read_documents("-", Settings())
    with pytest.raises(UsageError, match="absent"):
        read_documents(str(tmp_path / "absent"), Settings())
