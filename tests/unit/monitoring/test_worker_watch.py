"""The watch of a worker, the waits that it reports, and the beat of the event loop."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from simhash_core.documents import TopicPartition
from simhash_core.log.participant import Waiting
from streams.errors import BrokerUnavailableError
from streams.kafka.clients import Producer
from streams.monitoring import worker_watch
from streams.monitoring.group_watch import GroupWatch
from streams.monitoring.health import Health
from streams.monitoring.metrics import Metrics
from streams.monitoring.worker_state import NextStep, Waits
from streams.monitoring.worker_watch import (
    EVERY_SECONDS,
    LoopBeat,
    TransactionWatch,
    WatchedTopics,
    WorkerWatch,
)
from streams.topics.checking import SyncCopies, TooFewCopies
from streams.topics.watermarks import BrokerWatermarks
from tests.rigs.brokers.broker import Broker
from tests.rigs.brokers.loopback_ports import free_port
from tests.rigs.waiting import await_that
from tests.unit.monitoring.fake_view import OPEN, FakeView

RECORDS = 5
SECONDS = 90.0
STALL_SECONDS = 1.0


class Copies(SyncCopies):
    def __init__(self) -> None:
        super().__init__({}, {}, 1.0)
        self.found: list[TooFewCopies] | None = []

    def too_few(self) -> list[TooFewCopies] | None:
        return self.found


class Watching:
    def __init__(
        self,
        brokers: str,
        state_path: Path,
        raw: str = "raw",
        log: str = "log",
        changelog: str = "changelog",
    ) -> None:
        self.raw = raw
        self.view = FakeView()
        self.metrics = Metrics(CollectorRegistry())
        self.health = Health(STALL_SECONDS, lambda: None)
        self.copies = Copies()
        self.watch = WorkerWatch(
            self.view,
            WatchedTopics(raw, log, changelog, self.copies, TransactionWatch((raw,), [])),
            BrokerWatermarks({"bootstrap.servers": brokers}, "no-group", 5.0),
            self.health,
            self.metrics,
            state_path,
            STALL_SECONDS,
            GroupWatch(lambda: pytest.fail("nobody looks at the group")),
        )

    def value(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(f"firstseen_{name}", labels)

    def lag(self) -> float | None:
        return self.value("consumer_lag_messages", topic=self.raw, partition="0")

    def check(self) -> None:
        self.watch.check_lag()
        self.watch.check_waits()

    def checked_lag(self) -> float | None:
        self.watch.check_lag()
        return self.lag()

    def why_waiting(self) -> str | None:
        return self.health.why_waiting

    def stall(self) -> str:
        """Check once more; return why the worker is dead, or ""."""
        self.check()
        return self.health.why_dead() or ""

    def stall_after_the_limit(self) -> str:
        time.sleep(STALL_SECONDS + 0.1)
        return self.stall()


def topic_with_records(broker: Broker) -> str:
    topic = broker.new_topic("watched")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for _ in range(RECORDS):
        producer.produce(topic, b"x", partition=0)
    assert producer.flush(SECONDS) == 0
    return topic


@pytest.fixture
def watching(embedded_broker: Broker, tmp_path: Path) -> Watching:
    """Watch a worker with one open shard, before its raw partition has records."""
    raw = topic_with_records(embedded_broker)
    watching = Watching(embedded_broker.bootstrap_servers, tmp_path, raw)
    watching.view.states = {0: OPEN}
    return watching


def test_lag_is_from_the_position_of_an_open_shard_or_the_start(watching: Watching) -> None:
    watching.view.states = {0: OPEN._replace(next_offset=2)}
    await_that(lambda: watching.checked_lag() == 3)
    watching.view.states = {0: OPEN._replace(is_open=False, next_offset=2)}
    assert watching.checked_lag() == RECORDS
    assert watching.value("broker_up") == 1
    watching.view.states = {}
    assert watching.checked_lag() is None, "the partition has moved away"


def test_series_of_shards_come_and_go(tmp_path: Path) -> None:
    watching = Watching(f"127.0.0.1:{free_port()}", tmp_path)
    watching.metrics.shard_state(0, entries=12, waiting=3)
    watching.view.states = {
        0: OPEN._replace(entries=10),
        1: OPEN._replace(entries=7),
        2: OPEN._replace(is_open=False),
    }
    watching.watch.check_shards()
    assert watching.value("store_documents", partition="0") == 12
    assert watching.value("waiting_documents", partition="0") == 3
    assert watching.value("store_documents", partition="1") == 7
    assert watching.value("store_documents", partition="2") is None

    watching.view.states = {1: OPEN}
    watching.watch.check_shards()
    assert watching.value("store_documents", partition="0") is None
    assert watching.value("waiting_documents", partition="0") is None


def test_stall_is_timed_from_when_the_worker_is_ready(watching: Watching) -> None:
    watching.view.trouble = "the log is being read"
    await_that(lambda: watching.checked_lag() == RECORDS)
    assert not watching.stall_after_the_limit()
    watching.view.trouble = None
    assert not watching.stall()
    assert f"{watching.raw}/0: no progress" in watching.stall_after_the_limit()
    assert watching.value("stalled_partitions") == 1


def test_unread_log_is_measured_and_a_stall_until_it_is_read(
    embedded_broker: Broker, tmp_path: Path
) -> None:
    log = topic_with_records(embedded_broker)
    watching = Watching(embedded_broker.bootstrap_servers, tmp_path, log=log)
    watching.view.trouble = "the log is being read"
    watching.watch.check_lag()
    assert watching.value("log_end_offset") == 0, "nothing is read yet"
    watching.view.log_position = 2
    watching.check()
    assert f"{log}/0: no progress" in watching.stall_after_the_limit()
    assert watching.value("log_position_offset") == 2
    assert watching.value("log_end_offset") == RECORDS
    watching.view.log_position = 3
    assert not watching.stall()


ON_SHARD = Waiting(17, None, {3: "firstseen.other.8c11"}, own_turn=False)
ON_LEADER = Waiting(17, "firstseen.other.8c11", {}, own_turn=False)
OWN_TURN = Waiting(17, None, {}, own_turn=True)


@pytest.mark.parametrize(
    ("undecided", "is_full", "step", "if_ready", "if_not_ready"),
    [
        (None, False, NextStep.READ, True, False),
        (None, True, NextStep.READ, False, False),
        (None, False, NextStep.VERDICT, True, False),
        (OWN_TURN, False, NextStep.VERDICT, True, False),
        (ON_SHARD, False, NextStep.READ, True, False),
        (ON_SHARD, True, NextStep.READ, False, False),
        (ON_SHARD, False, NextStep.VERDICT, False, False),
        (ON_LEADER, False, NextStep.VERDICT, False, False),
        (ON_SHARD, True, NextStep.COMMIT, True, True),
    ],
)
def test_whether_this_worker_must_act(
    undecided: Waiting | None, is_full: bool, step: NextStep, if_ready: bool, if_not_ready: bool
) -> None:
    waits = Waits(undecided, is_full, {0: step})
    assert waits.is_own_step(0, ready=True) is if_ready
    assert waits.is_own_step(0, ready=False) is if_not_ready
    assert waits.is_own_step(1, ready=True) is not is_full, "a shard without a step has to read"


def test_waiting_for_another_worker_is_no_stall_and_is_logged_once(
    watching: Watching, caplog: pytest.LogCaptureFixture
) -> None:
    watching.view.states = {0: OPEN._replace(waiting=RECORDS)}
    watching.view.found = Waits(ON_SHARD, steps={0: NextStep.VERDICT})
    await_that(lambda: watching.checked_lag() == RECORDS)
    caplog.set_level(logging.WARNING)
    watching.check()
    assert watching.why_waiting() is None, "not for long yet"
    assert not watching.stall_after_the_limit()
    assert not watching.stall()
    assert watching.value("stalled_partitions") == 0
    why = watching.why_waiting() or ""
    awaited = "the reports of shard 3 (last owned by worker firstseen.other)"
    assert re.match(rf"documents have waited \d+ s for {re.escape(awaited)}", why)
    assert caplog.text.count("this worker is healthy, but documents wait for ") == 1

    watching.view.found = Waits(steps={0: NextStep.COMMIT})
    assert not watching.stall(), "timed from its own turn"
    assert watching.why_waiting() is None
    assert caplog.text.count("documents no longer wait for other workers") == 1
    assert f"stalled: {watching.raw}/0: no progress" in watching.stall_after_the_limit()


def test_recovery_without_progress_is_a_stall(embedded_broker: Broker, tmp_path: Path) -> None:
    raw, changelog = (topic_with_records(embedded_broker) for _ in range(2))
    watching = Watching(embedded_broker.bootstrap_servers, tmp_path, raw, changelog=changelog)
    opening = OPEN._replace(is_open=False, recovery_remaining=4)
    watching.view.states = {0: opening}
    await_that(lambda: watching.checked_lag() == RECORDS)
    why = watching.stall_after_the_limit()
    assert f"{changelog}/0: no progress" in why
    assert why.endswith("at offset 1, with 4 records to process")

    watching.view.states = {0: opening._replace(recovery_remaining=3)}
    assert not watching.stall()
    watching.view.states = {0: opening._replace(recovery_remaining=0)}
    watching.check()
    why = watching.stall_after_the_limit()
    assert not why, "it waits for the group's offset, or fills its index"


def test_transaction_markers_are_no_stall_and_no_lag(kafka_broker: Broker, tmp_path: Path) -> None:
    raw = kafka_broker.new_topic("watched")
    producer = kafka_broker.transactional_producer()

    def produce() -> None:
        producer.begin_transaction()
        producer.produce(raw, b"x", partition=0)
        producer.commit_transaction(SECONDS)

    produce()
    watching = Watching(kafka_broker.bootstrap_servers, tmp_path, raw)
    watching.view.states = {0: OPEN._replace(next_offset=1)}
    await_that(lambda: watching.checked_lag() == 1)  # the broker writes markers after its answer
    assert not watching.stall_after_the_limit()
    assert watching.lag() == 0
    produce()
    await_that(lambda: watching.checked_lag() == 3)
    assert "no progress" in watching.stall_after_the_limit()
    assert watching.lag() == 3
    watching.view.found = Waits(steps={0: NextStep.TURN})
    assert not watching.stall_after_the_limit(), "records of other partitions come first"


def test_partitions_are_asked_for_records_together(kafka_broker: Broker) -> None:
    raw = kafka_broker.new_topic("asked", partitions=20)
    committed, aborted = (
        kafka_broker.transactional_producer(),
        kafka_broker.transactional_producer(),
    )
    for partition in range(20):
        committed.begin_transaction()
        committed.produce(raw, b"x" * 100_000, partition=partition)
        committed.commit_transaction(SECONDS)
        aborted.begin_transaction()
        aborted.produce(raw, b"x", partition=partition)
        aborted.abort_transaction(SECONDS)
    broker = BrokerWatermarks(
        {"bootstrap.servers": kafka_broker.bootstrap_servers}, "no-group", SECONDS
    )
    offsets = {TopicPartition(raw, each): each % 3 for each in range(20)}
    found = broker.hold_records(offsets)
    assert found == {each: offset == 0 for each, offset in offsets.items()}


def test_no_broker_is_a_metric_and_one_line_until_it_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    watching = Watching("127.0.0.1:1", tmp_path)
    answers = iter([True, False, False, True, True])

    def of(*_: object, **__: object) -> dict[object, object]:
        if next(answers):
            return {}
        raise BrokerUnavailableError("no answer")

    monkeypatch.setattr(BrokerWatermarks, "of", of)
    with caplog.at_level(logging.WARNING):
        up = [watching.checked_lag() or watching.value("broker_up") for _ in range(5)]
    assert up == [1, 0, 0, 1, 1]
    assert watching.value("errors_total", stage="watch", reason="broker") == 2
    assert watching.health.why_dead() is None
    away, back = caplog.messages
    assert away.startswith("the broker does not answer (no answer)")
    assert back == "the broker answers again"


def test_failure_of_the_watch_is_logged_once_and_lag_is_still_measured(
    embedded_broker: Broker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    raw = topic_with_records(embedded_broker)
    watching = Watching(embedded_broker.bootstrap_servers, tmp_path / "gone", raw)
    watching.view.states = {0: OPEN}
    with caplog.at_level(logging.ERROR), watching.watch:
        await_that(lambda: watching.lag() == RECORDS)
        checks = "stage_duration_seconds_count"
        await_that(lambda: (watching.value(checks, stage="watch") or 0) >= 2)
    assert caplog.text.count("a check of this worker failed; the next one follows") == 1


def test_age_of_an_open_transaction_is_measured(
    kafka_broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_watch, "_TRANSACTIONS_SECONDS", 0.0)
    raw = kafka_broker.new_topic("watched")
    producer = kafka_broker.transactional_producer(open_seconds=600)
    producer.begin_transaction()
    producer.produce(raw, b"x", partition=0)
    assert producer.flush(SECONDS) == 0
    watching = Watching(kafka_broker.bootstrap_servers, tmp_path, raw)
    watching.view.states = {0: OPEN}

    def age() -> float:
        watching.watch.check_lag()
        watching.watch.check_transactions()
        return watching.value("open_transaction_seconds") or 0.0

    await_that(lambda: age() > 1.0)
    assert watching.health.why_dead() is None
    producer.commit_transaction(SECONDS)
    await_that(lambda: age() == 0.0)


def test_topic_without_enough_copies_is_logged_once_and_again_when_it_has_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(worker_watch, "_COPIES_SECONDS", 0.0)
    watching = Watching("127.0.0.1:1", tmp_path)
    caplog.set_level(logging.WARNING)
    watching.watch.check_copies()
    watching.copies.found = [TooFewCopies("unique", (0, 3), 1, 3, 2)]
    for _ in range(3):
        watching.watch.check_copies()
    watching.copies.found = None  # no broker answers
    watching.watch.check_copies()
    assert len(caplog.messages) == 1
    watching.copies.found = []
    for _ in range(2):
        watching.watch.check_copies()

    lost, again = caplog.messages
    assert "unique accepts no records: it has 1 of 3 copies in sync" in lost
    assert "min.insync.replicas is 2" in lost
    assert "enough copies in sync again" in again


def waits_for(leader: str | None = None, shards: dict[int, str | None] | None = None) -> Waits:
    return Waits(Waiting(17, leader, shards or {}, own_turn=False))


@pytest.mark.parametrize(
    ("waits", "opening", "awaited"),
    [
        (Waits(), {}, None),
        (Waits(Waiting(17, None, {3: "app.a.f00"}, own_turn=True)), {}, None),
        (
            waits_for(shards={4: None, 3: "app.a.f00"}),
            {},
            "the reports of shard 3 (last owned by worker app.a), shard 4 (owner unknown)",
        ),
        (waits_for(shards={3: "app.a.f00"}), {3: ""}, "the reports of shard 3 (being opened here)"),
        (
            waits_for(shards=dict.fromkeys(range(1000))),
            {},
            "the reports of "
            + ", ".join(f"shard {number} (owner unknown)" for number in range(5))
            + " and 995 more",
        ),
        (waits_for("app.b.f01"), {3: ""}, "the verdict of the leader, worker app.b"),
        (waits_for(), {0: ""}, "a leader: shard 0 is being opened here"),
        (waits_for(), {1: ""}, "a leader: the owner of shard 0 is not the leader yet"),
    ],
)
def test_whom_documents_wait_for(
    waits: Waits, opening: dict[int, str], awaited: str | None
) -> None:
    assert waits.awaited(opening) == awaited


class ManualLoop(asyncio.SelectorEventLoop):
    """A loop whose clock the test sets and whose timers it runs."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0

    def time(self) -> float:
        return self.now

    def turn(self) -> None:
        self.call_soon(self.stop)
        self.run_forever()


def test_late_beat_counts_the_beats_it_missed_and_calls_what_is_due_each_second() -> None:
    loop, seconds = ManualLoop(), list[float]()
    lags: list[Sequence[float]] = []
    LoopBeat(loop, lags.append, [lambda: seconds.append(loop.now)])
    loop.turn()
    for late, missed in (
        *(((0.0, [0.0]),) * 12),
        (0.7, [0.7, 0.5, 0.3, 0.1]),
        (0.0, [0.0]),
    ):
        loop.now += EVERY_SECONDS + late
        loop.turn()
        assert lags[-1] == pytest.approx(missed, abs=1e-6)
    assert len(lags) == 15
    assert seconds == pytest.approx([1000, 1001, 1002])
    loop.now += 24 * 3600
    loop.turn()
    loop.close()
    assert len(lags[-1]) == 5_001, "beats missed in a day are bounded"
    assert seconds[-1] == loop.now


def test_blocked_loop_is_in_the_metric() -> None:
    metrics = Metrics(CollectorRegistry())
    loop = asyncio.new_event_loop()
    LoopBeat(loop, metrics.event_loop_lag)
    loop.call_later(0.05, time.sleep, 0.6)
    loop.run_until_complete(asyncio.sleep(0.8))
    loop.close()

    def at_most(seconds: str) -> float:
        name = "firstseen_event_loop_lag_seconds_bucket"
        return metrics.registry.get_sample_value(name, {"le": seconds}) or 0.0

    assert at_most("+Inf") - at_most("0.1") >= 2, "about 0.45 s and 0.25 s late"
