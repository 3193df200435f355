"""`firstseen demo` as a user runs it, with broker, worker and stream; it leaves nothing behind."""

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
from typing import Any, NamedTuple

import msgspec
import pytest

from streams.corpus.generated import EditKind
from streams.demo.summary import DemoReport
from streams.errors import ExitCode
from tests.repository.source_tree import ROOT
from tests.rigs.waiting import await_that
from tests.unit.cli.dedup_corpus import OTHER, TEXT
from tests.unit.cli.running import SECONDS_MAX, clean_environment, firstseen


def processes_in(directory: Path) -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        try:
            environment = (entry / "environ").read_bytes()
            command = (entry / "cmdline").read_bytes()
        except OSError:
            continue  # it is no process, not ours, or has ended
        if f"TMPDIR={directory}".encode() in environment.split(b"\0") and command:
            found.append(command.replace(b"\0", b" ").decode())
    return found


class RunningDemo(NamedTuple):
    """A demo as a process that writes to files."""

    process: subprocess.Popen[bytes]
    files: Path

    def out(self) -> str:
        return (self.files / "out").read_text("utf-8")

    def errors(self) -> str:
        return (self.files / "errors").read_text("utf-8")

    def wait(self) -> int:
        return self.process.wait(SECONDS_MAX)

    def await_out(self, pattern: str) -> re.Match[str]:
        deadline = time.monotonic() + SECONDS_MAX
        while (found := re.search(pattern, self.out())) is None:
            assert self.process.poll() is None, self.errors()
            assert time.monotonic() < deadline, f"no {pattern!r} in: {self.out()}"
            time.sleep(0.05)
        return found

    def await_verdicts(self) -> None:
        self.await_out(r" [1-9][\d,]* decided \(")


@contextmanager
def demo(directory: Path, *arguments: str) -> Iterator[RunningDemo]:
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


def report_of(directory: Path, *arguments: str) -> tuple[dict[str, Any], str]:
    """Run a demo, which must succeed and clean up; return its report and standard error."""
    with demo(directory, *arguments, "--json") as running:
        code = running.wait()
        out, errors = running.out(), running.errors()
    assert code == ExitCode.OK, errors
    assert out.count("\n") == 1
    assert_nothing_is_left(directory)
    report: dict[str, Any] = json.loads(out)
    assert_fields(report)
    return report, errors


def assert_nothing_is_left(directory: Path) -> None:
    assert processes_in(directory) == []
    assert list(directory.iterdir()) == []


def assert_fields(report: dict[str, Any]) -> None:
    """Assert that a report has every field with its type, and that its counts add up."""
    assert list(report) == ["schema", *DemoReport.__struct_fields__]
    msgspec.convert(report, DemoReport)
    assert report["documents"] == (
        report["unique"] + report["duplicates"] + report["dead_letters"] + report["tombstones"]
    )
    assert report["duplicates"] == report["exact_duplicates"] + report["near_duplicates"]
    assert report["dead_letters"] == sum(report["dead_letters_by_reason"].values())
    assert {"fingerprint", "append", "lookup", "decide", "output", "commit", "store"} <= {
        s["stage"] for s in report["stages"]
    }


def test_the_page_of_the_docs_names_every_field() -> None:
    page = (ROOT / "docs" / "demo.md").read_text("utf-8").partition("## The JSON object")[2]
    fields = ("schema", *DemoReport.__struct_fields__)
    assert [name for name in fields if f"`{name}`" not in page] == []


@pytest.mark.slow
def test_a_generated_stream_ends_in_exactly_one_output_a_record(tmp_path: Path) -> None:
    report, errors = report_of(tmp_path, "--documents", "300")
    assert (report["documents"], report["lost"], report["repeated"]) == (300, 0, 0)
    assert report["precision"] > 0.97
    assert report["recall"] > 0.85
    assert report["by_kind"].keys() <= set(EditKind)
    assert report["by_kind"]["exact_copy"]["recall"] > 0.9
    assert sum(kind["count"] for kind in report["by_kind"].values()) == 300
    assert "firstseen demo --input my.jsonl" in errors


@pytest.mark.slow
def test_the_users_documents_have_verdicts_but_no_truth_to_compare(tmp_path: Path) -> None:
    lines: list[object] = [
        {"id": "雪", "body": TEXT},
        {"id": "again", "body": TEXT.replace("，", ", ")},
        {"id": "short", "body": "好"},
        {"id": "other", "body": OTHER},
        {"id": "no text"},
        "not an object",
    ]
    file = tmp_path / "mine.jsonl"
    file.write_text("\n".join(json.dumps(line, ensure_ascii=False) for line in lines) + "\n\n")
    (temporary := tmp_path / "tmp").mkdir()

    report, _ = report_of(
        temporary,
        *("--input", str(file), "--state-dir", str(tmp_path / "state")),
        *("--set", "fields.text=body", "--profile", "classic"),
    )

    assert (report["input"], report["seed"], report["profile"]) == (str(file), None, "classic")
    assert [report[name] for name in ("precision", "recall", "by_kind")] == [None, None, None]
    assert [report[name] for name in ("unique", "undecidable", "duplicates")] == [3, 1, 1]
    assert report["dead_letters_by_reason"] == {"missing_text": 1, "not_an_object": 1}
    assert (tmp_path / "state" / "worker.log").stat().st_size > 0


@pytest.mark.slow
def test_what_is_kept_running_can_be_used_until_ctrl_c(tmp_path: Path) -> None:
    token = ("--set", "web.token=0123456789abcdef")
    with demo(tmp_path, "--documents", "20", "--keep-running", *token) as running:
        broker = running.await_out(r"Kafka broker +(127\S+)")[1]
        pages = running.await_out(r"worker +(http\S+)")[1]
        running.await_out(r"stop +Ctrl-C\n")
        (file := tmp_path / "mine.jsonl").write_text(
            "".join(json.dumps({"id": id_, "text": TEXT}) + "\n" for id_ in ("雪", "again"))
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
    file.unlink()
    assert_nothing_is_left(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "code"),
    [
        (signal.SIGINT, ExitCode.INTERRUPTED),
        (signal.SIGTERM, ExitCode.TERMINATED),
        (signal.SIGKILL, -signal.SIGKILL),
    ],
)
def test_broker_and_worker_end_with_a_demo(tmp_path: Path, how: signal.Signals, code: int) -> None:
    with demo(tmp_path, "--documents", "100000", "--plain") as running:
        running.await_verdicts()
        assert len(processes_in(tmp_path)) == 3
        running.process.send_signal(how)
        ended_with = running.wait()
        await_that(lambda: not processes_in(tmp_path), 15, shows=lambda: processes_in(tmp_path))
    assert ended_with == code
    if how is not signal.SIGKILL:
        assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_worker_that_is_killed_fails_the_demo_with_the_end_of_its_log(tmp_path: Path) -> None:
    with demo(tmp_path, "--documents", "100000", "--plain") as running:
        running.await_verdicts()
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
    assert_nothing_is_left(tmp_path)
