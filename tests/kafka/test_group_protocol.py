"""Workers in a group with the protocol ``consumer`` (KIP-848): the broker assigns partitions."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from streams.errors import ExitCode
from streams.kafka.clients import AdminClient
from streams.topics import group_description
from streams.topics.consumer_group import assigned_partitions, listed_group
from streams.topics.group_description import described_group
from tests.kafka.stream_changes import (
    delete_topic,
    grow,
    send_and_settle,
    start_together,
    stop_gently,
)
from tests.kafka.test_index_care import refusal
from tests.rigs.brokers.broker import Broker
from tests.rigs.brokers.kafka_broker import KafkaBroker
from tests.rigs.workers.short_documents import keyed_documents
from tests.rigs.workers.stream_harness import Stream
from tests.rigs.workers.worker_metrics import await_leader, await_shared, await_that, shards_of

CONSUMER = "group_protocol=consumer"
PARTITIONS = 4


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_kills_a_pause_and_new_partitions(kafka_broker: Broker, tmp_path: Path) -> None:
    """Each step moves shards while records are sent; the judge compares with one reader."""
    options = ("standbys=1", CONSUMER)
    with Stream(kafka_broker, tmp_path, raw_partitions=PARTITIONS, options=options) as stream:
        workers = [stream.started(), stream.started(state="second")]
        await_shared(workers, PARTITIONS)
        send_and_settle(stream, keyed_documents(300, 300))
        assert "stop the workers" in refusal(stream, "new-log")

        leader = await_leader(workers)
        stream.send(keyed_documents(301, 300))
        leader.kill()
        stream.send([*keyed_documents(300, 100), *keyed_documents(302, 100)])
        stream.judge_all()

        (survivor,) = (each for each in workers if each is not leader)
        third = stream.started(state="third")
        await_shared([survivor, third], PARTITIONS)
        assert third._process is not None
        os.kill(third._process.pid, signal.SIGSTOP)
        stream.send(keyed_documents(303, 200))
        await_that("all moved", lambda: shards_of(survivor) == PARTITIONS, survivor)
        os.kill(third._process.pid, signal.SIGCONT)
        stream.judge_all()

        await_shared([survivor, third], PARTITIONS)
        grow(stream, PARTITIONS + 2)
        await_shared([survivor, third], PARTITIONS + 2)
        stream.send([*keyed_documents(303, 100), *keyed_documents(304, 200)])
        stream.judge_all()
        stop_gently([survivor, third])


def test_the_protocol_changes_while_no_worker_runs(kafka_broker: Broker, tmp_path: Path) -> None:
    with Stream(kafka_broker, tmp_path, raw_partitions=PARTITIONS) as stream:
        workers = start_together(stream)
        send_and_settle(stream, keyed_documents(310, 100))
        early = stream.worker(CONSUMER, state="early")
        early.start()
        assert early.await_end() == ExitCode.RUNTIME
        assert "stop all workers before you change this setting" in early.log_text()
        for number, options in enumerate([(CONSUMER,), ()], 311):
            stop_gently(workers)
            workers = [stream.started(*options, state=each) for each in ("machine-0", "machine-1")]
            await_shared(workers, PARTITIONS)
            stream.send([*keyed_documents(310, 50), *keyed_documents(number, 50)])
            stream.judge_all()
        stop_gently(workers)


def test_a_worker_ends_when_its_topic_is_deleted(kafka_broker: Broker, tmp_path: Path) -> None:
    with Stream(kafka_broker, tmp_path, raw_partitions=2, options=(CONSUMER,)) as stream:
        worker = stream.started()
        send_and_settle(stream, keyed_documents(330, 50))
        delete_topic(stream, stream.settings.topics.raw)
        assert worker.await_end() == ExitCode.RUNTIME
        assert f"{stream.settings.topics.raw} no longer exists" in worker.log_text()


def test_members_are_described_and_a_child_that_ends_is_replaced(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    with Stream(kafka_broker, tmp_path, raw_partitions=3, options=(CONSUMER,)) as stream:
        worker = stream.started()
        group, raw = stream.settings.application_id, stream.settings.topics.raw
        admin = AdminClient({"bootstrap.servers": kafka_broker.bootstrap_servers})
        listed = listed_group(admin, group, 10.0)
        assert listed.is_stable
        assert [assigned_partitions(each.assignment, raw) for each in listed.members] == [{0, 1, 2}]
        child = group_description._CHILD._process
        assert child is not None
        child.kill()
        child.wait()
        assert listed_group(admin, group, 10.0) == listed
        assert described_group(admin.config, f"{group}.other", 10.0).members == []
        worker.stop_gently()
        assert listed_group(admin, group, 10.0).members == []


def test_brokers_without_the_protocol_are_named(
    kafka_required: None,  # noqa: ARG001 - skips
    tmp_path: Path,
) -> None:
    classic = {"group.coordinator.rebalance.protocols": "classic"}
    with KafkaBroker(tmp_path / "kafka", properties=classic) as server:
        broker = Broker("kafka", server)
        with Stream(broker, tmp_path, raw_partitions=1, options=(CONSUMER,)) as stream:
            worker = stream.worker()
            worker.start()
            assert worker.await_end() == ExitCode.RUNTIME
            assert "do not support group_protocol=consumer" in worker.log_text()
