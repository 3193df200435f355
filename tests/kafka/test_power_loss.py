"""A broker loses its last records, as after a power failure before it has written them."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from streams.errors import ExitCode
from tests.kafka.stream_changes import kafka_server, send_and_settle
from tests.rigs.brokers.broker import Broker
from tests.rigs.brokers.kafka_broker import KafkaBroker
from tests.rigs.workers.short_documents import keyed_documents
from tests.rigs.workers.stream_harness import Stream
from tests.rigs.workers.stream_outputs import Raw

pytestmark = pytest.mark.slow


class PowerLoss:
    """Copies a broker's disk at one moment, and later replaces the disk with that copy.

    ``stream`` has two raw partitions on that broker.
    """

    def __init__(self, server: KafkaBroker, stream: Stream) -> None:
        self.stream = stream
        self._server = server
        self._kept = stream.directory / "kept"

    def keep(self) -> None:
        self._server.send_signal(signal.SIGSTOP)
        shutil.copytree(self._server.data, self._kept)
        self._server.send_signal(signal.SIGCONT)

    def strike(self) -> None:
        self._server.kill()
        shutil.rmtree(self._server.data)
        self._kept.rename(self._server.data)
        self._server.start()

    def send_and_lose(self, records: Iterable[Raw]) -> None:
        """Send records that ``strike`` will remove with all their effects; so do not count them."""
        kept = dict(self.stream.sent)
        self.keep()
        send_and_settle(self.stream, list(records))
        self.stream.sent = kept

    def read_again(self) -> None:
        """Read all outputs with a new client, because the old one has read the lost records."""
        self.stream.reconnect()
        self.stream.__dict__.pop("outputs").__exit__(None, None, None)
        self.stream.expect(self.stream.sent)


@pytest.fixture
def power(own_kafka_broker: Broker, tmp_path: Path) -> Iterator[PowerLoss]:
    with Stream(own_kafka_broker, tmp_path, raw_partitions=2) as stream:
        yield PowerLoss(kafka_server(own_kafka_broker), stream)


@pytest.mark.timeout(400)
def test_stores_that_are_ahead_of_the_brokers_are_rebuilt(power: PowerLoss) -> None:
    """If documents are lost with their entries, they are unique when they come again."""
    stream = power.stream
    worker = stream.started(state="one")
    send_and_settle(stream, keyed_documents(1, 100))
    power.send_and_lose(keyed_documents(2, 100))
    worker.stop_gently()
    power.strike()
    power.read_again()

    another = stream.started(state="another")  # it has not seen the lost records
    again = [*keyed_documents(2, 100), *keyed_documents(3, 100)]
    send_and_settle(stream, again)
    another.stop_gently()
    worker.start()
    worker.await_ready()
    send_and_settle(stream, keyed_documents(4, 50))

    said = worker.log_text()
    for number in range(2):
        assert f"shard {number} is rebuilt from its changelog" in said
    assert "brokers have lost" in said
    worker.stop_gently()
    stream.judge_all()


@pytest.mark.timeout(400)
def test_a_worker_that_runs_while_records_are_lost_ends_and_begins_again(power: PowerLoss) -> None:
    """The worker has read records that the log no longer has."""
    stream = power.stream
    worker = stream.started()
    send_and_settle(stream, keyed_documents(1, 100))
    power.send_and_lose(keyed_documents(2, 100))
    power.strike()
    assert worker.await_end() == ExitCode.RUNTIME
    said = worker.log_text()  # the reader or a commit notices it first
    assert "was to be read from offset" in said or "brokers have lost records" in said
    power.read_again()

    worker.start()
    worker.await_ready()
    send_and_settle(stream, keyed_documents(3, 100))
    worker.stop_gently()
    stream.judge_all()
