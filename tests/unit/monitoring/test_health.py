"""Liveness: a failure, a silent event loop, a stall; each with its reason, and nothing else."""

from __future__ import annotations

from simhash_core.documents import TopicPartition
from simhash_core.errors import FirstseenError
from streams.monitoring.health import Health, Stall
from tests.rigs.manual_clock import ManualClock


def test_starting_worker_is_alive_however_long_it_takes() -> None:
    clock = ManualClock()
    health = Health(120, lambda: None, clock)
    clock.now += 100_000
    assert health.why_dead() is None


def test_silent_event_loop_is_dead_until_it_runs_again() -> None:
    clock = ManualClock()
    health = Health(120, lambda: None, clock)
    health.beat()
    clock.now += 119
    assert health.why_dead() is None
    clock.now += 1
    assert "120 s" in (health.why_dead() or "")
    health.beat()
    assert health.why_dead() is None


def test_reason_names_every_stall() -> None:
    health = Health(120, lambda: None)
    health.stalled(
        [Stall(TopicPartition("raw", 0), 130, 7, 5), Stall(TopicPartition("raw", 1), 121, 9, 1)]
    )
    why = health.why_dead()
    assert why is not None
    for part in ("raw/0", "130 s", "offset 7", "raw/1", "121 s", "offset 9"):
        assert part in why
    health.stalled([])
    assert health.why_dead() is None


def test_failed_worker_is_dead_of_its_failure() -> None:
    assert Health(120, lambda: FirstseenError("no room")).why_dead() == "no room"


def test_worker_that_waits_for_another_is_alive_and_says_for_whom() -> None:
    health = Health(120, lambda: None)
    assert health.why_waiting() is None
    health.waits("documents have waited 300 s for shard 2 to report")
    assert health.why_dead() is None
    assert "shard 2" in (health.why_waiting() or "")
