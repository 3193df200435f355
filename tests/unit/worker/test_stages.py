"""Appended documents are reported and decided; decided ones are committed once, with offsets."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from unittest.mock import patch

import pytest

from simhash_core.documents import Entry
from simhash_core.log.records import NO_CONTROL, Bundle, ChainHeads, Control
from streams.errors import BrokerRefusedError, UnansweredError
from streams.kafka.errors import AbortedError, FencedError, RecordsLostError, StaleGenerationError
from streams.kafka.producers import AppendUnknownError
from streams.monitoring.worker_state import NextStep
from streams.worker import assignment, commit, pipeline
from streams.worker.consume import Intake
from streams.worker.index_on_kafka import Claim
from streams.worker.log_codec import LogCodec
from streams.worker.look_up import LogReplacedError
from streams.worker.status import PipelineView
from tests.rigs.async_tests import WAIT_SECONDS, until
from tests.unit.worker.hand_driven import (
    FINGERPRINTER,
    START_MS,
    TOPICS,
    Commit,
    HandDriven,
    text,
    turns,
)

ABORTED = AbortedError("aborted")
CODEC = LogCodec(FINGERPRINTER.identity)
SHARDS = 8

# ---- reports, while another worker leads


async def open_beside_a_leader(worker: HandDriven) -> None:
    worker.index.foreign_claim = Claim(FINGERPRINTER.identity, "the rules", 0, NO_CONTROL)
    worker.log.append(CODEC.encode(Control(NO_CONTROL, "owner-of-0.1", True, [], ChainHeads(), 0)))
    await worker.open(1)


async def test_a_report_that_was_acknowledged_and_lost_is_made_again(worker: HandDriven) -> None:
    await open_beside_a_leader(worker)
    for _ in range(20):
        await worker.pipeline.tick()
        await asyncio.sleep(0.005)
    assert worker.reports_appended == 0, "nothing waits"
    worker.appender.dropped.add(TOPICS.reports)
    worker.send(1, text(1))
    await until(lambda: worker.reports_appended == 1)
    await turns()
    assert worker.reports_appended == 1, "it does not repeat itself"
    worker.appender.dropped.clear()
    for _ in range(1000):
        await worker.pipeline.tick()
        await asyncio.sleep(0.005)
        if worker.broker.reports:
            break
    report = CODEC.decode_report(worker.broker.reports[0][0], "reports/0@0")
    assert report.shards == [1]
    log = worker.broker.records()
    (bundle,) = (at for at, record in enumerate(log) if isinstance(record, Bundle))
    assert report.first <= bundle < report.end


async def test_a_report_without_answer_is_made_again(worker: HandDriven) -> None:
    await open_beside_a_leader(worker)
    worker.appender.errors[TOPICS.reports].append(AppendUnknownError("no answer"))
    worker.send(1, text(1))
    await until(lambda: worker.reports_appended == 2)


@pytest.mark.parametrize("topic", [TOPICS.log, TOPICS.reports])
async def test_an_append_that_is_refused_ends_the_worker(worker: HandDriven, topic: str) -> None:
    await open_beside_a_leader(worker)
    refusal = BrokerRefusedError("this user may not write")
    worker.appender.errors[topic].append(refusal)
    worker.send(1, text(1))
    assert await worker.failure() is refusal


async def test_bundles_are_read_with_the_next_report_and_decisions_at_once(
    worker: HandDriven, monkeypatch: pytest.MonkeyPatch
) -> None:
    await open_beside_a_leader(worker)
    participant, pace = worker.pipeline.participant, worker.pipeline.sender.pace
    await until(lambda: participant.caught_up)
    wait = 60.0
    monkeypatch.setattr(pace, "report_wait", lambda _: wait)
    for number in (1, 2):
        worker.send(1, text(number))
        await until(lambda: len(worker.log.records) == 1 + number)  # noqa: B023 - called here
        await turns()
        assert not participant.replica.undecided, "it waits"
    worker.log.append(CODEC.encode(Control(0, "owner-of-0.1", False, [], ChainHeads(), 0)))
    await until(lambda: len(participant.replica.undecided) == 2)
    await turns()
    assert worker.reports_appended == 0
    wait = 0.0
    await worker.pipeline.tick()
    await until(lambda: worker.reports_appended == 1)


async def test_a_tick_does_not_wait_for_a_silent_broker(
    worker: HandDriven, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a request that hangs for ten seconds delays the repetition of lost reports."""
    requests = 0
    answers = asyncio.Event()

    async def partitions() -> int:
        nonlocal requests
        requests += 1
        await answers.wait()
        return 4

    monkeypatch.setattr(worker.index, "partitions", partitions)
    monkeypatch.setattr(pipeline, "_LOOK_SECONDS", 0.0)
    monkeypatch.setattr(pipeline, "_LOOKS_A_SECOND", 1e9)
    await worker.open(0)
    async with asyncio.timeout(10):
        for _ in range(3):
            await worker.pipeline.tick()
            await turns()
    assert requests == 1, "one request at a time"
    answers.set()
    await turns()
    await worker.pipeline.tick()
    await until(lambda: requests == 2)


async def test_records_that_wait_are_counted_before_their_shard_commits(worker: HandDriven) -> None:
    await open_beside_a_leader(worker)
    worker.send(1, text(1), text(2))
    owned = worker.shards[1].owned
    await until(lambda: owned is not None and owned.stream.waiting == 2)
    await worker.pipeline.tick()
    labels = {"partition": "1"}
    assert worker.registry.get_sample_value("firstseen_waiting_documents", labels) == 2


async def test_records_that_compaction_removed_before_their_output_are_counted(
    worker: HandDriven, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are in the log since a worker that was killed, and cannot be read again."""

    async def log_start(_: int) -> int:
        return 1  # the removed record could still exist

    monkeypatch.setattr(worker.member, "log_start", log_start)
    await worker.open(0)
    held = worker.hold_commit(ABORTED)
    worker.send(0, text(1), text(2), text(3))
    await held.began.wait()
    await until(lambda: not worker.pipeline.participant.replica.undecided)
    closed = worker.revoke(0)
    held.go.set()
    await closed
    await worker.open(0)
    worker.fetch(0, 0, [text(1)])
    worker.fetch(0, 2, [text(3), text(2)])
    labels = {"topic": TOPICS.raw, "partition": "0"}
    await until(
        lambda: worker.registry.get_sample_value("firstseen_skipped_messages_total", labels) == 1
    )
    await until(lambda: len(worker.outputs) == 3)
    unique, duplicates = TOPICS.unique, TOPICS.duplicates
    assert worker.outputs == [(unique, "0@0"), (unique, "0@2"), (duplicates, "0@3")]


# ---- the committer of these tests refuses a commit without the offset of each shard in it


async def test_positions_alone_carry_offsets(
    worker: HandDriven, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit, "_POSITION_SECONDS", 0.0)
    await worker.open(0, 1, 2)
    first = worker.broker.logged(2)[-1].progress
    worker.send(1, text(1))
    await until(lambda: worker.broker.logged(2)[-1].progress.position > first.position)
    assert worker.broker.logged(2)[-1].progress.next == first.next == 0
    await until(lambda: worker.broker.offsets == {0: 0, 1: 1, 2: 0})
    assert worker.registry.get_sample_value("firstseen_bucket_documents_count") == 1


async def test_a_shard_commits_its_progress_soon_after_it_has_opened(
    worker: HandDriven, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the group's offset is right again, whatever it was before."""
    monkeypatch.setattr(commit, "_POSITION_SECONDS", 0.0)
    await worker.open(0)
    worker.send(0, text(1))
    await until(lambda: worker.broker.offsets == {0: 1})
    await worker.revoke(0)
    worker.broker.offsets = {0: 0}
    await worker.open(0)
    await until(lambda: worker.broker.offsets == {0: 1})


# ---- commits that fail


async def test_a_commit_whose_answer_is_lost_opens_its_shards_again_and_no_other(
    worker: HandDriven,
) -> None:
    await worker.open(0, 1, 2)
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
    await until(lambda: worker.pipeline.intake.is_empty)
    await worker.pipeline.tick()
    for limited in ("documents", "bytes"):
        assert worker.registry.get_sample_value(f"firstseen_in_flight_{limited}") == 0


async def test_a_commit_without_answer_that_did_not_take_place_is_made_again(
    worker: HandDriven,
) -> None:
    await worker.open(0, 1, 2)
    before = worker.shards[1]
    worker.committer.script.append(Commit(UnansweredError("no answer")))
    worker.send(1, text(1))
    await until(lambda: worker.shards.get(1) is not before and worker.is_open(1))
    assert worker.member.reads[-1] == (1, 0, worker.shards[1].number)
    worker.fetch(1, 0, [text(1)])
    await until(lambda: worker.outputs == [("unique", "1@0")])
    # It was already in the log, where the record waited for its verdict.
    assert len(worker.broker.packets(1)) == 1


@pytest.mark.parametrize("is_announced", [True, False])
async def test_a_stale_generation_waits_for_the_next_one(
    worker: HandDriven, is_announced: bool
) -> None:
    await worker.open(0, 1, 2)
    before = dict(worker.shards)
    stale = StaleGenerationError("of an older generation")
    worker.committer.script.extend(Commit(stale) for _ in range(3))
    last = worker.hold_commit(stale)
    worker.send(1, text(1))
    await last.began.wait()
    worker.member.generation = b"generation 2"
    if is_announced:
        worker.assign()
    last.go.set()
    await until(lambda: worker.outputs == [("unique", "1@0")])
    begun = 2  # shard 0, then the others
    assert worker.committer.calls[begun:] == [
        *[([1], b"generation 1")] * 4,
        ([1], b"generation 2"),
    ]
    assert worker.shards == before


@pytest.mark.parametrize("error", [ABORTED, FencedError("it took too long")])
async def test_the_worker_outlives_nine_aborts_in_a_row_and_puts_each_document_out_once(
    worker: HandDriven, error: AbortedError | FencedError
) -> None:
    await worker.open(0, 1, 2)
    before = dict(worker.shards)
    for number in (1, 2):
        worker.committer.script.extend(Commit(error) for _ in range(9))
        await worker.output(1, text(number))
    assert worker.shards == before
    assert worker.outputs == [("unique", "1@0"), ("unique", "1@1")]


async def test_ten_aborts_in_a_row_end_the_worker(worker: HandDriven) -> None:
    await worker.open(0, 1, 2)
    worker.committer.script.extend(Commit(ABORTED) for _ in range(10))
    worker.send(1, text(1))
    assert await worker.failure() is worker.pipeline.failure is ABORTED
    assert not worker.committer.script
    assert worker.outputs == []


async def test_a_transaction_that_takes_too_long_is_tried_with_fewer_shards_and_outputs(
    worker: HandDriven,
) -> None:
    await worker.open(*range(SHARDS))
    worker.committer.records_max = 4  # an output, its entry, the progress, and one more
    first = worker.hold_commit()
    for number in range(10):
        for partition in range(SHARDS):
            worker.send(partition, text(SHARDS * number + partition))
    await first.began.wait()
    await turns(500)
    first.go.set()
    await until(lambda: worker.failures or len(worker.outputs) == 10 * SHARDS)
    assert not worker.failures
    assert len(set(worker.outputs)) == 10 * SHARDS


async def test_a_look_up_that_a_damaged_standby_interrupted_is_made_again(
    worker: HandDriven,
) -> None:
    """Nobody else reports for the shards that this worker owns."""
    await worker.open(0, 1)
    store = await worker.kept(1)

    def entries(_: Sequence[int]) -> list[Entry]:
        raise store._store.damaged("a test damages it")

    with patch.object(store, "entries", entries):
        worker.send(0, text(1))
        await until(lambda: store.closed)
    participant = worker.pipeline.participant
    decider = participant.decider
    assert decider is not None
    await until(lambda: decider.waits_for(participant.replica) == {1})
    await worker.open(1)
    await until(lambda: worker.outputs[1:] == [(TOPICS.duplicates, "0@0")])


@pytest.mark.parametrize("lost", [TOPICS.log, TOPICS.changelog])
async def test_what_follows_from_records_that_brokers_have_lost_is_not_committed(
    worker: HandDriven, lost: str
) -> None:
    await worker.open(0, 1, 2)
    await worker.output(1, text(1))
    await worker.output(1, text(2))
    offsets = dict(worker.broker.offsets)
    held = worker.hold_commit()
    worker.send(1, text(3))
    await held.began.wait()
    if lost == TOPICS.log:
        del worker.broker.log[-3:]
    else:
        del worker.broker.changelog[1][-3:]
    held.go.set()
    failure = await worker.failure()
    assert isinstance(failure, RecordsLostError)
    assert str(failure).startswith("the log" if lost == TOPICS.log else lost)
    assert len(worker.outputs) == 2
    assert worker.broker.offsets == offsets


@pytest.mark.parametrize("failure", ["an abort", "a connection", "a connection while idle"])
async def test_commits_that_brokers_have_lost_are_missed_after_a_failure(
    worker: HandDriven, failure: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await worker.open(0, 1, 2)
    await worker.output(1, text(1))
    await worker.output(1, text(2))
    await worker.pipeline.tick()
    assert not worker.failures
    del worker.broker.changelog[1][-2:]
    if failure == "an abort":
        worker.committer.script.append(Commit(ABORTED))
        worker.send(2, text(3))
    elif failure == "a connection":
        worker.committer.failed = 1
        worker.send(1, text(3))
    else:
        worker.committer.failed = 1
        monkeypatch.setattr(commit, "_LOOK_SECONDS", 0.0)
        await worker.pipeline.tick()
    error = await worker.failure()
    assert isinstance(error, RecordsLostError)
    assert "lacks commit 3" in str(error)
    assert len(worker.outputs) == 2


@pytest.mark.parametrize("noticed", ["by a session", "after a connection failed"])
async def test_the_end_of_the_log_is_missed_before_more_follows_from_it(
    worker: HandDriven,
    noticed: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    await worker.open(0, 1, 2)
    await worker.output(1, text(1))
    await worker.revoke(2)
    await worker.pipeline.tick()
    end = len(worker.broker.log)
    del worker.broker.log[-1:]
    if noticed == "by a session":
        worker.assign(2)
    else:
        worker.committer.failed = 1
        monkeypatch.setattr(commit, "_LOOK_SECONDS", 0.0)
        await worker.pipeline.tick()
    error = await worker.failure()
    assert isinstance(error, RecordsLostError)
    assert "the log had offsets up to" in str(error)
    (told,) = [each.message for each in caplog.records if each.message.startswith("the log ends")]
    assert told.startswith(f"the log ends at {end - 1}, but had offsets up to {end}: waiting")


@pytest.mark.parametrize("lost", [1, 2, 3, 4])
async def test_a_worker_that_starts_misses_what_only_the_log_has_lost(
    worker: HandDriven, lost: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The changelog has what followed from it, as after an unclean election of the log's leader."""
    # Shard 0 alone would not miss anything, and its leader would append to the log.
    monkeypatch.setattr(assignment, "_TOGETHER_SECONDS", WAIT_SECONDS)
    await worker.open(0, 1, 2)
    await worker.output(1, text(1))
    await worker.output(1, text(2))
    await worker.revoke(0, 1, 2)
    end = len(worker.broker.log)
    del worker.broker.log[-lost:]
    another = HandDriven(worker.broker)
    await another.start()
    another.assign(0, 1, 2)
    error = await another.failure()
    assert isinstance(error, LogReplacedError)
    assert "brokers have lost its last records" in str(error)
    assert len(worker.broker.log) == end - lost
    await another.stop()


async def test_a_worker_ends_whose_log_was_created_again(
    worker: HandDriven, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A young log may soon have as many records as before, so its reader notices nothing."""
    monkeypatch.setattr(pipeline, "_LOOK_SECONDS", 0.0)
    monkeypatch.setattr(pipeline, "_LOOKS_A_SECOND", 1e9)
    await worker.open(0, 1, 2)
    await worker.pipeline.tick()
    await turns()
    worker.index.log = "another-id"
    await worker.pipeline.tick()
    assert isinstance(await worker.failure(), LogReplacedError)


async def test_commits_go_on_after_a_connection_failed_and_nothing_is_lost(
    worker: HandDriven,
) -> None:
    await worker.open(0, 1, 2)
    for number in (1, 2, 3):
        worker.committer.failed += 1
        await worker.output(1, text(number))


async def test_nobody_looks_for_the_commits_of_a_shard_that_has_moved(
    worker: HandDriven, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit, "_MARKERS_SECONDS", 60.0)
    await worker.open(0, 1, 2)
    await worker.output(1, text(1))
    await worker.pipeline.tick()
    del worker.broker.changelog[1][-2:]
    worker.committer.failed = 1
    worker.send(2, text(2))
    await turns()
    assert len(worker.outputs) == 1, "it looks for the commit of shard 1"
    await worker.revoke(1)
    await until(lambda: len(worker.outputs) == 2)


async def test_other_stages_go_on_while_a_commit_takes_long(worker: HandDriven) -> None:
    await worker.open(0, 1, 2)
    held = worker.hold_commit()
    worker.send(1, text(1))
    await held.began.wait()
    worker.send(2, text(2), text(1))
    decided = worker.pipeline.participant.replica
    await until(lambda: len(worker.broker.packets(2)) == 1 and not decided.undecided)
    assert worker.outputs == []
    held.go.set()
    await until(lambda: len(worker.outputs) == 3)
    assert worker.outputs[1:] == [(TOPICS.unique, "2@0"), (TOPICS.duplicates, "2@1")]


async def test_a_worker_that_stops_ends_its_commit_and_begins_no_other(worker: HandDriven) -> None:
    await worker.open(0, 1, 2)
    held = worker.hold_commit()
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


async def test_in_a_backlog_commits_gather_until_too_much_is_in_flight(
    worker: HandDriven, monkeypatch: pytest.MonkeyPatch
) -> None:
    await worker.open(0)
    await worker.output(0, text(1))
    monkeypatch.setattr(commit, "_BACKLOG_SECONDS_A_PARTITION", 3600.0)
    monkeypatch.setattr(commit, "_BACKLOG_SECONDS_MAX", 3600.0)
    await worker.output(0, text(2))
    assert not worker.pipeline.intake.is_behind, "so it does not wait"

    behind = property(lambda _: True, lambda *_: None)
    monkeypatch.setattr(Intake, "is_behind", behind, raising=False)
    worker.send(0, text(3))
    shard = worker.shards[0].owned
    assert shard is not None
    await until(
        lambda: bool(shard.stream.waiting) and worker.pipeline.participant.next_is_ready(shard)
    )
    await turns(200)
    assert len(worker.outputs) == 2
    worker.pipeline.intake.is_held = True
    await until(lambda: len(worker.outputs) == 3)


# ---- status


async def test_fetched_records_wait_for_their_turn_while_others_are_in_work(
    worker: HandDriven,
) -> None:
    await worker.open(0, 1)
    view = PipelineView(worker.pipeline, worker.stores, FINGERPRINTER)
    queue = worker.shards[1].queue
    queue.messages += worker.records(1, 0, [text(2)]).messages
    view.note_waits()
    assert view.waits().steps == dict.fromkeys((0, 1), NextStep.READ), "nothing is in work"

    worker.log.is_held = True
    worker.fetch(0, 0, [text(1)])
    await until(lambda: not worker.pipeline.intake.is_empty)
    view.note_waits()
    assert view.waits().steps == {0: NextStep.VERDICT, 1: NextStep.TURN}
    assert not view.waits().is_own_step(1, ready=True)
    queue.messages.clear()
    view.note_waits()
    assert view.waits().is_own_step(1, ready=True), "its records must be read"
    worker.log.release()


async def test_documents_that_wait_for_another_worker_are_no_stall(
    worker: HandDriven, monkeypatch: pytest.MonkeyPatch
) -> None:
    await worker.open(0)
    view = PipelineView(worker.pipeline, worker.stores, FINGERPRINTER)
    alignment = worker.pipeline.sender.alignment
    monkeypatch.setattr(alignment, "until_ms", lambda *_: START_MS - 1)
    monkeypatch.setattr(alignment, "_waits", True)
    worker.send(0, text(1))
    await until(lambda: alignment.is_holding)
    view.note_waits()
    assert view.waits().steps == {0: NextStep.TURN}

    monkeypatch.setattr(alignment, "until_ms", lambda *_: None)
    await until(lambda: len(worker.outputs) == 1)
    assert not alignment.is_holding


async def test_a_worker_that_stops_is_not_ready(worker: HandDriven) -> None:
    """Otherwise one that ends with an error counts as upgraded, as its closed shards are gone."""
    await worker.open(0)
    view = PipelineView(worker.pipeline, worker.stores, FINGERPRINTER)
    await until(lambda: view.ready)
    await worker.pipeline.close()
    assert not view.ready
    assert view.why_not_ready() == "the worker stops"
