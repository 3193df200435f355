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


def documents(*numbers: int) -> list[dict[str, str]]:
    """Documents of these numbers; the same number is the same text."""
    return [{"id": f"n{number}", "text": f"第{number}号文件 {number * 7919}"} for number in numbers]


def lines(*numbers: int) -> bytes:
    """Documents as lines of JSON."""
    return b"".join(json.dumps(each).encode() + b"\n" for each in documents(*numbers))


def files(folder: str) -> set[str]:
    return {path.name for path in Path(folder).iterdir() if path.is_file()}


def sources(file: str) -> list[str]:
    """The source of each duplicate in an output, and its original's."""
    records = [json.loads(line) for line in Path(file).read_text("utf-8").splitlines()]
    return [
        f"{each['source']['topic']}@{each['source']['offset']} of "
        f"{each['original']['source']['topic']}@{each['original']['source']['offset']}"
        for each in records
    ]


def test_repeats_are_found_across_files_packed_or_not() -> None:
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


def test_rows_of_csv_are_objects_and_a_bad_one_is_a_dead_letter() -> None:
    with Path("t.csv").open("w", encoding="utf-8-sig", newline="") as file:
        csv.writer(file).writerows(
            [
                ("id", "body", "lang"),
                ("1", 'He said "no",\nand left.', "en"),
                ("2", "地铁照常运行，公交车慢一些。", "zh"),
                ("3", "地铁照常运行，公交车慢一些。", "zh"),
            ]
        )
    with Path("t.csv").open("ab") as raw:
        raw.write(b"4,caf\xe9,fr\r\n")

    report = report_of("dedup", "t.csv", "--set", "fields.text=body")

    assert (report["unique"], report["duplicates"]) == (2, 1)
    assert report["dead_letters_by_reason"] == {"not_utf8": 1}
    first = json.loads(Path("t.unique.jsonl").read_text("utf-8").splitlines()[0])
    assert first == {"id": "1", "body": 'He said "no",\nand left.', "lang": "en"}


def test_rows_of_parquet_are_objects_with_all_columns() -> None:
    rows = [each | {"score": number} for number, each in enumerate(documents(1, 2, 1))]
    parquet.write_table(pa.Table.from_pylist(rows), "t.parquet")
    report = report_of("dedup", "t.parquet")
    assert (report["unique"], report["duplicates"]) == (2, 1)
    assert json.loads(Path("t.unique.jsonl").read_text("utf-8").splitlines()[1])["score"] == 1


def test_a_folder_is_read_by_names_and_not_written_to() -> None:
    Path("in/deep").mkdir(parents=True)
    Path("in/a.jsonl").write_bytes(lines(1))
    Path("in/deep/b.csv").write_text("id,text\n9," + documents(1)[0]["text"] + "\n", "utf-8")
    Path("in/deep/c.txt").write_text(documents(1)[0]["text"], "utf-8")
    Path("in/d.md").write_text("# Notes", "utf-8")
    report = report_of("dedup", "in")
    assert (report["unique"], report["duplicates"]) == (2, 2)
    assert sources("in.duplicates.jsonl") == ["deep/b.csv@0 of a.jsonl@0", "in@1 of a.jsonl@0"]
    assert files(".") == {"in.unique.jsonl", "in.duplicates.jsonl", "in.dead-letters.jsonl"}


def test_files_of_one_name_are_told_apart_by_their_paths() -> None:
    for folder in ("mon", "tue"):
        Path(folder).mkdir()
        Path(folder, "news.jsonl").write_bytes(lines(1))
    report_of("dedup", "mon/news.jsonl", "tue/news.jsonl")
    assert sources("documents.duplicates.jsonl") == ["tue/news.jsonl@0 of mon/news.jsonl@0"]


def test_outputs_stay_together_where_one_is_named() -> None:
    Path("theirs").mkdir()
    Path("mine").mkdir()
    Path("theirs/news.jsonl").write_bytes(lines(1))
    report_of("dedup", "theirs/news.jsonl", "--unique", "mine/u.jsonl")
    assert files("theirs") == {"news.jsonl"}
    assert files("mine") == {"u.jsonl", "news.duplicates.jsonl", "news.dead-letters.jsonl"}


def test_any_number_of_jobs_gives_the_same_bytes() -> None:
    values = [record.value for record in generate(11, 1_500) if record.value is not None]
    values = [value for value in values if b"\n" not in value]
    Path("a.jsonl").write_bytes(b"\n".join(values[:900]))
    Path("b.jsonl").write_bytes(b"\n".join(values[900:]))
    found = []
    for jobs in ("1", "3"):
        Path(jobs).mkdir()
        outputs = ("--unique", f"{jobs}/u", "--duplicates", f"{jobs}/d")
        report = report_of(
            *("dedup", "a.jsonl", "b.jsonl", "--jobs", jobs),
            *(*outputs, "--dead-letters", f"{jobs}/x"),
        )
        assert report["duplicates"] > 100
        assert report["dead_letters"] > 10
        found.append([Path(jobs, name).read_bytes() for name in "udx"])

    assert found[0] == found[1]


def test_a_run_continues_in_its_second_file(monkeypatch: pytest.MonkeyPatch) -> None:
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
