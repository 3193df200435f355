"""Three brokers: created topics pass the check, brokers die, and an election is unclean."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.cimpl import NewTopic

from streams.kafka.clients import AdminClient
from streams.settings.settings import Settings
from streams.topics.admin import create
from streams.topics.checking import Checked, check, session_notes
from streams.topics.plans import FOR_EVER_MS, MIN_IN_SYNC, TopicPlan, topic_plans
from tests.kafka.stream_changes import ANSWER_SECONDS, send_and_settle, set_topic_config
from tests.kafka.test_raw_topic_changes import check_each_key_once, documents
from tests.rigs.brokers.broker import Broker
from tests.rigs.brokers.kafka_cluster import BROKERS, KafkaCluster
from tests.rigs.waiting import await_that
from tests.rigs.workers.short_documents import keyed_documents
from tests.rigs.workers.stream_harness import Stream

A_SEND = 60
OPTIONS = ("session_timeout_seconds=10",)


@pytest.fixture(scope="module")
def cluster(
    kafka_required: None,  # noqa: ARG001 - skips
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[KafkaCluster]:
    with KafkaCluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started


def await_check(
    admin: AdminClient, plans: list[TopicPlan], holds: Callable[[Checked], object]
) -> Checked:
    """Check until ``holds`` is true, because a broker may see a change later than others."""
    deadline = time.monotonic() + ANSWER_SECONDS
    while not holds(checked := check(admin, plans)):
        assert time.monotonic() < deadline, f"it does not hold of {checked}"
        time.sleep(0.1)
    return checked


def test_copies_are_made_checked_and_warned_about(cluster: KafkaCluster, tmp_path: Path) -> None:
    with Stream(Broker("kafka", cluster), tmp_path, create=False) as stream:
        admin, plans = cluster.admin(), topic_plans(stream.settings, 3, 3)
        create(admin, plans)
        topics = stream.settings.topics
        durable = {*stream.settings.output_topics, topics.log, topics.changelog}

        checked = await_check(admin, plans, lambda checked: len(checked.states) == len(plans))
        assert {state.replicas for state in checked.states} == {BROKERS}
        assert {s.topic for s in checked.states if s.min_in_sync == 2} == durable
        assert (checked.differences, checked.notes) == ([], [])

        unclean = "unclean.leader.election.enable"
        set_topic_config(admin, topics.unique, unclean, "true")
        (note,) = await_check(admin, plans, lambda checked: checked.notes).notes
        assert note.startswith(f"{unclean} is true for {topics.unique}: ")
        set_topic_config(admin, topics.unique, unclean, "false")
        await_check(admin, plans, lambda checked: not checked.notes)

        set_topic_config(admin, topics.log, MIN_IN_SYNC, 1)
        (note,) = await_check(admin, plans, lambda checked: checked.notes).notes
        assert note.startswith(
            f"a write to {topics.log} is acknowledged once 1 of 3 brokers has it"
        )
        set_topic_config(admin, topics.log, MIN_IN_SYNC, 4)
        checked = await_check(admin, plans, lambda checked: checked.differences)
        (difference,) = checked.differences
        assert (difference.topic, difference.what) == (topics.log, MIN_IN_SYNC)
        assert "brokers refuse every record" in str(difference)


def test_session_that_ends_before_a_dead_broker_is_given_up_is_noted(
    cluster: KafkaCluster,
) -> None:
    brokers = cluster.bootstrap_servers
    (note,) = session_notes(cluster.admin(), Settings(brokers=brokers, session_timeout_seconds=9.5))
    assert "gives up a dead broker after 6 s" in note
    assert "Set session_timeout_seconds to 10 or more" in note
    assert not session_notes(cluster.admin(), Settings(brokers=brokers, session_timeout_seconds=10))


@pytest.mark.slow
def test_one_broker_may_die_and_two_lose_nothing(cluster: KafkaCluster, tmp_path: Path) -> None:
    documents = keyed_documents(61, 4 * A_SEND)
    with Stream(Broker("kafka", cluster), tmp_path, create=False, options=OPTIONS) as stream:
        raw, *others = topic_plans(stream.settings, 4, 2)
        # Records have times years ago, so a broker would delete them within a minute of its start.
        create(cluster.admin(), [raw._replace(config={"retention.ms": str(FOR_EVER_MS)}), *others])
        topics = stream.settings.topics
        durable = (*stream.settings.output_topics, topics.log, topics.changelog)
        worker = stream.started()
        send_and_settle(stream, documents[:A_SEND])
        try:
            cluster.brokers[1].kill()
            send_and_settle(stream, documents[A_SEND : 2 * A_SEND])

            cluster.brokers[2].kill()
            cluster.await_in_sync([topics.log], 1)
            stream.send(documents[2 * A_SEND : 3 * A_SEND])
            worker.await_log(f"{topics.log} accepts no records: it has 1 of 3 copies in sync")
            assert stream.open == A_SEND
        finally:
            for broker in cluster.brokers[1:]:
                if not broker.is_running():
                    broker.start()
        cluster.await_in_sync(durable, BROKERS)
        stream.send(documents[3 * A_SEND :])
        stream.judge_all()
        worker.await_log("all topics have enough copies in sync again")
        worker.stop_gently()


@pytest.mark.slow
def test_records_after_an_unclean_election_have_outputs(
    cluster: KafkaCluster, tmp_path: Path
) -> None:
    """A copy that lacks acknowledged raw records leads, and new records get their offsets."""
    kept, lost, new, more = (documents(seed, count) for seed, count in enumerate((30, 20, 8, 30)))
    _, leading, behind = cluster.brokers
    with Stream(
        Broker("kafka", cluster), tmp_path, raw_partitions=1, create=False, options=OPTIONS
    ) as stream:
        raw, admin = stream.settings.topics.raw, cluster.admin()
        config = {"unclean.leader.election.enable": "true", "retention.ms": str(FOR_EVER_MS)}
        topic = NewTopic(raw, num_partitions=1, replica_assignment=[[2, 3]], config=config)
        admin.create_topics([topic])[raw].result(ANSWER_SECONDS)
        create(admin, topic_plans(stream.settings, 4, 1))
        worker = stream.started()
        send_and_settle(stream, kept)
        try:
            behind.send_signal(signal.SIGSTOP)
            await_partition(cluster, raw, lambda partition: partition.isrs == [2])
            send_and_settle(stream, lost)
            leading.kill()
            behind.send_signal(signal.SIGCONT)
            await_partition(cluster, raw, lambda partition: partition.leader == 3)
            stream.reconnect()
            stream.send(new)
            check_each_key_once(stream, [*kept, *lost, *new])
            worker.await_log("the brokers lost records from offset 30 on")
        finally:
            behind.send_signal(signal.SIGCONT)
            if not leading.is_running():
                leading.start()
        await_partition(cluster, raw, lambda partition: len(partition.isrs) == 2)
        stream.send(more)
        check_each_key_once(stream, [*kept, *lost, *new, *more])
        worker.stop_gently()


def await_partition(cluster: KafkaCluster, topic: str, holds: Callable[[Any], bool]) -> None:
    """Wait until ``holds`` is true of the topic's partition, as the first broker knows it.

    A client that knows the other brokers may wait for a paused one.
    """
    address = {"bootstrap.servers": cluster.brokers[0].bootstrap_servers, "log_level": 0}
    seen: list[Any] = []

    def is_so() -> bool:
        known = AdminClient(address).list_topics(topic, timeout=ANSWER_SECONDS).topics[topic]
        seen[:] = [known.partitions[0]]
        return holds(seen[0])

    await_that(is_so, shows=lambda: f"leader {seen[0].leader}, in sync {seen[0].isrs}")
