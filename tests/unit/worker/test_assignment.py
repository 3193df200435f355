"""Shards come and go as the group moves partitions, and none of them waits for another."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any, cast

import msgspec
import pytest

from simhash_core.errors import ProtocolError
from streams.errors import BrokerUnavailableError, UnansweredError
from streams.kafka.errors import StaleGenerationError
from streams.store.changelog_codec import LoggedProgress, encode_progress
from streams.worker import assignment, pipeline
from streams.worker.shard import AssignmentState, Shard
from tests.rigs.async_tests import WAIT_SECONDS, until
from tests.unit.worker.hand_driven import TOPICS, HandDriven, text, turns

AWAY = BrokerUnavailableError("the broker is away")
_, OPEN, CLOSING, CLOSED = AssignmentState

# ---- the states of a shard


async def test_a_shard_has_each_state_once_in_order() -> None:
    shard = Shard(3, 1)
    owned = cast(Any, object())
    shard.opened(owned)
    states = [shard.state]
    released = asyncio.ensure_future(shard.released())
    for step in (shard.close, shard.close, shard.release, shard.close):
        step()
        states.append(shard.state)
        assert shard.interrupted.is_set()
        with pytest.raises(ProtocolError, match="shard 3 is"):
            shard.opened(owned)
        await asyncio.sleep(0)
        assert released.done() == (shard.state is CLOSED)
    assert states == [OPEN, CLOSING, CLOSING, CLOSED, CLOSED]


# ---- ready


async def test_a_worker_is_ready_with_its_shards_or_when_none_were_left_for_a_while(
    worker: HandDriven, monkeypatch: pytest.MonkeyPatch
) -> None:
    shards = worker.pipeline.assignment
    ready = [shards.ready]  # not in the group yet
    worker.assign()
    ready.append(shards.ready)  # others may still release some
    monkeypatch.setattr(assignment, "_SHARED_SECONDS", 0.0)
    ready.append(shards.ready)
    worker.assign(0)
    ready.append(shards.ready)
    await until(lambda: shards.ready)
    assert ready == [False, False, True, False]


# ---- revoked during other work


@pytest.mark.parametrize("is_deaf", [False, True], ids=["interrupted", "opened all the same"])
async def test_a_revocation_does_not_wait_for_an_opening(worker: HandDriven, is_deaf: bool) -> None:
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
    assert old.state is CLOSED
    assert (old.store is None) or old.store.closed
    assert worker.member.reads[-1] == (1, 0, new.number)
    await worker.output(1, text(1))


async def test_an_index_begins_with_shard_0_alone(worker: HandDriven) -> None:
    # A worker that loses shard 0 before its first commit must not have begun the others: the next
    # owner of shard 0 may have other settings.
    first = worker.hold_commit()
    worker.assign(0, 1)
    await first.began.wait()
    assert [partitions for partitions, _ in worker.committer.calls] == [[0]]
    revoked = worker.revoke(0)
    first.go.set()
    await revoked
    await until(lambda: worker.is_open(1))


async def test_a_revocation_waits_for_the_commit_of_its_shard_and_no_other(
    worker: HandDriven,
) -> None:
    await worker.open(0, 1, 2)
    held = worker.hold_commit()
    worker.send(1, text(1))
    await held.began.wait()
    old = worker.shards[1]

    await asyncio.wait_for(worker.revoke(2), 1)
    given_up = worker.revoke(1)
    await turns()

    assert not given_up.done()
    assert old.state is not OPEN
    assert worker.shards.keys() == {0}
    held.go.set()
    await given_up
    assert worker.outputs == [("unique", "1@0")]


@pytest.mark.parametrize("is_refused", [False, True], ids=["committed", "refused"])
async def test_a_commit_under_way_has_no_part_in_the_new_shard(
    worker: HandDriven, is_refused: bool
) -> None:
    await worker.open(0, 1)
    held = worker.hold_commit(StaleGenerationError("of an older one") if is_refused else None)
    worker.send(1, text(1))
    await held.began.wait()
    old = worker.shards[1]
    worker.revoke(1)  # the rebalance does not wait for the commit
    worker.member.generation = b"generation 2"
    worker.assign(1)
    new = worker.shards[1]
    await turns()
    assert not new.is_open, "the offset of its partition is not stable"
    held.go.set()
    await until(lambda: worker.is_open(1))

    assert new is not old
    assert new.owned is not None
    begins = 0 if is_refused else 1
    assert worker.member.reads[-1] == (1, begins, new.number)
    assert new.owned.stream.next == begins
    if is_refused:  # records that the old shard had read are read again
        worker.fetch(1, 0, [text(1)])
    worker.send(1, text(2))
    await until(lambda: len(worker.outputs) == 2)
    assert worker.outputs == [("unique", "1@0"), ("unique", "1@1")]


async def test_what_was_fetched_for_a_closed_shard_is_dropped(worker: HandDriven) -> None:
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


async def test_lost_partitions_are_closed_and_their_refused_commit_is_not_made_again(
    worker: HandDriven,
) -> None:
    await worker.open(0, 1)
    held = worker.hold_commit(StaleGenerationError("thrown out"))
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


# ---- each shard opens independently


@pytest.mark.parametrize("error", [AWAY, UnansweredError("no answer")])
async def test_an_error_of_one_opening_does_not_discard_the_others(
    worker: HandDriven, error: BrokerUnavailableError
) -> None:
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


async def test_an_offset_in_an_open_transaction_keeps_only_its_own_shard_closed(
    worker: HandDriven,
) -> None:
    worker.broker.unstable.add(2)
    worker.assign(0, 1, 2)
    await until(lambda: worker.is_open(0) and worker.is_open(1))
    assert 2 not in worker.stores.begun
    worker.broker.unstable.clear()
    await until(lambda: worker.is_open(2))


@pytest.mark.parametrize("who", ["member", "index", "log"])
async def test_a_broker_that_is_away_is_waited_for(worker: HandDriven, who: str) -> None:
    client = getattr(worker, who)
    client.error = AWAY
    worker.assign(0, 1)
    await asyncio.sleep(0.02)
    assert worker.shards.keys() == {0, 1}
    assert not any(shard.is_open for shard in worker.shards.values())
    client.error = None
    await until(lambda: worker.is_open(0) and worker.is_open(1))


async def test_a_shard_can_be_revoked_in_every_step_of_its_opening(worker: HandDriven) -> None:
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
        standbys = worker.pipeline.standbys.stores
        assert len(index._counts) == slots + (1 in standbys)
        if 1 in standbys:
            standbys.drop(1, "the next round opens it again")
    await worker.open(1)
    await worker.output(1, text(1))


async def test_other_shards_wait_until_shard_0_has_begun_a_new_index(
    worker: HandDriven, caplog: pytest.LogCaptureFixture
) -> None:
    """Until then, the index may turn out to have other settings than this worker."""
    caplog.set_level(logging.INFO)
    worker.assign(1)
    await until(lambda: worker.shards[1].is_filled)
    await asyncio.sleep(0.01)
    line = "shards wait until the owner of shard 0 has started the new index: 1"
    assert caplog.text.count(line) == 1
    assert not worker.committer.calls
    worker.assign(0)
    await until(lambda: worker.is_open(0) and worker.is_open(1))
    assert worker.committer.calls[0][0][0] == 0


async def test_an_opening_writes_progress_again_that_a_late_record_may_replace(
    worker: HandDriven,
) -> None:
    """Compaction may leave only the late record, and an idle shard would write no other."""
    await worker.open(0, 1)
    (new,) = worker.broker.logged(1)
    await worker.output(1, text(1))
    await worker.revoke(1)
    late = encode_progress(
        LoggedProgress(new.progress, new.identity, new.reading, "a paused worker")
    )
    worker.broker.changelog[1].append((late.key, late.value))
    before = len(worker.broker.logged(1))

    await worker.open(1)

    *_, again = worker.broker.logged(1)
    assert len(worker.broker.logged(1)) == before + 1
    assert again.progress.next == 1
    assert again.progress.position >= new.progress.position
    await worker.output(1, text(2))
    await worker.revoke(1)
    await worker.open(1)
    assert worker.broker.logged(1)[-1].progress.next == 2


async def test_shard_0_commits_changed_reading_rules_before_it_opens(
    worker: HandDriven, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers that start later compare theirs with it, and the topic may be idle."""
    await worker.open(0)
    await worker.revoke(0)
    monkeypatch.setattr(worker.pipeline.assignment, "_reading", "changed")
    held = worker.hold_commit()
    worker.assign(0)
    await held.began.wait()
    assert 0 in worker.committer.calls[-1][0]
    assert not worker.is_open(0)
    held.go.set()
    await until(lambda: worker.is_open(0))


# ---- shards that move


def next_owner_commits(worker: HandDriven, position: int, partition: int = 1) -> None:
    """Write what the next owner of a shard commits when it has read the log up to a position."""
    last = worker.broker.logged(partition)[-1]
    progress = msgspec.structs.replace(last.progress, position=position)
    lineage = last.lineage.next("the next owner")
    record = encode_progress(
        LoggedProgress(progress, last.identity, last.reading, "the next owner", lineage=lineage)
    )
    worker.broker.changelog[partition].append((record.key, record.value))


async def test_a_revoked_shard_is_a_standby_until_its_next_owner_has_it(
    worker: HandDriven,
) -> None:
    await worker.open(0, 1)
    store = await worker.kept(1)
    standbys = worker.pipeline.standbys.stores

    await worker.output(0, text(1))
    assert worker.outputs[-1] == (TOPICS.duplicates, "0@0")
    next_owner_commits(worker, 0)
    await until(lambda: store.changelog_offset == len(worker.broker.changelog[1]))
    assert 1 in standbys, "the next owner has not read the log yet"
    next_owner_commits(worker, worker.pipeline.participant.replica.decided_before)
    await until(lambda: 1 not in standbys)
    assert store.closed


async def test_a_shard_that_comes_back_is_still_open(worker: HandDriven) -> None:
    await worker.open(0, 1)
    store = await worker.kept(1)
    await worker.open(1)
    assert worker.shards[1].store is store
    assert worker.stores.begun == [0, 1]
    await worker.output(1, text(1))
    assert worker.outputs[-1] == (TOPICS.duplicates, "1@1")


async def test_a_leader_that_loses_its_shard_leads_until_it_is_succeeded(
    worker: HandDriven,
) -> None:
    await worker.open(0, 1)
    await worker.revoke(0)
    await worker.output(1, text(1))
    decider = worker.pipeline.participant.decider
    assert decider is not None
    assert decider.leads


async def test_a_lost_shard_is_not_kept(worker: HandDriven) -> None:
    await worker.open(0, 1)
    worker.pipeline.lost(frozenset({1}), worker.member.generation)
    assert worker.pipeline.standbys.stores.partitions == []


async def test_in_an_archive_documents_wait_for_a_shard_that_moves(worker: HandDriven) -> None:
    """The watermark would pass those of its partition."""
    await worker.open(0, 1)
    worker.pipeline.sender.alignment.reads_archive = True
    await worker.revoke(1)
    assert worker.pipeline.standbys.stores.partitions == []


@pytest.mark.parametrize("end", ["others open its shards", "others stop, too"])
async def test_a_stopping_worker_keeps_its_shards_for_others(
    worker: HandDriven, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    monkeypatch.setattr(pipeline, "HAND_OVER_SECONDS", 3600.0)
    await worker.open(0, 1)
    await worker.output(1, text(1))
    worker.index.writers.add("another worker")
    worker.pipeline.interrupt(hands_over=True)
    closing = asyncio.ensure_future(worker.pipeline.close())
    standbys = worker.pipeline.standbys.stores
    await until(lambda: standbys.kept == [0, 1] and worker.member.is_closed)
    assert worker.shards == {}

    if end == "others stop, too":
        worker.index.writers.clear()
    else:
        for partition in standbys.kept:
            assert not closing.done()
            decided_before = worker.pipeline.participant.replica.decided_before
            next_owner_commits(worker, decided_before, partition)
    await asyncio.wait_for(closing, WAIT_SECONDS)
    assert standbys.partitions == []


async def test_a_worker_that_is_alone_stops_at_once(
    worker: HandDriven, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "HAND_OVER_SECONDS", 3600.0)
    await worker.open(0, 1)
    worker.pipeline.interrupt(hands_over=True)
    await asyncio.wait_for(worker.pipeline.close(), WAIT_SECONDS)


async def test_stopping_closes_what_is_opening_and_what_is_open(worker: HandDriven) -> None:
    gate = worker.stores.gates[1] = threading.Event()
    worker.assign(0, 1)
    await until(lambda: worker.is_open(0) and 1 in worker.stores.begun)
    shards = list(worker.shards.values())
    closing = asyncio.ensure_future(worker.pipeline.close())
    await turns()
    gate.set()
    await asyncio.wait_for(closing, 5)
    assert [each.state for each in shards] == [CLOSED] * 2
    assert all(each.store is None or each.store.closed for each in shards)
