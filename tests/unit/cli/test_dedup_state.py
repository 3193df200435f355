"""`firstseen dedup --state`: an index that later runs know, and runs that a crash cannot spoil."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from streams.errors import ExitCode
from streams.offline.dedup_files import KINDS, Kind
from streams.offline.local_dedup import DedupRequest, launched
from streams.settings.settings import BatchSettings, Settings
from tests.repository.source_tree import ROOT
from tests.unit.cli.dedup_corpus import (
    corpus_lines,
    json_lines,
    read_output,
)
from tests.unit.cli.running import clean_environment, message_of, report_of

pytestmark = pytest.mark.usefixtures("empty_directory")

DOCUMENTS: Final = 2500
KILLS: Final = 6
SECONDS_MAX: Final = 120
# Small batches, so that there are many moments at which a process can die.
SMALL_BATCHES: Final = ("--set", "batch.documents=50")
SOME_BATCHES_BYTES: Final = 200_000
"""More uniques than are in one batch: where they are written, one at least is committed."""


@pytest.fixture(scope="module")
def lines() -> list[bytes]:
    """Lines of a generated stream, good and broken."""
    return corpus_lines(seed=23, documents=DOCUMENTS)


def write(name: str, lines: list[bytes]) -> None:
    """Write a file of lines."""
    Path(name).write_bytes(b"".join(line + b"\n" for line in lines))


@contextmanager
def started(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start the command as a process of its own; it is gone at the end of the block."""
    process = subprocess.Popen(
        [sys.executable, "-m", "streams.cli.main", "dedup", *arguments],
        env=clean_environment() | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=SECONDS_MAX)


def wait_for_bytes(path: Path, size: int, process: subprocess.Popen[bytes]) -> bool:
    """Wait until a file has this size; False when the process ends before."""
    until = time.monotonic() + SECONDS_MAX
    while time.monotonic() < until:
        if path.is_file() and path.stat().st_size >= size:
            return True
        if process.poll() is not None:
            return False
        time.sleep(0.002)
    raise AssertionError(f"{path} has not grown to {size} bytes in {SECONDS_MAX} s")


def interrupted_run(*arguments: str, after_bytes: int = SOME_BATCHES_BYTES) -> None:
    """Run `dedup f.jsonl --state s`, and kill it when it has written some uniques."""
    with started("f.jsonl", "--state", "s", *SMALL_BATCHES, *arguments) as process:
        assert wait_for_bytes(Path("f.unique.jsonl"), after_bytes, process), "not in time"


def test_a_later_run_knows_the_documents_of_earlier_ones(lines: list[bytes]) -> None:
    """Given a stream cut into two files, when both are run on one state, then the outcome is that
    of the stream in one, and the second's duplicates name uniques of the first.
    """
    part = lines[:800]
    write("whole.jsonl", part)
    write("a.jsonl", part[:400])
    write("b.jsonl", part[400:])
    report_of("dedup", "whole.jsonl")
    first = report_of("dedup", "a.jsonl", "--state", "s")
    second = report_of("dedup", "b.jsonl", "--state", "s")

    whole, a, b = (read_output(Path(), name) for name in ("whole", "a", "b"))
    assert a.unique + b.unique == whole.unique
    assert (first["run"], second["run"]) == (1, 2)
    assert second["index_documents"] == whole.unique.count(b"\n")
    assert [_places(record) for record in a.duplicates + b.duplicates] == [
        ((_file(*source), *source), (_file(*original), *original))
        for source, original in (
            (_part(record["source"]["offset"]), _part(record["original"]["source"]["offset"]))
            for record in whole.duplicates
        )
    ]


def _part(number: int) -> tuple[int, int]:
    """Return a line's file, 0 or 1, and its number there."""
    return divmod(number, 400)


def _file(part: int, _: int) -> str:
    return ("a.jsonl#1", "b.jsonl#2")[part]


def _places(record: dict[str, Any]) -> tuple[tuple[str, int, int], tuple[str, int, int]]:
    def place(position: dict[str, Any]) -> tuple[str, int, int]:
        part = ("a.jsonl#1", "b.jsonl#2").index(position["topic"])
        return position["topic"], part, position["offset"]

    return place(record["source"]), place(record["original"]["source"])


def test_the_same_file_again_is_all_repeats(lines: list[bytes]) -> None:
    """Given a file that was run to its end, when it is run again, then every document is a new
    arrival and repeats one of the first run; none names itself.
    """
    write("f.jsonl", lines[:300])
    first = report_of("dedup", "f.jsonl", "--state", "s")
    outputs = ["--unique", "u", "--duplicates", "d", "--dead-letters", "x"]
    second = report_of("dedup", "f.jsonl", "--state", "s", *outputs)

    assert (second["run"], second["unique"]) == (2, 0)
    assert second["duplicates"] == first["documents"] == second["documents"]
    assert second["index_documents"] == first["index_documents"]
    for record in json_lines(Path("d")):
        assert record["source"]["topic"] == "f.jsonl#2"
        assert record["original"]["source"]["topic"] == "f.jsonl#1"


def test_written_outputs_are_not_begun_anew_unasked(lines: list[bytes]) -> None:
    """Given a run that is done, when the same command is given again, then it is refused and says
    what the run was; nothing is changed.
    """
    write("f.jsonl", lines[:50])
    report_of("dedup", "f.jsonl", "--state", "s")
    before = read_output(Path(), "f")

    message = message_of(ExitCode.USAGE, "dedup", "f.jsonl", "--state", "s")

    for part in ("run 1", "f.jsonl", "50 lines"):
        assert part in message
    assert read_output(Path(), "f") == before


@pytest.mark.slow
def test_killed_at_any_moment_the_outcome_is_the_same(lines: list[bytes]) -> None:
    """Given a run that is killed (SIGKILL) at random points, when the same command is given each
    time, then it ends with the outputs, byte for byte, and the counts of a run that was left alone.
    """
    Path("left alone").mkdir()
    write("left alone/f.jsonl", lines)
    write("f.jsonl", lines)
    expected = report_of("dedup", "left alone/f.jsonl", "--state", "other", *SMALL_BATCHES)
    total = Path("left alone/f.unique.jsonl").stat().st_size
    rng = random.Random(5)
    points = sorted(rng.randrange(1, total * 95 // 100) for _ in range(KILLS))
    killed = 0
    for point in points:
        with started("f.jsonl", "--state", "s", *SMALL_BATCHES) as process:
            assert wait_for_bytes(Path("f.unique.jsonl"), point, process), "it ended by itself"
            time.sleep(rng.random() * 0.02)  # into the middle of a batch, or of a commit
            process.send_signal(signal.SIGKILL)
            process.wait(SECONDS_MAX)
            killed += process.returncode == -signal.SIGKILL
    report = report_of("dedup", "f.jsonl", "--state", "s", *SMALL_BATCHES)

    assert killed >= 5
    assert report["resumed_after_line"] > 0
    figures = ["documents", "duplicates", "dead_letters_by_reason", "lines", "index_documents"]
    assert [report[name] for name in figures] == [expected[name] for name in figures]
    assert read_output(Path(), "f") == read_output(Path("left alone"), "f")


@pytest.mark.parametrize("done", [0, 1, 3])
def test_killed_between_commits(done: int, lines: list[bytes]) -> None:
    """Given a run that ends after so many commits, also before the first one, with bytes written
    that were never committed, when it is continued, then the outcome is that of one run.
    """
    part = [*lines[:20], b"", *lines[20:299]]
    Path("left alone").mkdir()
    write("left alone/f.jsonl", part)
    write("f.jsonl", part)
    expected = report_of("dedup", "left alone/f.jsonl", "--state", "other")
    outputs: dict[Kind, str | None] = dict.fromkeys(KINDS)
    small = Settings(batch=BatchSettings(documents=100))
    with launched(small, DedupRequest(["f.jsonl"], outputs, Path("s"))) as run:
        steps = run.dedup.run(run.inputs)
        for _ in range(done):
            next(steps)
    with Path("f.unique.jsonl").open("ab") as file:
        file.write(lines[0] + b"\nhalf a li")

    report = report_of("dedup", "f.jsonl", "--state", "s")

    assert report["resumed_after_line"] == 100 * done
    assert (report["lines"], report["blank_lines"]) == (300, 1)
    assert report["index_documents"] == expected["index_documents"]
    assert read_output(Path(), "f") == read_output(Path("left alone"), "f")


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_stopped_says_that_it_can_go_on(
    sent: signal.Signals, lines: list[bytes]
) -> None:
    """Given Ctrl-C or SIGTERM, then the command ends with the signal's code, tells the way on, and
    continues when it is given again.
    """
    write("f.jsonl", lines[:1500])
    with started("f.jsonl", "--state", "s", *SMALL_BATCHES) as process:
        assert wait_for_bytes(Path("f.unique.jsonl"), SOME_BATCHES_BYTES, process)
        process.send_signal(sent)
        _, message = process.communicate(timeout=SECONDS_MAX)

    assert process.returncode == 128 + sent
    assert b"continue" in message
    assert b"Traceback" not in message
    report = report_of("dedup", "f.jsonl", "--state", "s")
    assert report["resumed_after_line"] > 0
    assert report["lines"] == 1500


def test_another_command_does_not_continue_an_interrupted_run(lines: list[bytes]) -> None:
    """Given an interrupted run, when another file or other outputs are asked for, then both are
    named and nothing is done; --abandon gives the run up, with its outputs cut to what is known.
    """
    write("f.jsonl", lines[:1500])
    write("g.jsonl", lines[1500:1600])
    interrupted_run()

    message = message_of(ExitCode.RUNTIME, "dedup", "g.jsonl", "--state", "s")
    for part in ("f.jsonl", "g.jsonl", "--abandon"):
        assert part in message
    message = message_of(ExitCode.RUNTIME, "dedup", "f.jsonl", "--state", "s", "--unique", "u")
    assert "--unique" in message
    assert str(Path("f.unique.jsonl").resolve()) in message
    with Path("f.unique.jsonl").open("ab") as file:
        file.write(b"half a li")  # what a crash leaves of a line

    report = report_of("dedup", "g.jsonl", "--state", "s", "--abandon")

    kept = Path("f.unique.jsonl").read_bytes()
    assert (report["run"], report["resumed_after_line"]) == (2, None)
    assert kept.count(b"\n") + report["unique"] == report["index_documents"]
    assert kept.endswith(b"\n")


def test_a_file_that_changed_is_not_gone_on_with(lines: list[bytes]) -> None:
    """Given an interrupted run, when a line that it has read has changed since, it is refused;
    lines that were added at the end are no change.
    """
    write("f.jsonl", lines[:1500])
    interrupted_run()

    write("f.jsonl", [b'{"text": "another first line"}', *lines[1:1500]])
    message = message_of(ExitCode.RUNTIME, "dedup", "f.jsonl", "--state", "s")
    assert "f.jsonl" in message

    write("f.jsonl", [])
    message = message_of(ExitCode.RUNTIME, "dedup", "f.jsonl", "--state", "s")
    assert "f.jsonl" in message

    write("f.jsonl", lines[:1600])
    assert report_of("dedup", "f.jsonl", "--state", "s")["lines"] == 1600


def test_an_output_that_was_shortened_is_not_gone_on_with(lines: list[bytes]) -> None:
    """Given an interrupted run, when an output has lost bytes, then that is said, with both sizes,
    rather than a file with a gap written.
    """
    write("f.jsonl", lines[:1500])
    interrupted_run()
    os.truncate("f.unique.jsonl", 10)

    message = message_of(ExitCode.RUNTIME, "dedup", "f.jsonl", "--state", "s")

    assert "f.unique.jsonl" in message
    assert "10 bytes" in message
    assert Path("f.unique.jsonl").stat().st_size == 10


def test_another_index_is_refused(lines: list[bytes]) -> None:
    """Given a state made with one profile, when it is opened with another, then both identities
    are in the message, and the exit code is that of a wrong configuration.
    """
    write("f.jsonl", lines[:50])
    report_of("dedup", "f.jsonl", "--state", "s", "--profile", "classic")

    message = message_of(
        ExitCode.CONFIGURATION, "dedup", "f.jsonl", "--state", "s", "--profile", "wide", "--force"
    )

    assert "bits=64 " in message
    assert "bits=256 " in message


def test_two_processes_on_one_state(lines: list[bytes]) -> None:
    """Given a run under way, when a second one wants its state, then that one ends with a message
    that names the directory; the first is not disturbed.
    """
    write("f.jsonl", lines)
    write("g.jsonl", lines[:10])
    with started("f.jsonl", "--state", "s", *SMALL_BATCHES, "--json") as process:
        assert wait_for_bytes(Path("f.unique.jsonl"), 1, process)
        process.send_signal(signal.SIGSTOP)
        try:
            message = message_of(ExitCode.RUNTIME, "dedup", "g.jsonl", "--state", "s")
        finally:
            process.send_signal(signal.SIGCONT)
        out, _ = process.communicate(timeout=SECONDS_MAX)

    assert str(Path("s")) in message
    assert process.returncode == ExitCode.OK
    assert json.loads(out)["lines"] == len(lines)
    assert not Path("g.unique.jsonl").exists()


@pytest.mark.parametrize(
    ("option", "file"), [("--unique", "u.gz"), ("--unique", "-"), ("--dead-letters", "/dev/null")]
)
def test_outputs_that_cannot_be_resumed(option: str, file: str, lines: list[bytes]) -> None:
    """Given an output that cannot be cut after a crash, then it is refused by its name, and nothing
    is written.
    """
    write("f.jsonl", lines[:10])

    assert option in message_of(ExitCode.USAGE, "dedup", "f.jsonl", "--state", "s", option, file)

    assert [path.name for path in Path().iterdir()] == ["f.jsonl"]


def test_windows_replaced_ids_and_scopes_hold_across_runs() -> None:
    """Given a state with a window, replaced ids and scopes, then a later run goes on with all of
    them; and another window is another index.
    """
    text = "北京今天下雪了，地铁照常运行，早高峰时各条线路都有人扫雪，公交车慢一些，出租车少一些。"
    other = "今年春茶的产量比去年高出两成，茶农忙着采摘，收购价却比往年低了不少，合作社正在想办法。"
    forget = ("--set", "index.same_id=replace", "--set", "fields.scope=tenant")

    def line(name: str, text: str, day: int, tenant: str = "x") -> bytes:
        time_ms = 1_714_536_000_000 + day * 86_400_000
        fields = {"id": name, "text": text, "timestamp": time_ms, "tenant": tenant}
        return json.dumps(fields).encode()

    def uniques(name: str, lines: list[bytes]) -> list[str]:
        write(f"{name}.jsonl", lines)
        arguments = (f"{name}.jsonl", "--state", "s", "--set", "index.window=10d", *forget)
        report_of("dedup", *arguments, "--unique", f"{name}.unique")
        found = Path(f"{name}.unique").read_bytes().splitlines()
        return [json.loads(each)["id"] for each in found]

    assert uniques("one", [line("a", text, 0), line("b", text, 1), line("c", text, 1, "y")]) == [
        *("a", "c")
    ]
    assert uniques("two", [line("d", text, 9), line("a", other, 9), line("e", text, 9)]) == [
        *("a", "e")
    ]
    assert uniques("three", [line("f", text, 20), line("g", text, 30), line("h", other, 15)]) == [
        *("f", "h")
    ]
    message_of(ExitCode.CONFIGURATION, "dedup", "one.jsonl", "--state", "s", *forget)
