"""`firstseen dedup` without a state: every line is in one output, for all kinds of input."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import sys
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest
import zstandard
from jsonschema import Draft202012Validator
from pyarrow import parquet

from simhash_core.text.fingerprinter import Fingerprinter
from simhash_core.text.profiles import profile_named
from streams import schemas
from streams.cli.main import main
from streams.errors import ExitCode
from tests.rigs.invariants import Nearness, check_grounding, check_separation
from tests.unit.cli.dedup_corpus import (
    OTHER,
    TEXT,
    corpus_lines,
    json_lines,
    known_documents,
    read_output,
    repeats_in,
)
from tests.unit.cli.running import firstseen, message_of, report_of

pytestmark = pytest.mark.usefixtures("empty_directory")


@pytest.fixture(scope="module")
def lines() -> list[bytes]:
    found = corpus_lines(seed=11, documents=900)
    found[100:100] = [b"", b" \t ", b"\r"]  # blank
    found[200:200] = [found[5] + b"\r", b"\xef\xbb\xbf" + found[7]]  # as in files of other systems
    return found


@pytest.fixture(scope="module")
def source_file(lines: list[bytes], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("corpus") / "stream.jsonl"
    path.write_bytes(b"\n".join(lines))
    return path


OUTPUTS: Final = ("--unique", "u", "--duplicates", "d", "--dead-letters", "x")


def files(folder: str = ".") -> list[str]:
    return sorted(path.name for path in Path(folder).iterdir() if path.is_file())


def as_line(document_id: str, text: str) -> bytes:
    return json.dumps({"id": document_id, "text": text}).encode() + b"\n"


def dedup(*arguments: str) -> None:
    assert main(["dedup", *arguments]) == ExitCode.OK


@pytest.mark.parametrize("profile", ["classic", "wide"])
def test_outputs_satisfy_the_invariants_of_the_stream(
    profile: str, source_file: Path, lines: list[bytes]
) -> None:
    dedup(str(source_file), "--profile", profile, *OUTPUTS)
    fingerprinter = Fingerprinter(profile_named(profile))
    near = Nearness.of(fingerprinter)
    known, repeats = known_documents(lines, fingerprinter), repeats_in(json_lines(Path("d")))
    repeated = {each.source for each in repeats}
    uniques = {source: each for source, each in known.items() if source not in repeated}
    check_separation(uniques, near)
    check_grounding(known, uniques, repeats, near)
    assert all(int(each.original) < int(each.source) for each in repeats)
    dead = {str(record["source"]["offset"]) for record in json_lines(Path("x"))}
    blank = {str(number) for number, line in enumerate(lines) if not line.strip()}
    assert (len(uniques) > 300, len(repeats) > 150, len(dead) > 10) == (True, True, True)
    assert Path("u").read_bytes() == b"".join(lines[int(number)] + b"\n" for number in uniques)
    assert dead == {str(number) for number in range(len(lines))} - known.keys() - blank


def test_records_keep_to_their_schemas_and_hold_the_line(source_file: Path) -> None:
    dedup(str(source_file), *OUTPUTS, "--set", "include_body=true")
    duplicate, unreadable = (
        Draft202012Validator(schemas.load(name))
        for name in ("duplicate-of.v2", "unreadable-line.v1")
    )
    lines = source_file.read_bytes().split(b"\n")
    dead = json_lines(Path("x"))
    for record in json_lines(Path("d")):
        duplicate.validate(record)
        assert record["body"].encode() == lines[record["source"]["offset"]]
    for record in dead:
        unreadable.validate(record)
        assert record["line"] == record["source"]["offset"] + 1
    assert {record["reason"] for record in dead} >= {"not_json", "missing_text", "not_utf8"}
    readable = next(record for record in dead if isinstance(record["value"], str))
    assert readable["value"].encode() == lines[readable["line"] - 1]


def test_default_outputs_are_beside_the_file(tmp_path: Path) -> None:
    file = tmp_path / "in" / "news.jsonl.gz"
    file.parent.mkdir()
    file.write_bytes(gzip.compress(as_line("1", TEXT) + as_line("2", TEXT) + b"{\n"))
    dedup("in/news.jsonl.gz")
    names = {path.name for path in file.parent.iterdir()} - {file.name}
    assert names == {"news.unique.jsonl", "news.duplicates.jsonl", "news.dead-letters.jsonl"}
    output = read_output(file.parent, "news")
    assert output.unique == as_line("1", TEXT)
    source = {"topic": "news.jsonl.gz", "partition": 0, "offset": 1}
    assert output.duplicates[0]["source"] == source
    assert output.dead_letters[0]["value"] == "{"


def test_packing_and_any_number_of_jobs_change_no_byte(source_file: Path) -> None:
    for jobs, form in (("1", "1{}"), ("1", "1{}.gz"), ("3", "3{}.gz")):
        outputs = [form.format(each) if each in "udx" else each for each in OUTPUTS]
        dedup(str(source_file), "--jobs", jobs, *outputs, "--set", "batch.documents=100")
    for name in "udx":
        packed = Path(f"1{name}.gz").read_bytes()
        assert gzip.decompress(packed) == Path(f"1{name}").read_bytes() != b""
        assert packed == Path(f"3{name}.gz").read_bytes()


def test_standard_output_has_nothing_but_the_uniques(
    monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    lines = as_line("1", TEXT) + as_line("2", TEXT) + as_line("3", OTHER)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines)))
    dedup("-", "--unique", "-")
    captured = capsysbinary.readouterr()
    assert captured.out == as_line("1", TEXT) + as_line("3", OTHER)
    assert b"3 documents" in captured.err
    assert json_lines(Path("stdin.duplicates.jsonl"))[0]["original"]["id"] == "1"


def test_the_counts_of_the_summary_are_those_of_the_files(
    source_file: Path, lines: list[bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    dedup(str(source_file), *OUTPUTS)
    text = capsys.readouterr().out
    dedup(str(source_file), *OUTPUTS, "--force", "--json")
    report = json.loads(capsys.readouterr().out)

    duplicates, dead = json_lines(Path("d")), json_lines(Path("x"))
    assert report["lines"] == len(lines)
    assert report["documents"] == report["unique"] + report["duplicates"]
    assert report["lines"] == report["documents"] + report["dead_letters"] + report["blank_lines"]
    assert report["unique"] == Path("u").read_bytes().count(b"\n") == report["index_documents"]
    assert report["duplicates"] == len(duplicates)
    assert report["exact_duplicates"] == sum(r["method"] == "exact" for r in duplicates)
    assert report["near_duplicates"] == sum(r["method"] == "near" for r in duplicates)
    assert report["dead_letters"] == len(dead) == sum(report["dead_letters_by_reason"].values())
    assert report["blank_lines"] == 3
    assert 0 < report["undecidable"] < report["unique"]
    assert report["documents_per_second"] > 0
    assert report["outputs"]["unique"] == str(Path("u").resolve())
    assert (report["state"], report["run"], report["resumed_after_line"]) == (None, None, None)
    for figure in ("documents", "unique", "duplicates", "dead_letters"):
        assert f"{report[figure]:,}" in text


def test_an_empty_file_has_three_empty_outputs() -> None:
    Path("empty.jsonl").touch()
    Path("empty.duplicates.jsonl").write_text("old")
    assert report_of("dedup", "empty.jsonl", "--force")["lines"] == 0
    assert read_output(Path(), "empty") == (b"", [], [])


def test_a_device_is_not_renamed_over() -> None:
    Path("f.jsonl").write_bytes(as_line("1", TEXT))
    dedup("f.jsonl", "--duplicates", "/dev/null", "--dead-letters", "/dev/null")
    assert Path("/dev/null").is_char_device()
    assert files() == ["f.jsonl", "f.unique.jsonl"]


def test_an_output_may_be_a_pipe() -> None:
    """As of a shell: ``--unique >(zstd > unique.zst)`` or ``--unique /dev/stdout | zstd``."""
    Path("f.jsonl").write_bytes(line := as_line("1", TEXT))
    reading, writing = os.pipe()
    dedup("f.jsonl", "--unique", f"/dev/fd/{writing}", *OUTPUTS[2:])
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        assert pipe.read() == line
    run = firstseen("dedup", "f.jsonl", "--unique", "/dev/stdout", *OUTPUTS[2:], "--force")
    assert (run.returncode, run.stdout.encode()) == (ExitCode.OK, line)
    assert files() == ["d", "f.jsonl", "x"]


def test_the_file_of_standard_input_is_no_output() -> None:
    Path("f.jsonl").write_bytes(line := as_line("1", TEXT))
    before = os.dup(0)
    with Path("f.jsonl").open("rb") as file:
        os.dup2(file.fileno(), 0)
    command = ("dedup", "-", "--unique", "f.jsonl", "--force", "--state", "s")
    try:
        assert "f.jsonl is an input itself" in message_of(ExitCode.USAGE, *command)
    finally:
        os.dup2(before, 0)
        os.close(before)
    assert Path("f.jsonl").read_bytes() == line


@pytest.mark.parametrize(("length", "fits"), [(1024, True), (1025, False), (1026, False)])
@pytest.mark.parametrize("is_last", [True, False])
def test_only_a_line_above_the_limit_is_a_dead_letter(
    length: int, fits: bool, is_last: bool
) -> None:
    """The dead letter has no value; the line does not affect other lines."""
    other = as_line("2", OTHER)
    line = as_line("1", "x" * (length - len(as_line("1", "")) + 1))
    Path("f.jsonl").write_bytes(other + line[:-1] if is_last else line + other)

    dedup("f.jsonl", "--set", "max_record_bytes=1024")

    unique, _, dead = read_output(Path(), "f")
    assert unique == (other if not fits else other + line if is_last else line + other)
    assert [(each["reason"], each["value"]) for each in dead] == [("too_large", None)] * (not fits)
    assert all(str(length) in each["detail"] for each in dead)


def test_the_fields_and_the_format_are_settings() -> None:
    Path("plain.txt").write_text(f"{TEXT}\n{OTHER}\n{TEXT}\n", "utf-8")
    Path("body.jsonl").write_bytes(b'{"url": 7, "doc": {"body": "' + TEXT.encode() + b'"}}\n')
    dedup("plain.txt", "--set", "fields.format=text")
    dedup("body.jsonl", "--set", "fields.text=doc.body", "--set", "fields.id=url")
    plain = read_output(Path(), "plain.txt")
    assert plain.unique == f"{TEXT}\n{OTHER}\n".encode()
    assert plain.duplicates[0]["original"]["id"] == "plain.txt/0@0"
    assert read_output(Path(), "body").unique.count(b"\n") == 1


# ---- Several files, folders, packed files and tables; all cores.


def text_of(number: int) -> str:
    return f"第{number}号文件 {number * 7919}"


def numbered(*numbers: int) -> bytes:
    return b"".join(as_line(f"n{number}", text_of(number)) for number in numbers)


def sources(file: str) -> list[str]:
    """Return the source of each duplicate in an output, and that of its original."""
    return [
        f"{each['source']['topic']}@{each['source']['offset']} of "
        f"{each['original']['source']['topic']}@{each['original']['source']['offset']}"
        for each in json_lines(Path(file))
    ]


def test_repeats_are_found_across_files_packed_or_not() -> None:
    Path("a.jsonl").write_bytes(numbered(1, 2))
    Path("b.jsonl.gz").write_bytes(gzip.compress(numbered(2, 3)))
    frames = [zstandard.ZstdCompressor().compress(numbered(number)) for number in (4, 1)]
    Path("c.jsonl.zst").write_bytes(b"".join(frames))
    report = report_of("dedup", "a.jsonl", "b.jsonl.gz", "c.jsonl.zst")
    assert (report["documents"], report["unique"], report["duplicates"]) == (6, 4, 2)
    assert Path("documents.unique.jsonl").read_bytes() == numbered(1, 2, 3, 4)
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
                ("long", "x" * 200_000, ""),  # longer than the standard library's default limit
            ]
        )
    with Path("t.csv").open("ab") as raw:
        raw.write(b"4,caf\xe9,fr\r\n")

    report = report_of("dedup", "t.csv", "--set", "fields.text=body")

    assert (report["unique"], report["duplicates"]) == (3, 1)
    assert report["dead_letters_by_reason"] == {"not_utf8": 1}
    first = json.loads(Path("t.unique.jsonl").read_text("utf-8").splitlines()[0])
    assert first == {"id": "1", "body": 'He said "no",\nand left.', "lang": "en"}


def test_an_empty_cell_of_csv_is_no_time() -> None:
    Path("t.csv").write_text("id,text,timestamp\n1,one,2026-01-01T00:00:00Z\n2,two,\n3,three\n")
    assert report_of("dedup", "t.csv")["unique"] == 3
    times = [each["timestamp"] for each in json_lines(Path("t.unique.jsonl"))]
    assert times == ["2026-01-01T00:00:00Z", None, None]


def test_a_long_row_of_csv_is_a_dead_letter_and_an_open_quote_is_an_error() -> None:
    long = "x" * (3 << 20)
    Path("t.csv").write_text(f'id,text\n1,"{long},\n{long}"\n2,{long}\n3,short\n4,"a\nb"', "utf-8")
    report = report_of("dedup", "t.csv")
    assert (report["unique"], report["dead_letters_by_reason"]) == (2, {"too_large": 2})
    assert [each["text"] for each in json_lines(Path("t.unique.jsonl"))] == ["short", "a\nb"]

    Path("q.csv").write_text('id,text\n1,one\n2,"two\n3,three\n4,four\n', "utf-8")
    message = message_of(ExitCode.RUNTIME, "dedup", "q.csv")
    assert [part for part in ("q.csv", "never closed", "line 2") if part not in message] == []
    assert not Path("q.unique.jsonl").exists()
    Path("q.csv").write_text('text,"id\none,1\n', "utf-8")
    assert "header" in message_of(ExitCode.USAGE, "dedup", "q.csv")
    Path("q.csv").write_text("text,,id,text,\none,,1,two,\n", "utf-8")
    assert "has 2 columns 'text'" in message_of(ExitCode.USAGE, "dedup", "q.csv")


def test_rows_of_parquet_are_objects_with_all_columns() -> None:
    rows = [{"text": text_of(number), "score": at} for at, number in enumerate((1, 2, 1))]
    parquet.write_table(pa.Table.from_pylist(rows), "t.parquet")
    report = report_of("dedup", "t.parquet")
    assert (report["unique"], report["duplicates"]) == (2, 1)
    assert json.loads(Path("t.unique.jsonl").read_text("utf-8").splitlines()[1])["score"] == 1


def test_times_of_parquet_for_which_python_has_no_object_are_kept() -> None:
    nanoseconds = 1_767_225_600_123_456_789
    columns: dict[str, object] = {
        "text": [text_of(1), text_of(2)],
        "timestamp": pa.array([nanoseconds, nanoseconds - 789], pa.timestamp("ns", "Asia/Tokyo")),
        "seen": pa.array([nanoseconds, None], pa.timestamp("ns")),
        "far": pa.array([-(10**17), 0], pa.timestamp("us")),
    }
    parquet.write_table(pa.table(columns), "t.parquet")
    assert report_of("dedup", "t.parquet")["unique"] == 2
    first, second = json_lines(Path("t.unique.jsonl"))
    assert first["timestamp"] == "2026-01-01T00:00:00.123456789Z"
    assert second["timestamp"] == "2026-01-01T09:00:00.123456+09:00"
    assert (first["seen"], second["seen"]) == ("2026-01-01T00:00:00.123456789", None)
    assert (first["far"], second["far"]) == (str(-(10**17)), "1970-01-01T00:00:00")

    columns["seen"] = pa.array([[nanoseconds]] * 2, pa.list_(pa.timestamp("ns")))
    parquet.write_table(pa.table(columns), "t.parquet")
    assert "t.parquet" in message_of(ExitCode.RUNTIME, "dedup", "t.parquet", "--force")


def test_a_folder_is_read_by_names_and_not_written_to() -> None:
    Path("in/deep").mkdir(parents=True)
    Path("in/a.jsonl").write_bytes(numbered(1))
    Path("in/deep/b.csv").write_text(f"id,text\n9,{text_of(1)}\n", "utf-8")
    Path("in/deep/c.txt").write_text(text_of(1), "utf-8")
    Path("in/d.md").write_text("# Notes", "utf-8")
    report = report_of("dedup", "in")
    assert (report["unique"], report["duplicates"]) == (2, 2)
    assert sources("in.duplicates.jsonl") == ["deep/b.csv@0 of a.jsonl@0", "in@1 of a.jsonl@0"]
    assert files() == ["in.dead-letters.jsonl", "in.duplicates.jsonl", "in.unique.jsonl"]


def test_a_text_in_a_folder_may_be_packed_and_have_any_name() -> None:
    text, other, last = map(text_of, (1, 2, 3))
    Path("in").mkdir()
    Path("in/a.txt.gz").write_bytes(gzip.compress(text.encode()))
    Path("in/b.txt.zst").write_bytes(zstandard.ZstdCompressor().compress(other.encode()))
    Path(os.fsdecode(b"in/\xff.txt")).write_text(last, "utf-8")
    report = report_of("dedup", "in")
    assert (report["unique"], report["dead_letters"]) == (3, 0)
    assert json_lines(Path("in.unique.jsonl")) == [
        {"id": "a.txt.gz", "text": text},
        {"id": "b.txt.zst", "text": other},
        {"id": "\ufffd.txt", "text": last},
    ]
    Path("in/c.txt.gz").write_bytes(gzip.compress(text.encode())[:-9])
    assert "c.txt.gz" in message_of(ExitCode.RUNTIME, "dedup", "in", "--force")


def test_files_of_one_name_are_told_apart_and_outputs_stay_with_one_that_is_named() -> None:
    for folder in ("mon", "tue", "mine"):
        Path(folder).mkdir()
        Path(folder, "news.jsonl").write_bytes(numbered(1))
    report_of("dedup", "mon/news.jsonl", "tue/news.jsonl", "--unique", "mine/u.jsonl")
    assert sources("mine/documents.duplicates.jsonl") == ["tue/news.jsonl@0 of mon/news.jsonl@0"]
    assert files("mon") == files("tue") == ["news.jsonl"]
    assert files() == []


def test_a_run_continues_in_its_second_file(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("a.jsonl").write_bytes(numbered(1, 2))
    good = gzip.compress(numbered(2, *range(3, 900)), mtime=0)
    Path("b.jsonl.gz").write_bytes(good[: len(good) // 2])
    monkeypatch.setenv("FIRSTSEEN_BATCH__DOCUMENTS", "50")
    command = ("dedup", "a.jsonl", "b.jsonl.gz", "--state", "s")
    assert "b.jsonl.gz" in message_of(ExitCode.RUNTIME, *command)
    Path("b.jsonl.gz").write_bytes(good)
    report = report_of(*command)
    assert report["resumed_after_line"] > 2
    assert (report["lines"], report["unique"], report["duplicates"]) == (900, 899, 1)
    assert Path("documents.unique.jsonl").read_bytes() == numbered(1, 2, *range(3, 900))
    assert sources("documents.duplicates.jsonl") == ["b.jsonl.gz#1@0 of a.jsonl#1@1"]
