"""Moves in the workers' logs are counted, and attributed to faults."""

from __future__ import annotations

from datetime import datetime

import pytest

from tests.torture.faults import Fault, Strike
from tests.torture.phases import acquisitions, phases

AT = datetime(2026, 11, 24, 12, 0, 10).astimezone().timestamp()
LOG = """\
2026-11-24 12:00:10,000 INFO streams.worker.acquisition: shard 3 acquired in 2.500 s: \
rebalance 0.500, offsets 1.000, opening 0.500, session 0.000, reading 0.250, output 0.250
2026-11-24 12:00:11,000 INFO streams.worker.assignment: shard 3 closed: the worker stops
2026-11-24 12:00:40,000 INFO streams.worker.acquisition: shard 0 acquired in 4.000 s, \
nothing to output: rebalance unknown, offsets 3.000, opening 1.000
"""


def test_moves_are_read_from_a_log() -> None:
    first, second = acquisitions(LOG)
    assert first.assigned_at == pytest.approx(AT - 2.0)
    assert first.seconds["rebalance"] == 0.5
    assert second.seconds == {"offsets": 3.0, "opening": 1.0}


def test_moves_belong_to_the_faults_before_them() -> None:
    kill = Strike(Fault.KILL_WORKER, began=100.0, ended=101.0)
    found = phases([LOG, ""], [kill, Strike(Fault.KILL_LEADER)], AT - 108.0)
    assert found["offsets"] == {"moves": 2, "median": 2.0, "p99": 3.0, "longest": 3.0}
    assert found["by_kind"].keys() == {"kill_worker"}
    of_kill = found["by_kind"]["kill_worker"]
    assert of_kill["offsets"]["moves"] == 1
    assert of_kill["until_assigned"]["longest"] == 6.0


def test_shards_may_be_acquired_at_the_same_moment() -> None:
    other = LOG.replace("shard 3", "shard 0").replace("output 0.250", "leading 0.250")
    kill = Strike(Fault.KILL_WORKER, began=100.0, ended=101.0)
    of_kill = phases([LOG, other], [kill], AT - 108.0)["by_kind"]["kill_worker"]
    assert of_kill["offsets"]["moves"] == 2
    assert of_kill["until_assigned"] == {"moves": 1, "median": 6.0, "p99": 6.0, "longest": 6.0}
