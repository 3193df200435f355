"""`firstseen demo` as a user runs it: a broker, a worker, a stream, and nothing left behind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from streams.corpus.generated import EditKind
from streams.errors import ExitCode
from tests.repository.source_tree import ROOT
from tests.rigs.waiting import await_that
from tests.unit.cli.running import clean_environment, firstseen

SECONDS_MAX = 120.0
SNOW = (
    "北京今天下雪了，地铁照常运行，早高峰时各条线路都有人扫雪，公交车慢一些，出租车也少一些，"
    "学校推迟上课，机场取消航班，市民最好提前出门。"
)
FIELDS = {
    "schema": str,
    "input": str | None,
    "seed": int | None,
    "profile": str,
    "documents": int,
    "unique": int,
    "undecidable": int,
    "duplicates": int,
    "exact_duplicates": int,
    "near_duplicates": int,
    "dead_letters": int,
    "dead_letters_by_reason": dict,
    "tombstones": int,
    "too_long": int,
    "lost": int,
    "repeated": int,
    "precision": float | None,
    "recall": float | None,
    "swapped": int,
    "by_kind": dict | None,
    "seconds": float,
    "documents_per_second": float,
    "shards": int,
    "worker_cpu_seconds": float,
    "stages": list,
}


def processes_in(directory: Path) -> list[str]:
    """The command lines of running processes whose temporary directory is this one."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            environment = (entry / "environ").read_bytes()
            command = (entry / "cmdline").read_bytes()
        except OSError:
            continue  # not a process, not ours, or gone
        if f"TMPDIR={directory}".encode() in environment.split(b"\0") and command:
            found.append(command.replace(b"\0", b" ").decode())
    return found


class RunningDemo:
    """A demo as a process; what it writes is in files, so that it can be looked at meanwhile."""

    def __init__(self, process: subprocess.Popen[bytes], files: Path) -> None:
        self.process = process
        self._files = files

    def out(self) -> str:
        """Standard output so far."""
        return (self._files / "out").read_text("utf-8")

    def errors(self) -> str:
        """Standard error so far."""
        return (self._files / "errors").read_text("utf-8")

    def wait(self) -> int:
        """The exit code, once there is one."""
        return self.process.wait(SECONDS_MAX)

    def await_out(self, pattern: str) -> re.Match[str]:
        """Wait until standard output has a match; give it."""
        deadline = time.monotonic() + SECONDS_MAX
        while (found := re.search(pattern, self.out())) is None:
            assert self.process.poll() is None, self.errors()
            assert time.monotonic() < deadline, f"no {pattern!r} in: {self.out()}"
            time.sleep(0.05)
        return found


@contextmanager
def demo(directory: Path, *arguments: str) -> Iterator[RunningDemo]:
    """A running demo, with its temporary files in a directory; it is stopped at the end."""
    with (
        tempfile.TemporaryDirectory() as files,
        (Path(files) / "out").open("wb") as out,
        (Path(files) / "errors").open("wb") as errors,
        subprocess.Popen(
            [sys.executable, "-u", "-m", "streams.cli.main", "demo", *arguments],
            env=clean_environment() | {"TMPDIR": str(directory), "FIRSTSEEN_BROKERS": "no broker"},
            stdout=out,
            stderr=errors,
            start_new_session=True,
        ) as process,
    ):
        try:
            yield RunningDemo(process, Path(files))
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                process.wait(SECONDS_MAX)


def assert_fields(report: dict[str, Any]) -> None:
    """Assert that a report has every field, in order, of its type, and that it adds up."""
    assert list(report) == list(FIELDS)
    for name, kind in FIELDS.items():
        assert isinstance(report[name], kind), (name, report[name])
    assert report["documents"] == (
        report["unique"] + report["duplicates"] + report["dead_letters"] + report["tombstones"]
    )
    assert report["duplicates"] == report["exact_duplicates"] + report["near_duplicates"]
    assert report["dead_letters"] == sum(report["dead_letters_by_reason"].values())
    assert all(set(stage) == {"stage", "batches", "seconds"} for stage in report["stages"])
    assert {"fingerprint", "append", "lookup", "decide", "output", "commit", "store"} <= {
        s["stage"] for s in report["stages"]
    }


def test_the_page_explains_every_field() -> None:
    """Given the page of the demo; then it names each field of the JSON object."""
    page = (ROOT / "docs" / "demo.md").read_text("utf-8").partition("## The JSON object")[2]

    assert [name for name in FIELDS if f"`{name}`" not in page] == []


@pytest.mark.slow
def test_a_generated_stream(tmp_path: Path) -> None:
    """Given nothing but Python; when a demo of 300 records runs; then every record ends in exactly
    one output, nearly all copies are found and nothing else is, standard output is one JSON object,
    and no process or file is left.
    """
    with demo(tmp_path, "--documents", "300", "--json") as running:
        code = running.wait()
        out, errors = running.out(), running.errors()

    assert code == ExitCode.OK, errors
    report = json.loads(out)
    assert out.count("\n") == 1
    assert_fields(report)
    assert (report["documents"], report["lost"], report["repeated"]) == (300, 0, 0)
    assert report["precision"] > 0.97
    assert report["recall"] > 0.85
    assert report["by_kind"].keys() <= set(EditKind)
    assert report["by_kind"]["exact_copy"]["recall"] > 0.9
    assert sum(kind["count"] for kind in report["by_kind"].values()) == 300
    assert "firstseen demo --input my.jsonl" in errors
    assert processes_in(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_your_own_documents(tmp_path: Path) -> None:
    """Given a file of the user's own, with another name for the text; then the verdicts are of
    these documents, how well is null, since nobody knows, and the state stays where it was wanted.
    """
    lines: list[object] = [
        {"id": "雪", "body": SNOW},
        {"id": "again", "body": SNOW.replace("，", ", ")},
        {"id": "short", "body": "好"},
        {
            "id": "other",
            "body": "The council has voted to keep the library open on Sundays, from noon "
            "until six o'clock, for as long as readers climb its old stairs and ask for something "
            "new to take home.",
        },
        {"id": "no text"},
        "not an object",
    ]
    file = tmp_path / "mine.jsonl"
    file.write_text("\n".join(json.dumps(line, ensure_ascii=False) for line in lines) + "\n\n")
    (temporary := tmp_path / "tmp").mkdir()

    with demo(
        temporary,
        *("--input", str(file), "--state-dir", str(tmp_path / "state")),
        *("--set", "fields.text=body", "--profile", "classic", "--json"),
    ) as running:
        code = running.wait()
        out, errors = running.out(), running.errors()

    assert code == ExitCode.OK, errors
    report = json.loads(out.splitlines()[-1])
    assert_fields(report)
    assert (report["input"], report["seed"], report["profile"]) == (str(file), None, "classic")
    assert [report[name] for name in ("precision", "recall", "by_kind")] == [None, None, None]
    assert [report[name] for name in ("unique", "undecidable", "duplicates")] == [3, 1, 1]
    assert report["dead_letters_by_reason"] == {"missing_text": 1, "not_an_object": 1}
    assert (tmp_path / "state" / "worker.log").stat().st_size > 0
    assert list(temporary.iterdir()) == []


@pytest.mark.slow
def test_what_is_kept_running_can_be_used(tmp_path: Path) -> None:
    """Given a demo that is kept running; then its broker takes documents and gives the verdicts,
    its worker's pages answer, and Ctrl-C ends all of it as a success.
    """
    with demo(tmp_path, "--documents", "20", "--keep-running") as running:
        broker = running.await_out(r"Kafka broker +(127\S+)")[1]
        pages = running.await_out(r"worker +(http\S+)")[1]
        running.await_out(r"stop +Ctrl-C\n")
        (file := tmp_path / "mine.jsonl").write_text(
            "".join(json.dumps({"id": id_, "text": SNOW}) + "\n" for id_ in ("雪", "again"))
        )
        sent = firstseen("produce", str(file), "--broker", broker, "--json")
        assert json.loads(sent.stdout)["documents"] == 2, sent.stderr
        deadline, shown = time.monotonic() + SECONDS_MAX, ""
        while "again ← 雪" not in shown and time.monotonic() < deadline:
            shown = firstseen(
                *("consume", "--topic", "duplicate-of", "--until-end", "--broker", broker)
            ).stdout
        with urllib.request.urlopen(f"{pages}metrics", timeout=5) as answer:  # noqa: S310 - http, ours
            metrics = answer.read().decode()
        running.process.send_signal(signal.SIGINT)
        code = running.wait()

    assert re.search(r"^duplicate    again ← 雪  distance 0/256 .* exact$", shown, re.MULTILINE)
    assert "firstseen_documents_total" in metrics
    assert code == ExitCode.OK
    assert processes_in(tmp_path) == []
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "code"),
    [
        (signal.SIGINT, ExitCode.INTERRUPTED),
        (signal.SIGTERM, ExitCode.TERMINATED),
        (signal.SIGKILL, -signal.SIGKILL),
    ],
)
def test_it_can_be_ended_at_any_time(tmp_path: Path, how: signal.Signals, code: int) -> None:
    """Given a demo in the middle of a stream; when it is ended, by whatever signal; then its broker
    and its worker end too, and unless nothing could be done, so do its files.
    """
    with demo(tmp_path, "--documents", "100000", "--plain") as running:
        running.await_out(r" [1-9][\d,]* decided \(")
        assert len(processes_in(tmp_path)) == 3
        running.process.send_signal(how)
        ended_with = running.wait()
        await_that(lambda: not processes_in(tmp_path), 15, shows=lambda: processes_in(tmp_path))

    assert ended_with == code
    if how is not signal.SIGKILL:
        assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_worker_that_dies(tmp_path: Path) -> None:
    """Given a worker that is killed in the middle of a stream; then the demo fails at once, with
    the end of the worker's log.
    """
    with demo(tmp_path, "--documents", "100000", "--plain") as running:
        running.await_out(r" [1-9][\d,]* decided \(")
        pid = running.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        (worker,) = (
            int(child)
            for child in children
            if b"worker_launcher" in Path(f"/proc/{child}/cmdline").read_bytes()
        )
        os.kill(worker, signal.SIGKILL)
        code, errors = running.wait(), running.errors()

    assert code == ExitCode.RUNTIME
    assert "code -9" in errors.splitlines()[0]
    assert "streams.worker.process: index " in errors
    assert processes_in(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--set", "brokers=x:1"], 2, "--set brokers"),
        (["--set", "batch.documents=0"], 78, "batch.documents"),
        (["--profile", "wider"], 78, "profile"),
        (["--input", "absent.jsonl"], 2, "absent.jsonl"),
        (["--input", "x.jsonl", "--seed", "2"], 2, "--seed"),
        (["--state-dir", "."], 2, "empty directory"),
        (["--documents", "0"], 2, "--documents"),
    ],
)
def test_what_cannot_be_is_refused_at_once(
    tmp_path: Path, arguments: list[str], code: int, message: str
) -> None:
    """Given options that cannot be; then nothing is started, and the message says why."""
    with demo(tmp_path, *arguments) as running:
        ended_with = running.wait()
        out, errors = running.out(), running.errors()

    assert ended_with == code
    assert message in errors
    assert "Starting" not in out
