"""Shards come and go as the group moves partitions, and none of them waits for another."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from streams.errors import BrokerUnavailableError, UnansweredError
from streams.kafka.errors import StaleGenerationError
from streams.worker.shard import AssignmentState
from tests.unit.worker.hand_driven import (
    TOPICS,
    Commit,
    HandDriven,
    text,
    turns,
    until,
)

pytestmark = pytest.mark.usefixtures("quick")

AWAY = BrokerUnavailableError("the broker is away")


def play(scene: Callable[[HandDriven], Coroutine[Any, Any, None]]) -> HandDriven:
    """Play a scene with a worker."""

    async def run() -> HandDriven:
        async with HandDriven().running() as worker:
            await scene(worker)
        return worker

    return asyncio.run(run())


# ---- revoked while something is under way


@pytest.mark.parametrize("is_deaf", [False, True], ids=["interrupted", "opened all the same"])
def test_a_revocation_does_not_wait_for_an_opening(is_deaf: bool) -> None:
    """Given a shard whose store is being opened in a thread, when its partition is revoked, then
    the shard is closed at once and the group goes on. When the partition comes back it is a new
    shard, which opens once the thread has let go of the store, is read and committed; and the old
    one has no part in that.

    A revocation that waited for the opening, and was cancelled by its time limit, left the old
    shard in place: its partition was neither opened nor read when it came back.
    """

    async def scene(worker: HandDriven) -> None:
        gate = worker.stores.gates[1] = threading.Event()
        worker.stores.is_deaf = is_deaf
        worker.assign(0, 1)
        await until(lambda: worker.is_open(0) and 1 in worker.stores.begun)
        old = worker.shards[1]

        await asyncio.wait_for(worker.revoke(1), 1)

        assert not old.is_opening
        assert 1 not in worker.shards
        worker.assign(1)
        new = worker.shards[1]
        assert new is not old
        assert new.number > old.number
        await turns()
        assert worker.stores.begun.count(1) == 1, "its store is still being opened for the old one"
        gate.set()
        await until(lambda: worker.is_open(1))
        assert old.state is AssignmentState.CLOSED
        assert (old.store is None) or old.store.closed
        assert worker.member.reads[-1] == (1, 0, new.number)
        worker.send(1, text(1))
        await until(lambda: worker.outputs == [("unique", "1@0")])

    play(scene)


def test_a_revocation_waits_for_the_commit_under_way_and_no_other() -> None:
    """Given a commit under way for one shard, then the revocation of another does not wait; that of
    its own waits until it has ended, and the shard is closed at once all the same.
    """

    async def scene(worker: HandDriven) -> None:
        await worker.open(0, 1, 2)
        held = Commit(is_held=True)
        worker.committer.script.append(held)
        worker.send(1, text(1))
        await held.began.wait()
        old = worker.shards[1]

        await asyncio.wait_for(worker.revoke(2), 1)
        given_up = worker.revoke(1)
        await turns()

        assert not given_up.done()
        assert old.state is not AssignmentState.OPEN
        assert worker.shards.keys() == {0}
        held.go.set()
        await given_up
        assert worker.outputs == [("unique", "1@0")]

    play(scene)


@pytest.mark.parametrize("is_refused", [False, True], ids=["committed", "refused"])
def test_a_commit_under_way_has_no_part_in_the_new_shard(is_refused: bool) -> None:
    """Given a commit under way for a shard whose partition is revoked and comes back before it
    ends, when it is committed or refused at last, then the store of the old shard is not written,
    the new one begins where the group's offset is, and the document is put out once.
    """

    async def scene(worker: HandDriven) -> None:
        await worker.open(0, 1)
        error = StaleGenerationError("of an older generation") if is_refused else None
        held = Commit(error, is_held=True)
        worker.committer.script.append(held)
        worker.send(1, text(1))
        await held.began.wait()
        old = worker.shards[1]
        store = old.store
        assert store is not None
        before = store.progress()

        worker.revoke(1)  # the rebalance goes on, whatever the commit does
        assert store.closed or store.progress() == before
        worker.member.generation = b"generation 2"
        worker.assign(1)
        new = worker.shards[1]
        await turns()
        assert not new.is_open, "the offset of its partition is not stable"
        held.go.set()
        await until(lambda: worker.is_open(1))

        assert new.owned is not None
        assert new.store is not None
        assert new.store is not store
        assert store.closed
        begins = 0 if is_refused else 1
        assert worker.member.reads[-1] == (1, begins, new.number)
        assert new.owned.stream.next == begins
        if is_refused:  # what the old shard had read of it is read again
            worker.fetch(1, 0, [text(1)])
        worker.send(1, text(2))
        await until(lambda: len(worker.outputs) == 2)
        assert worker.outputs == [("unique", "1@0"), ("unique", "1@1")]

    play(scene)


def test_what_was_fetched_for_a_closed_shard_is_dropped() -> None:
    """Given records on their way when a partition is revoked and comes back, then those that carry
    the number of the old shard are not taken in: neither what the member has fetched, nor a batch
    that waits for a schema.
    """

    async def scene(worker: HandDriven) -> None:
        await worker.open(0, 1)
        old = worker.shards[1].number
        await worker.revoke(1)
        await worker.open(1)
        late = worker.records(1, 0, [text(1)])._replace(reading=old)
        worker.member.put(late)
        await turns()
        await worker.pipeline.sender.take_in([late])
        worker.fetch(1, 0, [text(2)])
        await until(lambda: worker.outputs)
        assert [len(each.columns) for each in worker.broker.packets(1)] == [1]
        assert worker.outputs == [("unique", "1@0")]

    play(scene)


def test_lost_partitions_are_closed_and_their_commit_is_refused() -> None:
    """Given a member that was thrown out of the group during a commit, then its shards are closed
    at once, what is refused is not tried again, and the shards are opened when they come back.
    """

    async def scene(worker: HandDriven) -> None:
        await worker.open(0, 1)
        held = Commit(StaleGenerationError("thrown out"), is_held=True)
        worker.committer.script.append(held)
        worker.send(1, text(1))
        await held.began.wait()
        worker.pipeline.lost(frozenset({0, 1}), b"")
        assert not worker.shards
        calls = len(worker.committer.calls)
        worker.member.generation = b"generation 2"
        held.go.set()
        await turns()
        assert len(worker.committer.calls) == calls
        assert worker.outputs == []
        await worker.open(0, 1)
        worker.fetch(1, 0, [text(1)])
        await until(lambda: worker.outputs == [("unique", "1@0")])

    play(scene)


# ---- each shard opens by itself


@pytest.mark.parametrize("error", [AWAY, UnansweredError("no answer")])
def test_an_error_of_one_opening_does_not_discard_the_others(error: BrokerUnavailableError) -> None:
    """Given two shards that are opened together, and a store of one of them that cannot be opened
    for a while, then the other opens, and works, meanwhile; the store of that one is opened once.
    """

    async def scene(worker: HandDriven) -> None:
        worker.stores.errors[1].extend([error] * 3)
        gate = threading.Event()
        worker.assign(0, 1, 2)
        await until(lambda: worker.is_open(0) and worker.is_open(2))
        worker.stores.gates[1] = gate
        worker.send(2, text(1))
        await until(lambda: worker.outputs == [("unique", "2@0")])
        gate.set()
        await until(lambda: worker.is_open(1))
        assert worker.stores.begun.count(0) == worker.stores.begun.count(2) == 1
        assert worker.stores.begun.count(1) == 4

    play(scene)


def test_a_partition_in_an_open_transaction_does_not_keep_others_from_opening() -> None:
    """Given the offset of one partition in a transaction that nobody ends yet, then all others
    open, and that one does when the transaction has ended.
    """

    async def scene(worker: HandDriven) -> None:
        worker.broker.unstable.add(2)
        worker.assign(0, 1, 2)
        await until(lambda: worker.is_open(0) and worker.is_open(1))
        assert 2 not in worker.stores.begun
        worker.broker.unstable.clear()
        await until(lambda: worker.is_open(2))

    play(scene)


@pytest.mark.parametrize("who", ["member", "index", "log"])
def test_a_broker_that_is_away_is_waited_for(who: str) -> None:
    """Given no answer to one of the questions of an opening, then it is asked again, until there
    is one.
    """

    async def scene(worker: HandDriven) -> None:
        client = getattr(worker, who)
        client.error = AWAY
        worker.assign(0, 1)
        await asyncio.sleep(0.02)
        assert worker.shards.keys() == {0, 1}
        assert not any(shard.is_open for shard in worker.shards.values())
        client.error = None
        await until(lambda: worker.is_open(0) and worker.is_open(1))

    play(scene)


def test_a_shard_that_is_revoked_in_every_step_of_its_opening_is_let_go() -> None:
    """Given a partition that is revoked after any number of turns of the loop since it was
    assigned, then its shard is closed, its store released, and its slot of the index given back;
    and it opens when it comes back.
    """

    async def scene(worker: HandDriven) -> None:
        await worker.open(0)
        index = worker.pipeline.participant.index
        slots = len(index._counts)
        for count in range(60):
            worker.assign(1)
            shard = worker.shards[1]
            await turns(count)
            await asyncio.wait_for(worker.revoke(1), 1)
            assert not shard.is_opening
            await asyncio.wait_for(shard.released(), 5)
            assert shard.store is None or shard.store.closed
            assert len(index._counts) == slots
        await worker.open(1)
        worker.send(1, text(1))
        await until(lambda: worker.outputs == [("unique", "1@0")])

    play(scene)


def test_other_shards_wait_for_the_first_of_a_new_index() -> None:
    """Given a worker without shard 0 and no index yet, then its shards wait until another worker
    has begun the index: its settings are those of the first shard.
    """

    async def scene(worker: HandDriven) -> None:
        worker.assign(1)
        await until(lambda: worker.shards[1].is_filled)
        await asyncio.sleep(0.01)
        assert not worker.committer.calls
        worker.assign(0)
        await until(lambda: worker.is_open(0) and worker.is_open(1))
        assert worker.committer.calls[0][0][0] == 0

    play(scene)


def test_stopping_closes_what_is_opening_and_what_is_open() -> None:
    """Given one shard that is open and one whose store is being opened, when the worker stops, then
    both are released, and no store stays open.
    """

    async def scene(worker: HandDriven) -> None:
        gate = worker.stores.gates[1] = threading.Event()
        worker.assign(0, 1)
        await until(lambda: worker.is_open(0) and 1 in worker.stores.begun)
        shards = list(worker.shards.values())
        closing = asyncio.ensure_future(worker.pipeline.close())
        await turns()
        gate.set()
        await asyncio.wait_for(closing, 5)
        assert [each.state for each in shards] == [AssignmentState.CLOSED] * 2
        assert all(each.store is None or each.store.closed for each in shards)

    worker = play(scene)
    assert TOPICS.log not in worker.appender.dropped
