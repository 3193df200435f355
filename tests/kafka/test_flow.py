"""How documents flow through a worker: outputs from the first second, and few in flight."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.rigs.brokers.broker import Broker
from tests.rigs.workers.short_documents import keyed_documents
from tests.rigs.workers.stream_harness import SETTLE_SECONDS, Stream
from tests.rigs.workers.worker_metrics import value

BACKLOG = 6_000
FIRST_SECONDS = 2.0
LIMIT, BATCH, READ_BATCHES = 60, 20, 4


def test_a_backlog_flows_from_the_beginning(kafka_broker: Broker, tmp_path: Path) -> None:
    """Given thousands of documents in four partitions before a worker starts; when it is ready,
    then outputs come within moments, long before the last document is read.
    """
    with Stream(kafka_broker, tmp_path, raw_partitions=4) as stream:
        documents = keyed_documents(161, BACKLOG)
        stream.send([raw._replace(partition=n % 4) for n, raw in enumerate(documents)])
        stream.outputs.read(0)  # its connections are there
        worker = stream.started()
        until = time.monotonic() + FIRST_SECONDS
        while not stream.outputs.count and time.monotonic() < until:
            stream.outputs.read()
        assert stream.outputs.count, "nothing was put out"
        assert stream.open > BACKLOG / 2, "the backlog was too small: no test"
        stream.judge_all()
        worker.stop_gently()


@pytest.mark.parametrize("partitions", [1, 4])
def test_few_documents_are_in_flight(broker: Broker, tmp_path: Path, partitions: int) -> None:
    """Given a limit on documents in flight; when a backlog is worked off, then a worker never holds
    more than that and the few batches that were read when it was reached, and all comes out.
    """
    options = [f"in_flight.documents={LIMIT}", f"batch.documents={BATCH}"]
    with Stream(broker, tmp_path, raw_partitions=partitions, options=options) as stream:
        stream.send(keyed_documents(162, 1_500))
        worker = stream.started()
        most, deadline = 0.0, time.monotonic() + SETTLE_SECONDS
        while stream.open and time.monotonic() < deadline:
            most = max(most, value(worker, "firstseen_in_flight_documents"))
            stream.outputs.read(0.01)
        stream.judge_all()
        assert 0 < most <= LIMIT + READ_BATCHES * BATCH
        worker.stop_gently()
