"""A worker that cannot start waits for what may still come, and refuses what cannot be right.

Its messages say how to fix it.
"""

from __future__ import annotations

import socket
import struct
from pathlib import Path

import pytest
from msgspec.structs import replace

from streams.errors import ExitCode
from streams.topics.admin import create
from streams.topics.plans import topic_plans
from tests.kafka.stream_changes import admin_of, send_and_settle
from tests.kafka.test_stream import generated
from tests.rigs.brokers.broker import Broker
from tests.rigs.brokers.loopback_ports import free_port
from tests.rigs.workers.short_documents import keyed_documents
from tests.rigs.workers.stream_harness import Stream, Worker
from tests.rigs.workers.worker_metrics import shards_of


def make_index_topics(stream: Stream, application: str) -> None:
    """Create the internal topics of another application with the same raw and output topics."""
    named = replace(stream.settings.topics, log="", reports="", changelog="")
    settings = replace(stream.settings, application_id=application, topics=named)
    create(admin_of(stream.broker), topic_plans(settings, None, stream.raw_partitions)[-3:])


@pytest.mark.parametrize("state_dir", ["/proc/firstseen", "/sys/firstseen", "worker.log/state"])
def test_a_worker_that_cannot_write_its_state_names_the_setting(
    tmp_path: Path, state_dir: str
) -> None:
    place = tmp_path / state_dir
    options = ["--broker", f"127.0.0.1:{free_port()}", "--set", f"state_dir={place}"]
    worker = Worker(options, tmp_path / "worker.log")
    worker.start()

    assert worker.await_end() == ExitCode.CONFIGURATION
    said = worker.log_text()
    assert f"state_dir is '{place}'" in said
    assert (
        "is not a directory" in said or "Give its user write permission, or set state_dir" in said
    )


def test_a_worker_without_partitions_is_ready_and_takes_over(
    broker: Broker, tmp_path: Path
) -> None:
    """A rolling update waits until each worker is ready, also if there are more than partitions."""
    with Stream(broker, tmp_path, raw_partitions=1) as stream:
        workers = [stream.started(state="first"), stream.started(state="second")]
        spare, owner = sorted(workers, key=shards_of)
        assert [shards_of(spare), shards_of(owner)] == [0, 1]
        send_and_settle(stream, keyed_documents(1, 20))
        owner.stop_gently()
        send_and_settle(stream, keyed_documents(2, 20))
        spare.stop_gently()


def test_missing_topics_are_named_and_not_made(broker: Broker, tmp_path: Path) -> None:
    with Stream(broker, tmp_path, create=False) as stream:
        worker = stream.worker()
        worker.start()

        assert worker.await_end() == ExitCode.RUNTIME
        said = worker.log_text()
        topics = stream.settings.topics
        for topic in (topics.raw, topics.unique, topics.log, topics.reports, topics.changelog):
            assert f"{topic} is missing: run 'firstseen topics create'" in said
        assert "Traceback" not in said
        assert topics.raw not in admin_of(broker).list_topics(timeout=60).topics


def test_a_new_index_refuses_outputs_of_another_application(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    """This happens with a mistyped id: the worker would output everything again."""
    with Stream(kafka_broker, tmp_path) as stream:
        first = stream.started()
        send_and_settle(stream, generated(seed=42, count=20))
        first.stop_gently()
        theirs, ours = stream.settings.application_id, kafka_broker.unique("app")
        flags = ("--application-id", ours)

        mistyped = stream.worker(flags=flags)
        mistyped.start()
        assert mistyped.await_end() == ExitCode.RUNTIME
        said = mistyped.log_text()
        assert f"{ours}.changelog is missing: run 'firstseen topics create'" in said
        assert f"a new one reads all of {stream.settings.topics.raw}" in said

        make_index_topics(stream, ours)
        refused = stream.worker(flags=flags)
        refused.start()
        assert refused.await_end() == ExitCode.CONFIGURATION
        said = refused.log_text()
        for part in (f"records of application '{theirs}'", "shared_outputs=true", "start"):
            assert part in said
        assert "Traceback" not in said

        knowing = stream.worker("shared_outputs=true", flags=flags)
        knowing.start()
        knowing.await_ready()
        knowing.stop_gently()
        again = stream.started()
        again.stop_gently()


def test_a_port_in_use_ends_the_worker_which_names_it(
    embedded_broker: Broker, tmp_path: Path
) -> None:
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


def test_a_client_that_resets_its_connection_to_the_pages_is_no_error(
    embedded_broker: Broker, tmp_path: Path
) -> None:
    with Stream(embedded_broker, tmp_path, raw_partitions=1) as stream:
        worker = stream.started()
        with socket.create_connection(("127.0.0.1", worker.port), timeout=5) as client:
            client.sendall(b"GET /metr")
            # So that closing sends a reset (RST) instead of an end (FIN).
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        assert "firstseen_assigned_shards 1.0" in worker.metrics()
        worker.stop_gently()

        assert "Traceback" not in worker.log_text()
        assert worker.log_text().splitlines()[-1].endswith("stopped: exit code 0")
