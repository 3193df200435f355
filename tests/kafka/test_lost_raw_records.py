"""Brokers lose the last raw records, as after an unclean leader election, and go on without them.

New records then get offsets that have been read. One broker is enough: the directory of its
partition becomes an earlier one, and a new leader epoch begins.
"""

from __future__ import annotations

import shutil
import signal
import time
from pathlib import Path

import pytest

from tests.kafka.stream_changes import kafka_server, send_and_settle
from tests.kafka.test_raw_topic_changes import (
    DECIDE_SECONDS,
    IN_FLIGHT,
    check_each_key_once,
    documents,
    output_keys,
)
from tests.rigs.brokers.broker import Broker
from tests.rigs.brokers.kafka_broker import KafkaBroker
from tests.rigs.workers.stream_harness import Stream
from tests.rigs.workers.stream_outputs import Raw
from tests.rigs.workers.worker_metrics import await_that, value

pytestmark = pytest.mark.slow


class Loss:
    """Copies a raw partition at one moment, and later puts the copy in its place."""

    def __init__(self, server: KafkaBroker, stream: Stream) -> None:
        self._server = server
        self._stream = stream
        self._partition = server.data / f"{stream.settings.topics.raw}-0"
        self._kept = stream.directory / "kept"

    def keep(self) -> None:
        self._server.send_signal(signal.SIGSTOP)
        shutil.copytree(self._partition, self._kept)
        self._server.send_signal(signal.SIGCONT)

    def strike(self) -> None:
        self._server.kill()
        shutil.rmtree(self._partition)
        self._kept.rename(self._partition)
        self._server.start()
        self._stream.reconnect()


@pytest.mark.parametrize("options", [[], ["delivery=at_least_once"]])
def test_records_that_take_the_offsets_of_lost_ones_have_outputs(
    own_kafka_broker: Broker, tmp_path: Path, options: list[str]
) -> None:
    """The worker is stopped meanwhile. In ``test_three_brokers`` it runs."""
    kept, lost, new = documents(1, 30), documents(2, 20), documents(3, 60)
    with Stream(own_kafka_broker, tmp_path, raw_partitions=1, options=options) as stream:
        loss = Loss(kafka_server(own_kafka_broker), stream)
        worker = stream.started()
        send_and_settle(stream, kept)
        loss.keep()
        send_and_settle(stream, lost)
        worker.stop_gently()
        loss.strike()
        stream.send(new)
        worker = stream.started()
        check_each_key_once(stream, [*kept, *lost, *new])
        worker.await_log("the brokers lost records from offset 30 on")
        assert worker.runs
        worker.stop_gently()

        more = documents(4, 10)
        stream.send(more)
        worker = stream.started()
        check_each_key_once(stream, [*kept, *lost, *new, *more])
        worker.stop_gently()


def test_a_record_does_not_get_the_verdict_of_a_lost_one(
    own_kafka_broker: Broker, tmp_path: Path
) -> None:
    """A worker is killed with verdicts in the log that it has not committed."""
    kept_of_these = 4
    first, decided, new = documents(1, 30), documents(2, 10), documents(3, 20)
    with Stream(own_kafka_broker, tmp_path, raw_partitions=1) as stream:
        loss = Loss(kafka_server(own_kafka_broker), stream)
        worker = stream.worker()
        worker.start("stalling")
        worker.await_ready()
        send_and_settle(stream, first)
        stream.send([Raw(b"stall", b'{"text": "STALL"}'), *decided[:kept_of_these]])
        loss.keep()
        stream.send(decided[kept_of_these:])
        await_that("read", lambda: value(worker, IN_FLIGHT) == 1 + len(decided), worker)
        time.sleep(DECIDE_SECONDS)
        worker.kill()
        loss.strike()
        stream.send(new)
        worker = stream.started()
        remaining = [Raw(b"stall", b""), *decided[:kept_of_these]]
        check_each_key_once(stream, [*first, *remaining, *new])
        worker.await_log("the brokers lost")
        copies = [raw._replace(key=b"copy of %s" % raw.key) for raw in new]
        stream.send(copies)
        check_each_key_once(stream, [*first, *remaining, *new, *copies])
        lost = {each.key for each in decided[kept_of_these:]}
        assert lost.isdisjoint(output_keys(stream))
        worker.stop_gently()
