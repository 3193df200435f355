"""A shard is one assignment of one partition, and its state only moves forward."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from simhash_core.errors import ProtocolError
from streams.worker.shard import AssignmentState, Shard

OWNED = cast(Any, object())


def states_after(*steps: str) -> list[AssignmentState]:
    """The states of a shard, from its assignment on, after each of these steps."""
    shard = Shard(3, 1)
    states = [shard.state]
    for step in steps:
        if step == "open":
            shard.opened(OWNED)
        else:
            getattr(shard, step)()
        states.append(shard.state)
    return states


def test_the_states_in_order() -> None:
    """Given a shard that opens, closes, and is released, then it has each state once."""
    assert states_after("open", "close", "release") == list(AssignmentState)


def test_closing_again_changes_nothing() -> None:
    """Given a shard that is closed, or even released, then to close it again has no effect."""
    closing, closed = AssignmentState.CLOSING, AssignmentState.CLOSED
    opening = AssignmentState.OPENING
    assert states_after("close", "close", "release", "close") == [
        opening,
        closing,
        closing,
        closed,
        closed,
    ]


@pytest.mark.parametrize(
    "steps", [("close",), ("close", "release"), ("open",), ("open", "close"), ("release",)]
)
def test_what_is_open_or_closed_does_not_open(steps: tuple[str, ...]) -> None:
    """Given a shard that is not opening, then it cannot open: what was under way comes too late."""
    with pytest.raises(ProtocolError, match="shard 3 is"):
        states_after(*steps, "open")


def test_closing_interrupts_the_opening() -> None:
    """Given an opening under way in a thread, then it sees at once that the shard is closed; who
    waits for the store has it when the store is released.
    """

    async def scene() -> None:
        shard = Shard(3, 1)
        assert not shard.interrupted.is_set()
        released = asyncio.ensure_future(shard.released())
        shard.close()
        assert shard.interrupted.is_set()
        await asyncio.sleep(0)
        assert not released.done()
        shard.release()
        await released

    asyncio.run(scene())
