"""One of two workers is killed: the other one leads, and standbys become shards."""

from __future__ import annotations

from http import HTTPStatus
from pathlib import Path

import pytest

from simhash_core.log.versions import NEWEST
from streams.topics.admin import create
from streams.topics.plans import topic_plans
from tests.kafka.stream_changes import (
    admin_of,
    delete_topic,
    send_and_settle,
    start_together,
    stop_gently,
)
from tests.kafka.test_index_care import answer
from tests.kafka.test_raw_topic_changes import suspended
from tests.rigs.brokers.broker import Broker
from tests.rigs.workers.short_documents import keyed_documents
from tests.rigs.workers.stream_harness import Stream, Worker
from tests.rigs.workers.worker_metrics import (
    await_leader,
    await_shared,
    await_that,
    gauge,
    lags,
    shards_of,
)
from tests.unit.ops_page.live_worker import ask

PARTITIONS = 4
LONG_SESSION = "session_timeout_seconds=20"
"""Long enough that a killed worker stays in the group while the test checks the others."""


def test_the_leader_trims_the_log(kafka_broker: Broker, tmp_path: Path) -> None:
    with Stream(kafka_broker, tmp_path, raw_partitions=2) as stream:
        worker = stream.started(state="first")
        send_and_settle(stream, keyed_documents(140, 200))
        worker.stop_gently()

        worker = stream.worker(state="second")
        worker.start("trimming")
        worker.await_ready()
        for number in range(5):
            send_and_settle(stream, keyed_documents(141 + number, 100))
        log = stream.settings.topics.log
        begins, _ = kafka_broker.watermarks(log)
        stream.send(keyed_documents(146, 100))
        await_that("trimmed the log", lambda: kafka_broker.watermarks(log)[0] > begins, worker)
        worker.stop_gently()

        for state in ("third", "first"):
            worker = stream.started(state=state)
            stream.send(keyed_documents(150 + len(state), 100))
            stream.judge_all()
            worker.stop_gently()


def test_reports_are_repeated_after_their_topic_was_created_again(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    options = ("standbys=0",)
    with Stream(kafka_broker, tmp_path, raw_partitions=2, options=options) as stream:
        workers = start_together(stream)
        reports, admin = stream.settings.topics.reports, admin_of(kafka_broker)
        number = 170
        while kafka_broker.watermarks(reports)[1] < 20:
            number += 1
            send_and_settle(stream, keyed_documents(number, 20))
        first, second = workers
        with suspended(first), suspended(second):  # one that finds no topic ends
            delete_topic(stream, reports)
            create(admin, topic_plans(stream.settings, 1, stream.raw_partitions))
        stream.send(keyed_documents(170, 200))
        stream.judge_all()
        (leader,) = [each for each in workers if gauge(each, "firstseen_leader")]
        assert f"{reports} was to be read from offset" in leader.log_text()
        stop_gently(workers)


# ---- standbys


def owned_by(stream: Stream, worker: Worker) -> set[int]:
    return {number for topic, number in lags(worker) if topic == stream.settings.topics.raw}


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_others_go_on_without_a_killed_leader_while_the_group_counts_on_it(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    options = ("standbys=1", LONG_SESSION)
    with Stream(kafka_broker, tmp_path, raw_partitions=PARTITIONS, options=options) as stream:
        workers = start_together(stream)
        send_and_settle(stream, keyed_documents(200, 400))
        await_that(
            "each shard has a standby",
            lambda: sum(gauge(each, "firstseen_standby_shards") for each in workers) == PARTITIONS,
            workers[0],
        )
        leader = await_leader(workers)
        (survivor,) = (worker for worker in workers if worker is not leader)
        left = owned_by(stream, survivor)
        leader.kill()

        copies_and_others = [*keyed_documents(200, 400), *keyed_documents(201, 100)]
        send_and_settle(stream, (each._replace(partition=min(left)) for each in copies_and_others))
        assert shards_of(survivor) == len(left), "the group has given its shards away already"

        stream.send(keyed_documents(202, 200))
        stream.judge_all()
        said = survivor.log_text()
        for number in set(range(PARTITIONS)) - left:
            assert f"the standby of shard {number} becomes the shard" in said
        survivor.stop_gently()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_shards_without_an_open_standby_are_named(kafka_broker: Broker, tmp_path: Path) -> None:
    options = ("standbys=1",)
    with Stream(kafka_broker, tmp_path, raw_partitions=PARTITIONS, options=options) as stream:
        first = stream.started()
        send_and_settle(stream, keyed_documents(206, 200))

        def missing(worker: Worker) -> float:
            return gauge(worker, "firstseen_shards_without_standby")

        def stats() -> object:
            return answer(stream, "stats")["standbys"]["shards_without"]

        await_that("no shard has one", lambda: missing(first) == PARTITIONS, first)
        named = "ready: shards without an open standby: 0-3\n"
        assert first._get("/readyz") == (HTTPStatus.OK, named)
        assert stats() == [0, 1, 2, 3]
        ordering = ask(first, "GET", "/api/status").json["ordering"]
        assert ordering["format_version"] == NEWEST

        second = stream.started(state="second")
        await_shared([first, second], PARTITIONS)

        def all_are_ready() -> bool:
            return all(each._get("/readyz")[1] == "ready\n" for each in (first, second))

        await_that("all have one", lambda: stats() == [], first)
        await_that("none is named", all_are_ready, first)
        assert missing(first) + missing(second) == 0

        second.kill()
        await_that("no shard has one again", lambda: missing(first) == PARTITIONS, first)
        assert first._get("/readyz") == (HTTPStatus.OK, named)
        assert stats() == [0, 1, 2, 3]
        first.stop_gently()
