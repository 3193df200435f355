"""What ``firstseen dedup`` reads: several files, folders, packed files, tables; on all cores."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path

import pyarrow as pa
import pytest
import zstandard
from pyarrow import parquet

from streams.corpus.corpus import generate
from streams.errors import ExitCode
from tests.unit.cli.running import message_of, report_of

pytestmark = pytest.mark.usefixtures("empty_directory")

NEWS = "市气象台今天上午发布暴雨黄色预警信号，预计未来六小时内，东部和南部山区将出现短时强降水。"
TEXTS = [f"{NEWS}这是第{number}条消息，与其他消息的内容并不相同。" * 2 for number in range(3)]


def documents(*numbers: int) -> list[dict[str, str]]:
    """Return documents of these numbers; the same number is the same text."""
    return [{"id": f"n{number}", "text": f"第{number}号文件 {number * 7919}"} for number in numbers]


def lines(*numbers: int) -> bytes:
    """Return documents as lines of JSON."""
    return b"".join(json.dumps(each).encode() + b"\n" for each in documents(*numbers))


def refusal(*arguments: str) -> str:
    """Run the command, which must refuse to begin, and return what it says."""
    before = set(Path().rglob("*"))
    message = message_of(ExitCode.USAGE, "dedup", *arguments)
    assert set(Path().rglob("*")) == before, "something was written"
    return message


def sources(file: str) -> list[str]:
    """Return the source of each duplicate in an output, and its original's."""
    records = [json.loads(line) for line in Path(file).read_text("utf-8").splitlines()]
    return [
        f"{each['source']['topic']}@{each['source']['offset']} of "
        f"{each['original']['source']['topic']}@{each['original']['source']['offset']}"
        for each in records
    ]


def test_several_files_packed_or_not() -> None:
    """Given a plain file, a gzip and a Zstandard file of several frames, then they are read in
    their order, repeats are found across them, and positions name the file.
    """
    Path("a.jsonl").write_bytes(lines(1, 2))
    Path("b.jsonl.gz").write_bytes(gzip.compress(lines(2, 3)))
    frames = [zstandard.ZstdCompressor().compress(lines(number)) for number in (4, 1)]
    Path("c.jsonl.zst").write_bytes(b"".join(frames))

    report = report_of("dedup", "a.jsonl", "b.jsonl.gz", "c.jsonl.zst")

    assert (report["documents"], report["unique"], report["duplicates"]) == (6, 4, 2)
    assert Path("documents.unique.jsonl").read_bytes() == lines(1, 2, 3, 4)
    assert sources("documents.duplicates.jsonl") == [
        "b.jsonl.gz@0 of a.jsonl@1",
        "c.jsonl.zst@1 of a.jsonl@0",
    ]


def test_csv_with_a_header() -> None:
    """Given rows with quotes, line breaks and a byte that is not UTF-8, then each is an object of
    the columns, and the bad row is a dead letter.
    """
    with Path("t.csv").open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.writer(file)
        writer.writerows([("id", "body", "lang"), ("1", 'He said "no",\nand left.', "en")])
        writer.writerows([("2", TEXTS[1], "zh"), ("3", TEXTS[1], "zh")])
    with Path("t.csv").open("ab") as raw:
        raw.write(b"4,caf\xe9,fr\r\n")

    report = report_of("dedup", "t.csv", "--set", "fields.text=body")

    assert (report["unique"], report["duplicates"]) == (2, 1)
    assert report["dead_letters_by_reason"] == {"not_utf8": 1}
    first = json.loads(Path("t.unique.jsonl").read_text("utf-8").splitlines()[0])
    assert first == {"id": "1", "body": 'He said "no",\nand left.', "lang": "en"}


def test_parquet() -> None:
    """Given a Parquet file, then its rows are objects, other columns included."""
    rows = [each | {"score": number} for number, each in enumerate(documents(1, 2, 1))]
    parquet.write_table(pa.Table.from_pylist(rows), "t.parquet")

    report = report_of("dedup", "t.parquet")

    assert (report["unique"], report["duplicates"]) == (2, 1)
    assert json.loads(Path("t.unique.jsonl").read_text("utf-8").splitlines()[1])["score"] == 1


def test_a_folder() -> None:
    """Given a folder of tables, lines and texts, then all are read by their names; outputs are in
    the current folder and not in it.
    """
    Path("in/deep").mkdir(parents=True)
    Path("in/a.jsonl").write_bytes(lines(1))
    Path("in/deep/b.csv").write_text("id,text\n9," + documents(1)[0]["text"] + "\n", "utf-8")
    Path("in/deep/c.txt").write_text(documents(1)[0]["text"], "utf-8")
    Path("in/d.md").write_text("# Notes", "utf-8")

    report = report_of("dedup", "in")

    assert (report["unique"], report["duplicates"]) == (2, 2)
    assert sources("in.duplicates.jsonl") == ["deep/b.csv@0 of a.jsonl@0", "in@1 of a.jsonl@0"]
    assert {path.name for path in Path().iterdir() if path.is_file()} == {
        *("in.unique.jsonl", "in.duplicates.jsonl", "in.dead-letters.jsonl")
    }


def test_files_of_one_name_are_told_apart() -> None:
    """Given two files of the same name, then positions have their paths."""
    for folder in ("mon", "tue"):
        Path(folder).mkdir()
        Path(folder, "news.jsonl").write_bytes(lines(1))

    report_of("dedup", "mon/news.jsonl", "tue/news.jsonl")

    assert sources("documents.duplicates.jsonl") == ["tue/news.jsonl@0 of mon/news.jsonl@0"]


def test_outputs_stay_together() -> None:
    """Given an output elsewhere, then nothing is written beside the input."""
    Path("theirs").mkdir()
    Path("mine").mkdir()
    Path("theirs/news.jsonl").write_bytes(lines(1))

    report_of("dedup", "theirs/news.jsonl", "--unique", "mine/u.jsonl")

    assert [path.name for path in Path("theirs").iterdir()] == ["news.jsonl"]
    assert {path.name for path in Path("mine").iterdir()} == {
        *("u.jsonl", "news.duplicates.jsonl", "news.dead-letters.jsonl")
    }


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("t.csv", b"id,body\n1,x\n", "'body'"),
        ("n.jsonl", b'{"body": "x"}\n' * 3, "missing_text"),
        ("n.jsonl", b"plain text\n", "fields.format=text"),
        ("n.jsonl", gzip.compress(b"{}", mtime=0), ".gz"),
        ("n.jsonl.gz", b"{}\n", "n.jsonl.gz"),
        ("n.zip", b"PK\x03\x04", "ZIP"),
        ("n.parquet", b"PAR1", "n.parquet"),
    ],
)
def test_what_cannot_be_read_is_said_at_the_start(name: str, content: bytes, says: str) -> None:
    """Given a file of another format, or without the field of the text, behind a good one; then
    the command refuses before anything is written.
    """
    Path(name).write_bytes(content)
    assert says in refusal(name)


def test_a_file_that_was_cut_off_is_no_whole_file() -> None:
    """Given a Zstandard file whose end is missing, then the command fails, and says where."""
    packed = zstandard.ZstdCompressor().compress(lines(*range(200)))
    Path("a.jsonl.zst").write_bytes(packed[:-20])

    assert "a.jsonl.zst" in message_of(ExitCode.USAGE, "dedup", "a.jsonl.zst")


def test_any_number_of_jobs_gives_the_same_bytes() -> None:
    """Given generated documents in two files, broken ones among them; when one process makes the
    fingerprints, and when three do; then all outputs are the same, byte for byte.
    """
    values = [record.value for record in generate(11, 1_500) if record.value is not None]
    values = [value for value in values if b"\n" not in value]
    Path("a.jsonl").write_bytes(b"\n".join(values[:900]))
    Path("b.jsonl").write_bytes(b"\n".join(values[900:]))
    found = []
    for jobs in ("1", "3"):
        Path(jobs).mkdir()
        names = (f"{jobs}/u", f"{jobs}/d", f"{jobs}/x")
        flags = ("--unique", "--duplicates", "--dead-letters")
        options = [part for pair in zip(flags, names, strict=True) for part in pair]
        report = report_of("dedup", "a.jsonl", "b.jsonl", "--jobs", jobs, *options)
        assert report["duplicates"] > 100
        assert report["dead_letters"] > 10
        found.append([Path(name).read_bytes() for name in names])

    assert found[0] == found[1]


def test_a_run_over_several_files_continues(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Given a state, and a second file that is damaged; when the file is put back and the command
    repeated; then it continues in that file, and the outputs are those of one run.
    """
    Path("a.jsonl").write_bytes(lines(1, 2))
    good = gzip.compress(lines(2, *range(3, 900)), mtime=0)
    Path("b.jsonl.gz").write_bytes(good[: len(good) // 2])
    monkeypatch.setenv("FIRSTSEEN_BATCH__DOCUMENTS", "50")

    command = ("dedup", "a.jsonl", "b.jsonl.gz", "--state", "s")
    assert "b.jsonl.gz" in message_of(ExitCode.RUNTIME, *command)
    Path("b.jsonl.gz").write_bytes(good)
    report = report_of(*command)

    assert report["resumed_after_line"] > 2
    assert (report["lines"], report["unique"], report["duplicates"]) == (900, 899, 1)
    assert Path("documents.unique.jsonl").read_bytes() == lines(1, 2, *range(3, 900))
    assert sources("documents.duplicates.jsonl") == ["b.jsonl.gz#1@0 of a.jsonl#1@1"]
