"""What a worker says and does when it cannot start: it waits for what may come, and refuses what
cannot be right, with the fix in its message.
"""

from __future__ import annotations

import socket
import struct
from pathlib import Path

import pytest

from streams.errors import ExitCode
from streams.kafka.clients import AdminClient
from tests.kafka.test_stream import generated
from tests.rigs.brokers.broker import Broker
from tests.rigs.brokers.kafka_broker import KafkaBroker
from tests.rigs.brokers.loopback_ports import free_port
from tests.rigs.workers.stream_harness import Stream, Worker


def worker_for(brokers: str, directory: Path, *assignments: str) -> Worker:
    """A worker with settings of its own, not yet started."""
    options = ["--broker", brokers, "--set", f"state_dir={directory / 'state'}"]
    for assignment in assignments:
        options += ["--set", assignment]
    return Worker(options, directory / "worker.log")


def test_no_broker_in_time(tmp_path: Path) -> None:
    """Given no broker and a limit to the wait; when a worker starts; then it ends with 69 when the
    limit is over, and names the address, the reason and the setting.
    """
    address = f"127.0.0.1:{free_port()}"
    worker = worker_for(address, tmp_path, "broker_wait_seconds=2")
    worker.start()

    assert worker.await_end() == ExitCode.BROKER_UNAVAILABLE
    said = worker.log_text()
    assert f"no Kafka broker at {address} answered within 2 s" in said
    assert "refused" in said
    assert "FIRSTSEEN_BROKERS" in said


def test_stopped_before_it_has_begun(tmp_path: Path) -> None:
    """Given a worker that waits for a broker; when SIGTERM comes; then it ends at once with 0: it
    had nothing under way.
    """
    address = f"127.0.0.1:{free_port()}"
    worker = worker_for(address, tmp_path)
    worker.start()
    worker.await_log(f"waiting for a Kafka broker at {address}")

    worker.stop_gently()

    assert "SIGTERM, before the worker had joined its group" in worker.log_text()


@pytest.mark.usefixtures("kafka_required")
def test_a_worker_waits_for_its_broker(tmp_path: Path) -> None:
    """Given no broker and no limit; when a worker starts; then it says that it waits, and goes on
    when the broker is there.
    """
    with KafkaBroker(tmp_path / "kafka") as server:
        broker = Broker("kafka", server)
        with Stream(broker, tmp_path) as stream:
            server.stop()
            worker = stream.worker()
            worker.start()
            worker.await_log(f"waiting for a Kafka broker at {server.bootstrap_servers}")
            assert worker.log_text().count("refused") == 1, "it says so every ten seconds"
            server.start()
            worker.await_ready()
            stream.send(generated(seed=41, count=20))
            outputs = stream.settle()
            stream.judge.conserved(stream.sent, outputs)


def test_missing_topics(broker: Broker, tmp_path: Path) -> None:
    """Given a broker without our topics; when a worker starts; then it names each of them and the
    command that makes them, and ends. It makes none.
    """
    with Stream(broker, tmp_path, create=False) as stream:
        worker = stream.worker()
        worker.start()

        assert worker.await_end() == ExitCode.RUNTIME
        said = worker.log_text()
        topics = stream.settings.topics
        for topic in (topics.raw, topics.unique, topics.log, topics.reports, topics.changelog):
            assert f"{topic} is missing: run 'firstseen topics create'" in said
        assert "Traceback" not in said
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        assert topics.raw not in admin.list_topics(timeout=60).topics


def test_a_port_in_use(embedded_broker: Broker, tmp_path: Path) -> None:
    """Given another process on the port of the pages; when a worker starts; then it ends at once,
    and names the address and the settings.
    """
    with Stream(embedded_broker, tmp_path) as stream, socket.socket() as taken:
        worker = stream.worker()
        taken.bind(("127.0.0.1", worker.port))
        taken.listen()
        worker.start()

        assert worker.await_end() == ExitCode.RUNTIME
        said = worker.log_text()
        assert f"cannot listen on 127.0.0.1:{worker.port}" in said
        assert "web.port" in said
        assert "Traceback" not in said


def test_a_client_of_the_pages_that_goes_away(embedded_broker: Broker, tmp_path: Path) -> None:
    """Given a worker; when a client of its pages resets the connection in the middle of a request;
    then nothing of it is in the log, and the pages answer the next one.
    """
    with Stream(embedded_broker, tmp_path, raw_partitions=1) as stream:
        worker = stream.started()
        with socket.create_connection(("127.0.0.1", worker.port), timeout=5) as client:
            client.sendall(b"GET /metr")
            # Closing sends a reset instead of an end.
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        assert "firstseen_assigned_shards 1.0" in worker.metrics()
        worker.stop_gently()

        assert "Traceback" not in worker.log_text()
        assert worker.log_text().splitlines()[-1].endswith("stopped: exit code 0")


def test_another_index_on_the_same_state(broker: Broker, tmp_path: Path) -> None:
    """Given the state of one profile; when a worker starts with another, beside that state or on
    another machine; then it ends with 78, and names what differs, and the settings behind it.
    """
    with Stream(broker, tmp_path, raw_partitions=1) as stream:
        worker = stream.started()
        stream.send(generated(seed=42, count=10))
        stream.settle()
        worker.stop_gently()

        for machine in ("state", "another"):
            other = stream.worker(state=machine, flags=["--profile", "classic"])
            other.start()

            assert other.await_end() == ExitCode.CONFIGURATION
            said = other.log_text()
            assert "index.bits: there 256, here 64" in said
            assert "index.distance: there 68, here 3" in said
            assert "index.segmenter" not in said, "it names what does not differ"
