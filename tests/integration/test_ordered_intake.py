"""Records that Faust loses on their way to the agents come again, before any that follows them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.brokers.broker import Broker
from tests.integration.stream_harness import Stream
from tests.integration.stream_outputs import Raw

RECORDS = 400
A_SEND = 50


@pytest.mark.slow
def test_records_lost_on_the_way_come_again(kafka_broker: Broker, tmp_path: Path) -> None:
    """Given a worker that loses some records, raw ones and probes, and acknowledges a few of
    them, when documents come, then each has its one output; none is lost, none is put out twice.
    """
    with Stream(kafka_broker, tmp_path) as stream:
        worker = stream.worker()
        worker.start_as([sys.executable, "-m", "tests.integration.lossy_worker"])
        worker.await_ready()
        for start in range(0, RECORDS, A_SEND):
            numbers = range(start, start + A_SEND)
            texts = [b'{"text": "document number %d"}' % number for number in numbers]
            stream.send([Raw(None, text, partition=n % 2) for n, text in enumerate(texts)])
        outputs = stream.settle()
        assert stream.judge.conserved(stream.sent, outputs) == 0
        topics = stream.settings.topics
        for topic in (topics.raw, topics.probes):
            assert f"lost on the way: {topic}" in worker.log_text(), "nothing was lost: no test"
