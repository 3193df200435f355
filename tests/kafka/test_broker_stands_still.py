"""A broker does not answer for a while, as in a long pause of its JVM, or is down."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path

import pytest

from streams.errors import BrokerUnavailableError, ExitCode
from streams.kafka.clients import AdminClient
from streams.topics.admin import TopicIdResolver, TopicIds, TopicsError, topic_id
from tests.kafka.stream_changes import admin_of, kafka_server, send_and_settle
from tests.rigs.brokers.broker import Broker
from tests.rigs.brokers.loopback_ports import free_port
from tests.rigs.workers.short_documents import keyed_documents
from tests.rigs.workers.stream_harness import Stream, Worker
from tests.rigs.workers.worker_metrics import await_that, value

STILL_SECONDS = 9.0
STOP_SECONDS = 60.0  # terminationGracePeriodSeconds
OUT_OF_SERVICE_SECONDS = 2.5
WAIT_SECONDS = 120.0
TIMEOUT = "send_timeout_seconds=4"
LONG_SESSION = "session_timeout_seconds=30"
"""Long enough that the group keeps a worker while its broker stands still."""


@contextmanager
def standing_still(broker: Broker) -> Iterator[None]:
    server = kafka_server(broker)
    server.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        server.send_signal(signal.SIGCONT)


def has_unanswered_commits(worker: Worker) -> bool:
    return value(worker, "firstseen_transactions_total", outcome="unanswered") > 0


def has_read_again(worker: Worker) -> bool:
    return "does not return the ends of the changelog" in worker.log_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "moment", "has_noticed"),
    [
        ("slow_commit=1", "sleeping in a transaction", has_unanswered_commits),
        ("slow_recovery=1", "sleeping before it is read", has_read_again),
    ],
)
def test_a_commit_and_a_recovery_are_made_again_after_a_broker_did_not_answer_in_time(
    kafka_broker: Broker,
    tmp_path: Path,
    fault: str,
    moment: str,
    has_noticed: Callable[[Worker], bool],
) -> None:
    options = [TIMEOUT, LONG_SESSION]
    with Stream(kafka_broker, tmp_path, raw_partitions=2, options=options) as stream:
        stream.send(keyed_documents(1, 500))
        worker = stream.worker()
        worker.start(fault)
        worker.await_log(moment)
        with standing_still(kafka_broker):
            time.sleep(STILL_SECONDS)
        stream.send(keyed_documents(2, 100))
        stream.judge_all()

        assert has_noticed(worker)
        worker.stop_gently()


@pytest.mark.slow
def test_shards_open_though_the_broker_stands_still_meanwhile(
    own_kafka_broker: Broker, tmp_path: Path
) -> None:
    """After the pause, its topics have no leaders for a moment."""
    options = [LONG_SESSION]
    with Stream(own_kafka_broker, tmp_path, raw_partitions=2, options=options) as stream:
        stream.send(keyed_documents(3, 100))
        worker = stream.worker()
        worker.start()
        worker.await_log("shards opening: 0 1")
        with standing_still(own_kafka_broker):
            time.sleep(OUT_OF_SERVICE_SECONDS)
        worker.await_ready()
        stream.send(keyed_documents(4, 100))
        stream.judge_all()
        worker.stop_gently()


@pytest.mark.slow
def test_a_worker_at_work_stops_while_its_broker_stands_still(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    with Stream(kafka_broker, tmp_path, raw_partitions=2, options=[TIMEOUT]) as stream:
        worker = stream.started()
        stream.send(keyed_documents(5, 20_000))
        time.sleep(1.0)
        with standing_still(kafka_broker):
            assert worker._process is not None
            worker._process.terminate()
            assert worker.await_end(STOP_SECONDS) == ExitCode.OK
        again = stream.started()
        stream.judge_all()
        again.stop_gently()


@pytest.mark.slow
def test_a_worker_whose_broker_is_away_stays_healthy_and_goes_on_or_stops(
    own_kafka_broker: Broker, tmp_path: Path
) -> None:
    server = kafka_server(own_kafka_broker)
    with Stream(own_kafka_broker, tmp_path, raw_partitions=1) as stream:
        worker = stream.started("stall_seconds=5")
        send_and_settle(stream, keyed_documents(75, 10))
        await_that("broker up", lambda: value(worker, "firstseen_broker_up") == 1, worker)
        server.kill()
        await_that("broker away", lambda: value(worker, "firstseen_broker_up") == 0, worker)
        time.sleep(6)
        assert worker._get("/healthz") == (HTTPStatus.OK, "ok\n")
        assert worker._get("/readyz")[0] == HTTPStatus.OK
        assert value(worker, "firstseen_errors_total", stage="watch", reason="broker") > 0
        log = worker.log_text()
        assert log.count("the broker does not answer (") == 1
        assert log.count("Unable to update metadata") < 4, "the same, again and again"

        server.start()
        await_that("broker back", lambda: value(worker, "firstseen_broker_up") == 1, worker)
        assert "the broker answers again" in worker.log_text()
        stream.send(keyed_documents(76, 10))
        stream.judge_all()
        assert worker._get("/healthz") == (HTTPStatus.OK, "ok\n")

        server.kill()
        time.sleep(1.0)  # until the worker has noticed it
        started = time.monotonic()
        worker.stop_gently()
        assert time.monotonic() - started < STOP_SECONDS


def test_a_worker_without_a_time_limit_waits_for_its_broker(
    own_kafka_broker: Broker, tmp_path: Path
) -> None:
    server = kafka_server(own_kafka_broker)
    with Stream(own_kafka_broker, tmp_path) as stream:
        server.kill()
        worker = stream.worker()
        worker.start()
        worker.await_log(f"waiting for a Kafka broker at {server.bootstrap_servers}")
        assert worker.log_text().count("refused") == 1, "it says so every ten seconds"
        well, why = worker._get("/healthz")
        assert (well, why[:3]) == (HTTPStatus.OK, "ok:")
        for path in ("/readyz", "/metrics", "/api/status"):
            status, why = worker._get(path)
            assert status == HTTPStatus.SERVICE_UNAVAILABLE
            assert "it waits for its broker" in why
        assert worker._get("/")[0] == HTTPStatus.OK
        server.start()
        worker.await_ready()
        stream.send(keyed_documents(41, 20))
        stream.judge_all()


# ---- the ids of topics


async def test_the_id_of_a_topic_is_told_once_the_broker_is_back() -> None:
    errors: list[Exception] = [TopicsError("not known yet"), BrokerUnavailableError("away")]

    def ask(topic: str) -> str:
        time.sleep(0.1)
        if errors:
            raise errors.pop()
        return f"id of {topic}"

    asked = asyncio.create_task(TopicIds(ask, WAIT_SECONDS).of("raw"))
    turns = 0
    while not asked.done():
        await asyncio.sleep(0.01)
        turns += 1
    assert asked.result() == "id of raw"
    assert turns > 10, "the event loop stood still"


def test_the_wait_for_the_id_of_a_topic_has_an_end() -> None:
    def ask(_topic: str) -> str:
        raise BrokerUnavailableError("the Kafka broker does not answer")

    with pytest.raises(BrokerUnavailableError):
        asyncio.run(asyncio.wait_for(TopicIds(ask, wait_seconds=0.2).of("raw"), timeout=10.0))


def test_a_broker_that_once_had_ids_is_not_taken_for_one_without(broker: Broker) -> None:
    topic = broker.new_topic("raw")
    admin = admin_of(broker)
    ask = TopicIdResolver(lambda: admin, has_ids=False)
    assert ask(topic) == ask(topic)
    assert bool(ask(topic)) == broker.supports_transactions
    with pytest.raises(BrokerUnavailableError):
        TopicIdResolver(client_of_nobody, has_ids=True)(topic)


def test_a_client_that_gets_no_answer_is_replaced(kafka_broker: Broker) -> None:
    """The client may wait for a controller that no longer exists."""
    topic = kafka_broker.new_topic("raw")
    admin = admin_of(kafka_broker)
    clients = [client_of_nobody(), admin]
    ask = TopicIdResolver(lambda: clients.pop(0), has_ids=True)
    told = [asyncio.run(TopicIds(ask, WAIT_SECONDS).of(topic)) for _ in range(2)]
    assert told == [topic_id(admin, topic)] * 2
    assert not clients


def client_of_nobody() -> AdminClient:
    return AdminClient({"bootstrap.servers": f"127.0.0.1:{free_port()}", "log_level": 0})
