"""What is decided is committed, with the generation of its shards, and once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from streams.errors import UnansweredError
from streams.kafka.errors import AbortedError, FencedError, StaleGenerationError
from streams.worker import commit
from tests.unit.worker.hand_driven import TOPICS, Commit, HandDriven, text, turns, until

pytestmark = pytest.mark.usefixtures("quick")

ABORTED = AbortedError("aborted")


def play(
    scene: Callable[[HandDriven], Coroutine[Any, Any, None]],
) -> HandDriven:
    """Play a scene with a worker whose shards 0 to 2 are open."""

    async def run() -> HandDriven:
        async with HandDriven().running() as worker:
            await worker.open(0, 1, 2)
            await scene(worker)
        return worker

    return asyncio.run(run())


# ---- the committer of these tests refuses a commit without the offset of each shard in it


def test_the_first_progress_carries_offsets() -> None:
    """Given new shards, then the commit that says where they begin has their offsets: a worker that
    was paused before its first commit must not commit after others own its partitions.
    """

    async def scene(worker: HandDriven) -> None:
        assert worker.committer.calls == [([0, 1, 2], b"generation 1")]
        assert worker.broker.offsets == {0: 0, 1: 0, 2: 0}

    play(scene)


def test_positions_alone_carry_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given shards without documents of their own, when they commit how far they need the log, then
    those commits have their offsets, which are as before.
    """
    monkeypatch.setattr(commit, "_POSITION_SECONDS", 0.0)

    async def scene(worker: HandDriven) -> None:
        first = worker.broker.logged(2)[-1].progress
        worker.send(1, text(1))
        await until(lambda: worker.broker.logged(2)[-1].progress.position > first.position)
        assert worker.broker.logged(2)[-1].progress.next == first.next == 0
        await until(lambda: worker.broker.offsets == {0: 0, 1: 1, 2: 0})

    play(scene)


def test_removals_alone_carry_offsets() -> None:
    """Given a delete in one partition of what another has put out, then the shard that only lets
    go of its entry commits that with its offset.
    """

    async def scene(worker: HandDriven) -> None:
        worker.send(1, text(1))
        await until(lambda: worker.outputs)
        store = worker.shards[1].store
        assert store is not None
        assert len(store) == 1
        calls = len(worker.committer.calls)
        worker.fetch(2, 0, [None])
        worker.fetch(2, 1, [text(2)])
        await until(lambda: len(worker.outputs) >= 2)
        assert len(worker.committer.calls) > calls

    worker = play(scene)
    assert worker.broker.offsets[2] == 2


# ---- commits that fail


def test_an_answer_that_is_lost_opens_the_shards_of_that_commit_again() -> None:
    """Given a commit that took place, and an answer that did not come, then the shards in it are
    opened as new ones, from what is committed, and no other; nothing is put out twice.
    """

    async def scene(worker: HandDriven) -> None:
        before = dict(worker.shards)
        worker.committer.script.append(Commit(UnansweredError("no answer"), is_done=True))
        worker.send(1, text(1))
        await until(lambda: worker.shards.get(1) is not before[1] and worker.is_open(1))
        assert worker.shards[0] is before[0]
        assert worker.shards[2] is before[2]
        assert worker.shards[1].number > before[1].number
        assert worker.member.reads[-1] == (1, 1, worker.shards[1].number)
        worker.send(1, text(2))
        worker.send(0, text(3))
        await until(lambda: len(worker.outputs) == 3)
        assert sorted(worker.outputs) == [("unique", "0@0"), ("unique", "1@0"), ("unique", "1@1")]

    play(scene)


def test_a_commit_without_answer_that_did_not_take_place_is_made_again() -> None:
    """Given a commit that never arrived, and no answer, then the shard is read again from where it
    was, and its document is put out.
    """

    async def scene(worker: HandDriven) -> None:
        before = worker.shards[1]
        worker.committer.script.append(Commit(UnansweredError("no answer")))
        worker.committer.script[0].is_done = False
        worker.send(1, text(1))
        await until(lambda: worker.shards.get(1) is not before and worker.is_open(1))
        assert worker.member.reads[-1] == (1, 0, worker.shards[1].number)
        worker.fetch(1, 0, [text(1)])
        await until(lambda: worker.outputs == [("unique", "1@0")])
        # It was in the log already: the record waited for its verdict there.
        assert len(worker.broker.packets(1)) == 1

    play(scene)


@pytest.mark.parametrize("is_announced", [True, False])
def test_a_stale_generation_waits_for_the_next_one(is_announced: bool) -> None:
    """Given commits that are refused as of an older generation, then the same shards commit again
    and again with the group metadata of now, until that is accepted: whether the worker has learned
    of the rebalance, or only the member has.
    """

    async def scene(worker: HandDriven) -> None:
        before = dict(worker.shards)
        stale = StaleGenerationError("of an older generation")
        worker.committer.script.extend(Commit(stale) for _ in range(3))
        last = Commit(stale, is_held=True)
        worker.committer.script.append(last)
        worker.send(1, text(1))
        await last.began.wait()
        worker.member.generation = b"generation 2"
        if is_announced:
            worker.assign()
        last.go.set()
        await until(lambda: worker.outputs == [("unique", "1@0")])
        assert worker.committer.calls[1:] == [
            *[([1], b"generation 1")] * 4,
            ([1], b"generation 2"),
        ]
        assert worker.shards == before

    play(scene)


@pytest.mark.parametrize("error", [ABORTED, FencedError("it took too long")])
def test_a_transaction_that_is_aborted_is_made_again(error: AbortedError | FencedError) -> None:
    """Given nine aborts in a row, twice, with a success between them, then the worker goes on, with
    the same shards, and each document is put out once.
    """

    async def scene(worker: HandDriven) -> None:
        before = dict(worker.shards)
        for number in (1, 2):
            worker.committer.script.extend(Commit(error) for _ in range(9))
            worker.send(1, text(number))
            await until(lambda: len(worker.outputs) == sum(worker.sent.values()))
        assert worker.shards == before

    worker = play(scene)
    assert worker.outputs == [("unique", "1@0"), ("unique", "1@1")]


def test_ten_aborts_in_a_row_end_the_worker() -> None:
    """Given transactions that are aborted each time, then the tenth ends the worker, and is what it
    says it failed of.
    """

    async def scene(worker: HandDriven) -> None:
        worker.committer.script.extend(Commit(ABORTED) for _ in range(10))
        worker.send(1, text(1))
        await until(lambda: worker.failures)
        assert not worker.committer.script
        assert worker.failures == [ABORTED]
        assert worker.pipeline.failure is ABORTED
        worker.failures.clear()

    assert play(scene).outputs == []


def test_stages_go_on_while_a_commit_takes_long() -> None:
    """Given a commit that hangs, then what comes meanwhile is fingerprinted, ordered, looked up and
    decided, and put out with the next one.
    """

    async def scene(worker: HandDriven) -> None:
        held = Commit(is_held=True)
        worker.committer.script.append(held)
        worker.send(1, text(1))
        await held.began.wait()
        worker.send(2, text(2), text(1))
        decided = worker.pipeline.participant.replica
        await until(lambda: len(worker.broker.packets(2)) == 1 and not decided.undecided)
        assert worker.outputs == []
        held.go.set()
        await until(lambda: len(worker.outputs) == 3)

    worker = play(scene)
    assert worker.outputs[1:] == [(TOPICS.unique, "2@0"), (TOPICS.duplicates, "2@1")]


def test_nothing_is_committed_after_the_worker_begins_to_stop() -> None:
    """Given a worker that stops while a commit is under way, then that one ends, the progress of
    its shard is stored, and no other begins.
    """

    async def scene(worker: HandDriven) -> None:
        held = Commit(is_held=True)
        worker.committer.script.append(held)
        worker.send(1, text(1))
        await held.began.wait()
        worker.send(2, text(2))
        await turns()
        calls = len(worker.committer.calls)
        closing = asyncio.ensure_future(worker.pipeline.close())
        await turns()
        assert not closing.done()
        held.go.set()
        await asyncio.wait_for(closing, 5)
        await turns()
        assert len(worker.committer.calls) == calls
        assert worker.outputs == [("unique", "1@0")]

    play(scene)
