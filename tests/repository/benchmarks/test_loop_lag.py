"""The benchmark of the event loop runs to its end at a tiny size, and sees a step that is long."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

import pytest

from benchmarks import loop_lag


def test_every_case_comes_to_its_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "figures.json"
    sizes = ["--packets", "60", "--partitions", "5", "--rounds", "2", "--entries", "600"]
    loop_lag.main([*sizes, "--state-dir", str(tmp_path), "--json", str(path)])
    figures = json.loads(path.read_text("utf-8"))
    cases = {each["name"]: each for each in figures["cases"]}
    assert tuple(cases) == loop_lag.CASES
    assert [each["documents"] for each in cases.values()] == [60, 60, 10, 600]
    assert all(each["steps"] >= len(each["longest"]) == 5 for each in cases.values())
    assert all(each["longest"] == sorted(each["longest"], reverse=True) for each in cases.values())
    shown = capsys.readouterr().out
    assert "partitions" in shown


def test_a_long_step_is_seen() -> None:
    loop = loop_lag.TimedLoop()

    def compute() -> None:
        end = time.thread_time() + 0.06
        while time.thread_time() < end:
            pass

    async def task() -> None:
        await asyncio.sleep(0)
        compute()
        loop.call_later(0.001, compute)
        await asyncio.sleep(0.1)

    loop.run_until_complete(task())
    loop.close()

    assert sum(step > loop_lag.STEP_MAX for step in loop.steps) == 2
