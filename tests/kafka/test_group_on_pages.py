"""The page of each worker knows the whole group, on a real Kafka."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from streams.kafka.clients import AdminClient
from streams.topics.consumer_group import GroupReader
from tests.kafka.test_stream import generated
from tests.rigs.brokers.broker import Broker
from tests.rigs.workers.stream_harness import Stream, Worker
from tests.rigs.workers.worker_metrics import await_shared
from tests.unit.ops_page.live_worker import SECONDS, ask

POLL_SECONDS = 0.3


def group_when(worker: Worker, holds: Callable[[Any], bool]) -> Any:  # noqa: ANN401 - JSON
    """The group as the page of a worker has it, once it holds."""
    deadline = time.monotonic() + SECONDS
    while True:
        group = json.loads(ask(worker, "GET", "/api/status").body)["group"]
        if group is not None and holds(group):
            return group
        assert time.monotonic() < deadline, group
        time.sleep(POLL_SECONDS)


def test_a_raw_topic_that_is_gone_is_not_created(kafka_broker: Broker) -> None:
    """Given no raw topic, then the group has no partitions and no lag, and there is still none."""
    name = kafka_broker.unique("gone")
    config: dict[str, Any] = {"bootstrap.servers": kafka_broker.bootstrap_servers}

    state = GroupReader(config, name, name, SECONDS).read()

    assert (state.members, state.partitions, state.notes, state.lag) == ([], 0, {}, 0)
    assert name not in AdminClient(config).list_topics(timeout=SECONDS).topics


def test_each_page_has_all_workers(kafka_broker: Broker, tmp_path: Path) -> None:
    """Given two workers with documents, then the page of each has both, with their pages, hosts and
    partitions, one that leads, no lag, and as many documents as were sent; when one stops, then the
    other's page has one worker with all partitions.
    """
    with Stream(kafka_broker, tmp_path, raw_partitions=2) as stream:
        first = stream.started(state="first")
        second = stream.started(state="second")
        await_shared([first, second], 2)
        stream.send(generated(seed=3, count=80))
        stream.settle()
        total = len(stream.sent)

        for worker in (first, second):
            group = group_when(
                worker,
                lambda group: (
                    sum(group["documents"].values()) == total
                    and sum(each["leads"] for each in group["workers"]) == 1
                ),
            )
            assert group["described"] is True
            assert (group["partitions"], group["lag"]) == (2, 0)
            assert {each["page"] for each in group["workers"]} == {first.url, second.url}
            assert all(each["host"] for each in group["workers"])
            owned = sorted(part for each in group["workers"] for part in each["partitions"])
            assert owned == [0, 1]
            (this,) = [each for each in group["workers"] if each["is_this"]]
            assert this["page"] == worker.url

        second.stop_gently()
        alone = group_when(first, lambda group: len(group["workers"]) == 1)
        (this,) = alone["workers"]
        assert this["partitions"] == [0, 1]
        assert this["is_this"] is True
