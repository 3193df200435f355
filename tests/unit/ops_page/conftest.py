"""One worker on the embedded broker, with real documents, for all tests of the page."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kafka.test_stream import generated
from tests.rigs.brokers.broker import Broker
from tests.rigs.workers.stream_harness import Stream
from tests.unit.ops_page.live_worker import EDITED, HOSTILE_ID, ORIGINAL, Live, now_ms


@pytest.fixture(scope="package")
def live(embedded_broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """Run a worker with two shards that has decided generated documents, and two hostile ones."""
    directory = tmp_path_factory.mktemp("ops-page")
    with Stream(embedded_broker, directory, raw_partitions=2) as stream:
        worker = stream.started()
        stream.send(each._replace(timestamp_ms=now_ms()) for each in generated(seed=7, count=120))
        stream.settle()
        running = Live(stream, worker, *[next(iter(stream.sent))] * 2)
        (original,) = running.send(ORIGINAL, ids=["ferry"])
        (edited,) = running.send(EDITED, ids=[HOSTILE_ID])
        yield running._replace(original=original, edited=edited)
        worker.stop_gently()
