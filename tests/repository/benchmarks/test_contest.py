"""The contest runs; its ratios compare turns of one round, and its JSON has all fields."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from benchmarks.contest import __main__ as contest
from benchmarks.contest import figures
from benchmarks.contest.broker import ContestBroker
from benchmarks.contest.processor_time import cpu_seconds, descendants
from benchmarks.contest.service import Observed, Waits
from benchmarks.contest.shapes import SHAPES
from benchmarks.contest.speed import Run
from benchmarks.report import Spread, show, tables_of


def run_of(cpu_seconds: float, *, broker: float = 1.0, stored: int = 0) -> Run:
    return Run(
        documents=1_000,
        seconds=2.0,
        cpu_seconds=cpu_seconds,
        broker_cpu_seconds=broker,
        internal_bytes=stored,
        duplicates=100,
    )


def observed(idle_share: float, p99: float) -> Observed:
    return Observed(
        idle_share=idle_share,
        low=Waits(rate=100, p50=10, p99=p99, core_share=0.3),
        half=Waits(rate=1_500, p50=20, p99=2 * p99, core_share=0.7),
        ceiling=Waits(rate=1_500, p50=8, p99=50, core_share=0.4),
    )


def test_ratios_of_shapes_are_of_one_round() -> None:
    runs = {
        "wide_1": [run_of(2.0), run_of(20.0), run_of(2.2)],
        "ceiling_1": [run_of(1.0), run_of(10.0), run_of(1.0)],
        "quix": [run_of(8.0), run_of(40.0), run_of(8.8)],
        "wide_16": [run_of(3.0, broker=0.9, stored=700_000)] * 3,
        "ceiling_16": [run_of(9.0, broker=0.6)] * 3,
        "classic_16": [run_of(3.0, stored=300_000)] * 3,
    }
    assert figures.speed_ratios(runs) == {
        "wide_1_beside_ceiling": Spread(2.0, 2.0, 2.2),
        "quix_beside_wide": Spread(2.0, 4.0, 4.0),
        "wide_16_beside_1": Spread(0.15, 1.3636, 1.5),
        "broker_beside_ceiling": Spread(1.5, 1.5, 1.5),
        "internal_bytes_a_document_wide": Spread(700.0, 700.0, 700.0),
        "internal_bytes_a_document_classic": Spread(300.0, 300.0, 300.0),
    }


def test_ratios_and_goals_are_of_shapes_that_there_are() -> None:
    names = [shape.name for shape in SHAPES]
    assert len(set(names)) == len(names)
    assert {name for _, *pair in figures.SHAPE_RATIOS.values() for name in pair} <= set(names)
    assert set(figures.INTERNAL_BYTES.values()) <= set(names)
    assert set(figures.GOALS) <= set(figures.RATIOS)


def test_json_has_null_for_what_did_not_run_and_the_longest_stall(
    capsys: pytest.CaptureFixture[str],
) -> None:
    seen = {1: [observed(0.01, 80), observed(0.01, 90)], 16: [observed(0.03, 200)]}
    runs = {
        "wide_1": [run_of(2.6), run_of(2.4), run_of(3.0)],
        "ceiling_1": [run_of(2.0)] * 3,
    }
    whole = figures.contest_of(runs, seen, [1.0, 4.0, 2.0])
    found = json.loads(msgspec.json.encode(whole))

    assert list(found["ratios"]) == list(figures.RATIOS)
    assert found["ratios"]["wide_1_beside_ceiling"] == 1.3
    assert found["ratios"]["idle_worker_core_share"] == 0.03
    assert found["ratios"]["kill_stall_seconds"] == 4.0
    assert found["ratios"]["p99_half_1_beside_ceiling"] == 3.4
    assert found["ratios"]["p99_half_64_beside_ceiling"] is None
    assert found["ratios"]["faust_beside_wide"] is None
    assert found["goals"]["faust_beside_wide"] == {"at_least": 12}
    low = {"rate": 100, "p50": 10, "core_share": 0.3}
    half = {"rate": 1_500, "p50": 20, "core_share": 0.7}
    ceiling = {"rate": 1_500, "p50": 8, "p99": 50, "core_share": 0.4}
    assert found["latency_ms"] == {
        "100": {"1": low | {"p99": 85}, "16": low | {"p99": 200}},
        "half": {"1": half | {"p99": 170}, "16": half | {"p99": 400}},
        "ceiling at half": {"1": ceiling, "16": ceiling},
    }
    show(tables_of(figures.shown(whole | {"machine": {"load": 1.0}})))
    shown = capsys.readouterr().out
    assert all(word in shown for word in ["ceiling_1", "kill_stall_seconds", "missed", "half"])


def test_the_time_of_a_process_has_that_of_what_it_started() -> None:
    work = "import time\nwhile time.process_time() < 0.3: pass\nprint(1, flush=True)\ninput()"
    nested = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {work!r}])"
    before = cpu_seconds(os.getpid())
    with subprocess.Popen(
        [sys.executable, "-c", nested], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"1\n"
        assert len(descendants(process.pid)) == 1
        assert cpu_seconds(process.pid) >= 0.3
        process.communicate(b"\n")
    assert cpu_seconds(process.pid) == 0
    assert cpu_seconds(os.getpid()) - before >= 0.3


def test_bytes_of_internal_topics_and_of_their_deleted_segments(tmp_path: Path) -> None:
    files = {
        "x.raw-0/00.log": 1_000,
        "x.log-0/00.log": 5,
        "x.log-0/00.index": 1_000,
        "x.log-0/01.log.deleted": 7,
        "x.changelog-12/00.log": 11,
        "old.log-0.3f2a-delete/00.log": 1_000,
        "__consumer_offsets-0/00.log": 1_000,
        "meta.properties": 1_000,
    }
    for name, size in files.items():
        path = tmp_path / "kafka" / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(size))
    broker = ContestBroker("127.0.0.1:1", tmp_path, os.getpid())
    assert broker.bytes_beside({"x.raw"}) == 5 + 7 + 11


@pytest.mark.slow
def test_a_small_contest_on_kafka_puts_one_object_on_standard_output(
    kafka_required: None,  # noqa: ARG001 - skips
    monkeypatch: pytest.MonkeyPatch,
    capsysbinary: pytest.CaptureFixture[bytes],
) -> None:
    monkeypatch.setattr(contest, "WARM_UP_SHAPES", ())
    arguments = ["--documents", "50", "--rounds", "1", "--only", "ceiling_1", "wide_1"]
    contest.main([*arguments, "--json", "-"])

    found = json.loads(capsysbinary.readouterr().out)
    assert found["ratios"]["wide_1_beside_ceiling"] > 0
    ceiling, wide = found["contenders"]
    assert (ceiling["shape"]["name"], wide["shape"]["name"]) == ("ceiling_1", "wide_1")
    assert ceiling["internal_bytes"]["median"] == 0
    assert wide["internal_bytes"]["median"] > 0
    for each in (ceiling, wide):
        assert each["cpu_seconds"]["median"] > 0
        assert each["broker_cpu_seconds"]["median"] > 0
        assert each["duplicates"] == 0
