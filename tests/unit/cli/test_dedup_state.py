"""`firstseen dedup --state`: later runs use the index, and a crash does not damage a run."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from streams.errors import ExitCode
from streams.offline.dedup_files import KINDS, OutputState, RunProgress, decode_run, encode_run
from streams.offline.local_dedup import DedupRequest, launched
from streams.settings.settings import BatchSettings, Settings
from tests.unit.cli.dedup_corpus import OTHER, TEXT, corpus_lines, json_lines, read_output
from tests.unit.cli.running import SECONDS_MAX, message_of, report_of, started

pytestmark = pytest.mark.usefixtures("empty_directory")

F: Final = ("dedup", "f.jsonl", "--state", "s")
G: Final = ("dedup", "g.jsonl", "--state", "s")
UNIQUES: Final = Path("f.unique.jsonl")
# Small batches, so that there are many points at which a process can be killed.
SMALL_BATCHES: Final = ("--set", "batch.documents=50")
SOME_BATCHES_BYTES: Final = 200_000
"""More uniques than a batch has: when they are written, at least one batch is committed."""


@pytest.fixture(scope="module")
def lines() -> list[bytes]:
    return corpus_lines(seed=23, documents=2500)


def write(name: str, lines: list[bytes]) -> None:
    Path(name).write_bytes(b"".join(line + b"\n" for line in lines))


def run_alone(lines: list[bytes]) -> dict[str, Any]:
    Path("left alone").mkdir()
    write("left alone/f.jsonl", lines)
    return report_of("dedup", "left alone/f.jsonl", "--state", "other")


def assert_outputs_as_alone() -> None:
    assert read_output(Path(), "f") == read_output(Path("left alone"), "f")


def wait_for_uniques(size: int, process: subprocess.Popen[str]) -> None:
    """Wait until ``size`` bytes of uniques are written; the run must not end before."""
    until = time.monotonic() + SECONDS_MAX
    while not (UNIQUES.is_file() and UNIQUES.stat().st_size >= size):
        assert process.poll() is None, "it ended by itself"
        assert time.monotonic() < until, f"{UNIQUES} has not grown to {size} bytes"
        time.sleep(0.002)


def uniques_of(*documents: dict[str, Any], options: Sequence[str]) -> list[str]:
    """Run `dedup` on the state for these documents; return the ids of the uniques."""
    write("f.jsonl", [json.dumps(each).encode() for each in documents])
    report_of(*F, *options, "--set", "index.same_id=replace", "--unique", "u", "--force")
    return [each["id"] for each in json_lines(Path("u"))]


def interrupted_run() -> None:
    """Run `dedup f.jsonl --state s`, and kill it when it has written some uniques."""
    with started(*F, *SMALL_BATCHES) as process:
        wait_for_uniques(SOME_BATCHES_BYTES, process)


def test_two_files_on_one_state_have_the_outcome_of_one(lines: list[bytes]) -> None:
    part = [line for line in lines if b'"id"' in line][:800]
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

    assert {each["source"]["topic"] for each in b.duplicates} == {"b.jsonl#2"}
    assert {each["original"]["source"]["topic"] for each in b.duplicates} == {
        "a.jsonl#1",
        "b.jsonl#2",
    }

    def pairs(records: list[dict[str, Any]]) -> list[tuple[str, str, int]]:
        return [(each["id"], each["original"]["id"], each["distance"]) for each in records]

    assert pairs(a.duplicates + b.duplicates) == pairs(whole.duplicates)


def test_written_outputs_are_not_begun_anew_unasked(lines: list[bytes]) -> None:
    write("f.jsonl", lines[:50])
    report_of(*F)
    before = read_output(Path(), "f")
    message = message_of(ExitCode.USAGE, *F)
    assert [part for part in ("run 1", "f.jsonl", "50 lines") if part not in message] == []
    assert read_output(Path(), "f") == before


def test_a_refused_command_writes_nothing(lines: list[bytes]) -> None:
    write("f.jsonl", lines[:20])
    write("g.jsonl", [b'{"body": "x"}'] * 3)
    report_of(*F)
    before = read_output(Path(), "f")
    names = ("unique", "duplicates", "dead-letters")
    same_outputs = [part for name in names for part in (f"--{name}", f"f.{name}.jsonl")]
    assert "fields.text" in message_of(ExitCode.USAGE, *G, *same_outputs, "--force")
    assert read_output(Path(), "f") == before
    assert "fields.text" in message_of(ExitCode.USAGE, *G)
    assert list(Path().glob("g.*")) == [Path("g.jsonl")]
    report_of(*F, "--force")  # the state is not locked


@pytest.mark.slow
def test_killed_at_any_moment_the_outcome_is_the_same(lines: list[bytes]) -> None:
    expected = run_alone(lines)
    write("f.jsonl", lines)
    total = Path("left alone/f.unique.jsonl").stat().st_size
    rng = random.Random(5)
    killed = 0
    for point in sorted(rng.randrange(1, total * 95 // 100) for _ in range(6)):
        with started(*F, *SMALL_BATCHES) as process:
            wait_for_uniques(point, process)
            time.sleep(rng.random() * 0.02)  # into the middle of a batch, or of a commit
            process.send_signal(signal.SIGKILL)
            process.wait(SECONDS_MAX)
            killed += process.returncode == -signal.SIGKILL
    report = report_of(*F, *SMALL_BATCHES)

    assert killed >= 5
    assert report["resumed_after_line"] > 0
    figures = ["documents", "duplicates", "dead_letters_by_reason", "lines", "index_documents"]
    assert [report[name] for name in figures] == [expected[name] for name in figures]
    assert_outputs_as_alone()


@pytest.mark.parametrize("done", [0, 1, 3])
def test_bytes_that_were_never_committed_are_dropped(done: int, lines: list[bytes]) -> None:
    part = [*lines[:20], b"", *lines[20:299]]
    expected = run_alone(part)
    write("f.jsonl", part)
    small = Settings(batch=BatchSettings(documents=100))
    with launched(small, DedupRequest(["f.jsonl"], dict.fromkeys(KINDS), Path("s"))) as run:
        steps = run.dedup.run()
        for _ in range(done):
            next(steps)
    with UNIQUES.open("ab") as file:
        file.write(lines[0] + b"\nhalf a li")

    report = report_of(*F)

    assert report["resumed_after_line"] == 100 * done
    assert (report["lines"], report["blank_lines"]) == (300, 1)
    assert report["index_documents"] == expected["index_documents"]
    assert_outputs_as_alone()


def test_outputs_and_state_in_a_folder_are_not_its_documents(lines: list[bytes]) -> None:
    """So the command can be repeated after a kill, as with a file."""
    write("f.jsonl", lines[:300])
    small = Settings(batch=BatchSettings(documents=100))
    outputs = dict.fromkeys(KINDS, None) | {"unique": "f.unique.jsonl"}
    with launched(small, DedupRequest(["."], outputs, Path("s"))) as run:
        next(run.dedup.run())

    command = ("dedup", ".", "--state", "s", "--unique", "f.unique.jsonl")
    report = report_of(*command)

    assert (report["files"], report["resumed_after_line"], report["lines"]) == (1, 100, 300)
    again = report_of(*command, "--force")
    assert (again["files"], again["documents"], again["unique"]) == (1, report["documents"], 0)

    Path("in").mkdir()
    write("in/g.jsonl", lines[:3])
    Path("in/u.partial").write_bytes(b"of a run without a state that was killed")
    assert report_of("dedup", "in", "--unique", "in/u")["files"] == 1


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_run_says_that_it_can_go_on(sent: signal.Signals, lines: list[bytes]) -> None:
    write("f.jsonl", lines[:1500])
    with started(*F, *SMALL_BATCHES) as process:
        wait_for_uniques(SOME_BATCHES_BYTES, process)
        process.send_signal(sent)
        _, message = process.communicate(timeout=SECONDS_MAX)
    assert process.returncode == 128 + sent
    assert "continue" in message
    assert "Traceback" not in message
    report = report_of(*F)
    assert report["resumed_after_line"] > 0
    assert report["lines"] == 1500


def test_another_command_does_not_continue_an_interrupted_run(lines: list[bytes]) -> None:
    write("f.jsonl", lines[:1500])
    write("g.jsonl", lines[1500:1600])
    interrupted_run()

    message = message_of(ExitCode.RUNTIME, *G)
    for part in ("f.jsonl", "g.jsonl", "--abandon"):
        assert part in message
    message = message_of(ExitCode.RUNTIME, *F, "--unique", "u")
    assert "--unique" in message
    assert str(UNIQUES.resolve()) in message
    with UNIQUES.open("ab") as file:
        file.write(b"half a li")  # a crash may leave a part of a line

    report = report_of(*G, "--abandon")

    kept = UNIQUES.read_bytes()
    assert (report["run"], report["resumed_after_line"]) == (2, None)
    assert kept.count(b"\n") + report["unique"] == report["index_documents"]
    assert kept.endswith(b"\n")


def test_a_run_does_not_go_on_when_its_input_or_an_output_has_changed(lines: list[bytes]) -> None:
    write("f.jsonl", lines[:1500])
    interrupted_run()
    uniques = UNIQUES.read_bytes()
    os.truncate(UNIQUES, 10)
    message = message_of(ExitCode.RUNTIME, *F)
    assert [part for part in (str(UNIQUES), "10 bytes") if part not in message] == []
    UNIQUES.write_bytes(uniques)
    for changed in ([b'{"text": "another first line"}', *lines[1:1500]], []):
        write("f.jsonl", changed)
        assert "f.jsonl" in message_of(ExitCode.RUNTIME, *F)
    write("f.jsonl", lines[:1600])  # added lines at the end do not count as a change
    assert report_of(*F)["lines"] == 1600


def test_a_second_process_on_a_state_does_not_disturb_the_first(lines: list[bytes]) -> None:
    write("f.jsonl", lines)
    write("g.jsonl", lines[:10])
    with started(*F, *SMALL_BATCHES, "--json") as process:
        wait_for_uniques(1, process)
        process.send_signal(signal.SIGSTOP)
        try:
            message = message_of(ExitCode.RUNTIME, *G)
        finally:
            process.send_signal(signal.SIGCONT)
        out, _ = process.communicate(timeout=SECONDS_MAX)

    assert str(Path("s")) in message
    assert process.returncode == ExitCode.OK
    assert json.loads(out)["lines"] == len(lines)
    assert not Path("g.unique.jsonl").exists()


def test_windows_replaced_ids_and_scopes_hold_across_runs() -> None:
    text = "北京今天下雪了，地铁照常运行，早高峰时各条线路都有人扫雪，公交车慢一些，出租车少一些。"
    other = "今年春茶的产量比去年高出两成，茶农忙着采摘，收购价却比往年低了不少，合作社正在想办法。"
    options = ("--set", "index.window=10d", "--set", "fields.scope=tenant")

    def document(name: str, text: str, day: int, tenant: str = "x") -> dict[str, Any]:
        time_ms = 1_714_536_000_000 + day * 86_400_000
        return {"id": name, "text": text, "timestamp": time_ms, "tenant": tenant}

    for days, uniques in (
        ((("a", text, 0), ("b", text, 1), ("c", text, 1, "y")), ["a", "c"]),
        ((("d", text, 9), ("a", other, 9), ("e", text, 9)), ["a", "e"]),
        ((("f", text, 20), ("g", text, 30), ("h", other, 15)), ["f"]),
    ):
        assert uniques_of(*(document(*each) for each in days), options=options) == uniques
    assert "window" in message_of(ExitCode.CONFIGURATION, *F, "--set", "index.same_id=replace")


def test_a_replaced_entry_is_not_in_the_state_of_later_runs() -> None:
    for documents, uniques in (
        ({"a": TEXT}, "a"),
        ({"a": OTHER}, "a"),
        ({"b": TEXT, "c": OTHER}, "b"),
    ):
        given = [{"id": name, "text": text} for name, text in documents.items()]
        assert uniques_of(*given, options=()) == [uniques]


def test_the_names_of_a_stored_run_are_fixed() -> None:
    """Later versions must be able to read them."""
    run = RunProgress(
        run=3,
        inputs=("新闻.jsonl", "b.csv"),
        file=1,
        outputs={
            "unique": OutputState(Path("/data/out/u.jsonl"), 7000),
            "duplicates": OutputState(Path("/data/out/d e\udcff.jsonl"), 900),  # no UTF-8
            "dead_letters": OutputState(Path("/data/out/x.jsonl"), 0),
        },
        lines=500,
        digest=(1 << 64) - 1,
        lines_before=70,
        counts={"unique": 450, "dead_letter/not_json": 2},
    )
    stored = (
        '{"run":3,"finished":false,"inputs":["新闻.jsonl","b.csv"],"file":1,"lines":500,'
        '"lines_xxh3":18446744073709551615,"lines_before":70,"outputs":{'
        '"unique":{"path":"/data/out/u.jsonl","bytes":7000},'
        '"duplicates":{"path":"/data/out/d%20e%FF.jsonl","bytes":900},'
        '"dead_letters":{"path":"/data/out/x.jsonl","bytes":0}},'
        '"counts":{"unique":450,"dead_letter/not_json":2}}'
    ).encode()

    assert encode_run(run) == stored
    assert decode_run(stored) == run
    assert decode_run(b"") is None
