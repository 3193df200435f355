"""Networks of a run: each fault does what its name says, and nothing is left after the run."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.torture.enclosure import UNSHARE
from tests.torture.network import Node, Rules, cut, loss

END_SECONDS = 10.0
PEER = Node("peer", "10.219.0.9")


def test_rules_name_the_device_and_the_peers() -> None:
    """A broker connects to its own controller by the same address, over the loopback."""
    assert cut([PEER]) == Rules(
        ("iifname eth0 ip saddr { 10.219.0.9 } drop",),
        ("oifname eth0 ip daddr { 10.219.0.9 } drop",),
    )
    assert "numgen random mod 100 < 7 drop" in loss([PEER], 7).leaving[0]


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.usefixtures("enclosure_required")
def test_each_fault_hurts_a_connection_and_heals() -> None:
    subprocess.run(
        [*UNSHARE, sys.executable, "-m", "tests.torture.network_trial"],
        cwd=Path(__file__).parents[2],
        check=True,
        timeout=150,
    )


@pytest.mark.usefixtures("enclosure_required")
def test_nothing_outlives_a_run_that_is_killed(tmp_path: Path) -> None:
    """The process has its own process ids, so a growing file shows that it is alive."""
    ticks = tmp_path / "ticks"
    forever = f"(while sleep 0.05; do echo >> {ticks}; done) & wait"
    run = subprocess.Popen([*UNSHARE, "setsid", "--fork", "--wait", "sh", "-c", forever])
    deadline = time.monotonic() + END_SECONDS
    while not ticks.exists():
        assert time.monotonic() < deadline, "it does not run"
        time.sleep(0.05)

    run.send_signal(signal.SIGKILL)
    run.wait(END_SECONDS)

    size = -1
    while (now := ticks.stat().st_size) != size:
        assert time.monotonic() < deadline, "it goes on after its first process was killed"
        size = now
        time.sleep(0.5)
