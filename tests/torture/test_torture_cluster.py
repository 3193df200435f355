"""Two minutes of torture on three brokers; ``make torture ARGS='--brokers 3'`` runs longer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.rigs.brokers import run_until_orphaned
from tests.torture.faults import Fault

MINUTES = 1.5
DOCUMENTS = 4_500
FAULTS = 7
SEED = 20_261_123
KINDS = (
    Fault.KILL_WORKER,
    Fault.CUT_WORKER,
    Fault.FROZEN_WORKER,
    Fault.KILL_LOG_LEADER,
    Fault.CUT_BROKER,
    Fault.MOVE_LOG_LEADER,
    Fault.ADD_PARTITION,
)
SECONDS_MAX = 240
ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(
    os.environ.get("FIRSTSEEN_TORTURE_CLUSTER") != "1",
    reason="three brokers beside other tests stall for a minute: FIRSTSEEN_TORTURE_CLUSTER=1",
)
@pytest.mark.slow
@pytest.mark.timeout(SECONDS_MAX + 30)
@pytest.mark.usefixtures("enclosure_required", "kafka_required")
def test_faults_of_networks_and_brokers_lose_repeat_and_spoil_nothing(tmp_path: Path) -> None:
    """The run has its own namespaces and so is another process; it ends with this one."""
    arguments = f"--brokers 3 --minutes {MINUTES} --documents {DOCUMENTS} --faults {FAULTS}"
    out, told = tmp_path / "out", tmp_path / "err"
    command = [
        *(sys.executable, run_until_orphaned.__file__, sys.executable, "-m", "tests.torture"),
        *(*arguments.split(), "--seed", str(SEED), "--kinds", ",".join(KINDS)),
        *("--keep", str(tmp_path / "run")),
    ]
    with (
        out.open("wb") as stdout,
        told.open("wb") as stderr,
        subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=stdout, stderr=stderr
        ) as run,
    ):
        code = run.wait(SECONDS_MAX)
    lines = out.read_text("utf-8").splitlines()
    assert lines, told.read_text("utf-8")
    report = json.loads(lines[-1])
    assert code == 0, (report, told.read_text("utf-8"))
    assert report["brokers"] == 3
    assert len(report["faults_by_kind"]) >= 5, report["faults_skipped"]
    assert report["duplicates"] > DOCUMENTS / 10
