"""A fault gets a victim only while there is another worker without a fault."""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.torture import victims
from tests.torture.faults import NobodyError
from tests.torture.test_stalls import RunningWorker
from tests.torture.victims import Victims
from tests.torture.workers import Cluster, Machine


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setattr(victims, "STEADY_SECONDS", 0.0)
    monkeypatch.setattr(victims, "FREE_SECONDS", 0.2)
    monkeypatch.setattr(victims, "LOOK_SECONDS", 0.01)
    made = Cluster(tmp_path, [])
    for number in range(3):
        worker = RunningWorker([], tmp_path / f"{number}.log")
        made.machines.append(Machine(f"worker-{number}", worker, tmp_path, tmp_path / "clock"))
        made.machines[-1].start()
    return made


def victims_of(cluster: Cluster) -> Victims:
    return Victims(random.Random(1), cluster, lambda _: None)


async def test_all_but_one_may_be_victims_at_a_time(cluster: Cluster) -> None:
    of_them = victims_of(cluster)
    async with AsyncExitStack() as stack:
        held = [await stack.enter_async_context(of_them.victim("…")) for _ in range(2)]
        assert held[0] is not held[1]
        with pytest.raises(NobodyError):
            async with of_them.victim("…"):
                pass
    async with of_them.victim("…"):
        pass


async def test_what_is_down_does_not_count_as_the_one_that_remains(cluster: Cluster) -> None:
    """Once the last worker was stopped while two were down, so no worker could get its shards."""
    for machine in cluster.machines[:2]:
        machine.kill()
    with pytest.raises(NobodyError):
        async with victims_of(cluster).victim("…"):
            pass


async def test_what_has_just_begun_does_not_count_either(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(victims, "STEADY_SECONDS", 60.0)
    with pytest.raises(NobodyError):
        async with victims_of(cluster).victim("…"):
            pass


async def test_a_second_strike_on_the_same_machine_waits_until_it_can_be_spared(
    cluster: Cluster,
) -> None:
    of_them = victims_of(cluster)
    first, *others = cluster.machines

    async def release_soon(stack: AsyncExitStack) -> None:
        await asyncio.sleep(0.05)
        await stack.aclose()

    stack = AsyncExitStack()
    for machine in others:
        await stack.enter_async_context(machine.held())
    freeing = asyncio.create_task(release_soon(stack))
    async with of_them.again(first, "…") as machine:
        assert machine is first
        assert freeing.done()
    await freeing
