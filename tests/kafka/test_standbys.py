"""Standbys of whole workers: the others go on while a killed worker's shards wait for the group."""

from __future__ import annotations

from pathlib import Path

import pytest

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

PARTITIONS = 4
LONG_SESSION = "session_timeout_seconds=20"
"""Long enough that a killed worker is a member of the group while the others are looked at."""


def standbys_of(worker: Worker) -> int:
    """How many standbys a worker has."""
    return int(gauge(worker, "firstseen_standby_shards"))


def start_with_standbys(stream: Stream) -> list[Worker]:
    """Two workers that share the shards and have put out documents; each shard has a standby."""
    workers = [stream.worker(state=f"machine-{n}") for n in range(2)]
    for worker in workers:
        worker.start()
    await_shared(workers, PARTITIONS)
    stream.send(keyed_documents(200, 400))
    stream.settle()
    await_that(
        "each shard has a standby",
        lambda: sum(map(standbys_of, workers)) == PARTITIONS,
        workers[0],
    )
    return workers


def owned_by(stream: Stream, worker: Worker) -> set[int]:
    """The raw partitions of a worker."""
    return {number for topic, number in lags(worker) if topic == stream.settings.topics.raw}


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("victim_leads", [False, True])
def test_others_go_on_without_a_killed_worker(
    kafka_broker: Broker, tmp_path: Path, *, victim_leads: bool
) -> None:
    """Given two workers with a standby of each shard; when one is killed, and documents come to the
    partitions of the other, then they are put out while the group still counts on both; and the
    shards of the one that was killed go on from their standbys, as one worker would have answered.
    """
    options = ("standbys=1", LONG_SESSION)
    with Stream(kafka_broker, tmp_path, raw_partitions=PARTITIONS, options=options) as stream:
        workers = start_with_standbys(stream)
        leader = await_leader(workers)
        (follower,) = (worker for worker in workers if worker is not leader)
        victim, survivor = (leader, follower) if victim_leads else (follower, leader)
        left = owned_by(stream, survivor)
        victim.kill()

        copies_and_others = [*keyed_documents(200, 400), *keyed_documents(201, 100)]
        stream.send(each._replace(partition=min(left)) for each in copies_and_others)
        stream.settle()
        assert shards_of(survivor) == len(left), "the group has given its shards away already"

        stream.send(keyed_documents(202, 200))
        stream.judge_all()
        said = survivor.log_text()
        for number in set(range(PARTITIONS)) - left:
            assert f"the standby of shard {number} becomes the shard" in said
        survivor.stop_gently()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_shard_goes_on_from_its_standby(broker: Broker, tmp_path: Path) -> None:
    """Given two workers with a standby of each shard, and a worker that is killed in the middle of
    documents, and comes back; then all is as one worker would have answered, on any broker.
    """
    with Stream(broker, tmp_path, raw_partitions=PARTITIONS, options=("standbys=1",)) as stream:
        workers = start_with_standbys(stream)
        stream.send(keyed_documents(203, 600))
        workers[0].kill()
        stream.send(keyed_documents(204, 200))
        stream.settle()
        assert "becomes the shard" in workers[1].log_text()
        workers[0].start()
        await_shared(workers, PARTITIONS)
        stream.send(keyed_documents(205, 200))
        if broker.supports_transactions:
            stream.judge_all()
        else:
            stream.settle()
            stream.judge.separated(stream.sent, stream.outputs)
            stream.judge.grounded(stream.sent, stream.outputs)
        for worker in workers:
            worker.stop_gently()
