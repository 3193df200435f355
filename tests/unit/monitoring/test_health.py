"""Liveness: a failure, a silent event loop, a stall; each with its reason, and nothing else."""

from __future__ import annotations

from simhash_core.documents import TopicPartition
from simhash_core.errors import FirstseenError
from streams.monitoring.health import Health, Stall
from tests.rigs.manual_clock import ManualClock


def test_a_worker_that_starts_is_alive() -> None:
    """Given a worker whose event loop has not run yet, however long, then it is alive: that it is
    not ready is another question.
    """
    clock = ManualClock()
    health = Health(120, lambda: None, clock)
    clock.now += 100_000

    assert health.why_dead() is None


def test_an_event_loop_that_stands_still() -> None:
    """Given a loop that ran once, when it is silent for the limit, then the worker is dead, with
    the reason; when it runs again, then it is alive.
    """
    clock = ManualClock()
    health = Health(120, lambda: None, clock)
    health.beat()
    clock.now += 119
    assert health.why_dead() is None
    clock.now += 1
    assert "120 s" in (health.why_dead() or "")
    health.beat()
    assert health.why_dead() is None


def test_stalls() -> None:
    """Given stalls, then the reason has each of them; when they are over, then it is alive."""
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


def test_a_failure() -> None:
    """Given a worker that has failed and is about to end, then it is dead of that."""
    assert Health(120, lambda: FirstseenError("no room")).why_dead() == "no room"


def test_waiting_for_another_worker_is_no_illness() -> None:
    """Given documents that wait for another worker, then this one is alive, and says for whom."""
    health = Health(120, lambda: None)
    assert health.why_waiting() is None
    health.waits("documents have waited 300 s for shard 2 to report")
    assert health.why_dead() is None
    assert "shard 2" in (health.why_waiting() or "")
