"""Liveness: a failure, a silent event loop, a stall; each with its reason, and nothing else."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import cast

import pytest

from simhash_core.errors import FirstseenError
from streams.app import create_app
from streams.health import Health
from streams.pipeline import Pipeline
from streams.settings import Settings
from streams.stall_detector import Stall


class Clock:
    """A steady clock that a test sets."""

    now = 100.0

    def __call__(self) -> float:
        """The time."""
        return self.now


def test_a_worker_that_starts_is_alive() -> None:
    """Given a worker whose event loop has not run yet, however long, then it is alive: that it is
    not ready is another question.
    """
    clock = Clock()
    health = Health(120, lambda: None, clock)
    clock.now += 100_000

    assert health.why_dead() is None


def test_an_event_loop_that_stands_still() -> None:
    """Given a loop that ran once, when it is silent for the limit, then the worker is dead, and
    says of what; when it runs again, then it lives.
    """
    clock = Clock()
    health = Health(120, lambda: None, clock)
    health.beat()
    clock.now += 119
    assert health.why_dead() is None
    clock.now += 1
    assert health.why_dead() == "the event loop has not run for 120 s"
    health.beat()
    assert health.why_dead() is None


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_first_beat_is_that_of_the_first_turn() -> None:
    """Given an app whose event loop ran for one turn, before Faust has started anything, when it
    stands still from then on, then that is noticed.
    """
    clock = Clock()
    health = Health(120, lambda: None, clock)
    pipeline = SimpleNamespace(fail=None, measure=lambda: None)

    async def one_turn() -> None:
        create_app(Settings(), cast(Pipeline, pipeline), health)
        await asyncio.sleep(0)

    asyncio.run(one_turn())
    clock.now += 120

    assert health.why_dead() == "the event loop has not run for 120 s"


def test_stalls() -> None:
    """Given stalls, then each stands in the reason; when they are over, then it lives."""
    health = Health(120, lambda: None)
    health.stalled([Stall(("raw", 0), 130, 7, 5), Stall(("raw", 1), 121, 9, 1)])
    why = health.why_dead()
    assert why is not None
    assert why.startswith("stalled: raw/0 stands at offset 7")
    assert "raw/1 stands at offset 9" in why
    health.stalled([])
    assert health.why_dead() is None


def test_a_failure() -> None:
    """Given a worker that has failed and is about to end, then it is dead of that."""
    assert Health(120, lambda: FirstseenError("no room")).why_dead() == "no room"
