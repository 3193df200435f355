"""Which stalls count, and to which kind of fault they are attributed."""

from __future__ import annotations

import math
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.torture.faults import Fault, Strike
from tests.torture.stalls import AFTER_SECONDS, Stall, quiet_share, stalls_by_kind
from tests.torture.workers import Cluster, Machine, TorturedWorker
from tests.torture.writable import accept_writes

KILL, CUT = Fault.KILL_WORKER, Fault.CUT_WORKER


class RunningWorker(TorturedWorker):
    """A worker that always says that it is running."""

    def start(self, fault: str = "") -> None:
        del fault


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    made = Cluster(tmp_path, [])
    for number in range(2):
        worker = RunningWorker([], tmp_path / f"{number}.log")
        made.machines.append(Machine(f"worker-{number}", worker, tmp_path, tmp_path / "clock"))
        made.machines[-1].start()
    return made


def test_a_stall_is_of_each_fault_at_its_time_and_alone_of_none_that_overlap() -> None:
    strikes = [Strike(KILL, 10.0, 12.0), Strike(CUT, 20.0, 30.0), Strike(KILL, 100.0, 101.0)]
    stalls = [Stall(21.0, 29.0, 8.0), Stall(101.0, 104.0, 2.0), Stall(150.0, 190.0, 40.0)]
    assert stalls_by_kind(strikes, stalls) == {
        "cut_worker": {
            "strikes": 1,
            "median": 8.0,
            "longest": 8.0,
            "alone": 0,
            "longest_alone": 0.0,
        },
        "kill_worker": {
            "strikes": 2,
            "median": 5.0,
            "longest": 8.0,
            "alone": 1,
            "longest_alone": 2.0,
        },
    }


def test_a_stall_long_after_a_fault_is_not_of_it() -> None:
    strike, late = Strike(KILL, 10.0, 12.0), 12.0 + AFTER_SECONDS
    assert stalls_by_kind([strike], [Stall(late + 0.1, late + 9.0, 8.9)])[KILL]["longest"] == 0.0
    assert stalls_by_kind([strike], [Stall(late - 0.1, late + 9.0, 9.1)])[KILL]["longest"] == 9.1


def test_quiet_is_what_no_fault_covers() -> None:
    assert quiet_share([]) == 1.0
    strikes = [Strike(KILL, 0.0, 50.0), Strike(CUT, 10.0, 60.0), Strike(KILL, 80.0, 100.0)]
    assert quiet_share(strikes) == pytest.approx(0.2)


def test_brokers_accept_writes_with_a_leader_and_two_copies_of_each_partition() -> None:
    def copies(leader: int, *in_sync: int) -> SimpleNamespace:
        return SimpleNamespace(leader=leader, isrs=list(in_sync))

    assert accept_writes([copies(1, 1, 2), copies(3, 1, 2, 3)])
    assert not accept_writes([copies(1, 1, 2), copies(3, 3)])
    assert not accept_writes([copies(-1, 1, 2)])


async def test_one_unhurt_worker_and_its_brokers_are_what_a_stall_counts_from(
    cluster: Cluster,
) -> None:
    first, second = cluster.machines
    assert cluster.able_since() == first.unhurt_since

    async with first.held():
        assert cluster.able_since() == second.unhurt_since
        async with second.held():
            assert cluster.able_since() == math.inf
        back = time.monotonic()
        # The stall now belongs to another worker, so the first one's time before does not count.
        assert first.unhurt_since == math.inf
        assert back - 1.0 < cluster.able_since() <= back

    with cluster.without_brokers():
        assert cluster.able_since() == math.inf
    assert cluster.able_since() >= back
    with cluster.without_brokers(first):
        assert cluster.able_since() < math.inf
