"""A running worker meets a limit: of time, of the size of records, of the disk, of its version.

It goes on, or it ends and says what to do; then it goes on where it was. Nothing is skipped.
"""

from __future__ import annotations

import random
import resource
from pathlib import Path

from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource

from simhash_core.log.records import NO_CONTROL, Control
from simhash_core.text.fingerprinter import Fingerprinter
from streams.errors import ExitCode
from streams.kafka.clients import AdminClient, Producer
from streams.worker.log_codec import LOG_VERSION, LogCodec
from tests.rigs.brokers.broker import Broker
from tests.rigs.brokers.kafka_broker import KafkaBroker
from tests.rigs.workers.faulty_worker import faulty
from tests.rigs.workers.short_documents import keyed_documents
from tests.rigs.workers.stream_harness import Stream, Worker
from tests.rigs.workers.stream_outputs import Raw

ANSWER_SECONDS = 60.0
TRANSACTION_SECONDS = 4
SLOW_SECONDS = 7.0
KIB = 1024
LARGE_CHARACTERS = 200_000


def large_documents(seed: int, count: int) -> list[Raw]:
    """Documents of 200 KB that do not compress well, none near to another."""
    rng = random.Random(seed)
    texts = (" ".join(f"w{rng.randrange(10**8)}" for _ in range(20_500)) for _ in range(count))
    return [Raw(None, b'{"text": "%s"}' % text[:LARGE_CHARACTERS].encode()) for text in texts]


def set_largest(stream: Stream, topic: str, size_bytes: int) -> None:
    """Set the ``max.message.bytes`` of a topic."""
    admin = AdminClient({"bootstrap.servers": stream.broker.bootstrap_servers})
    entry = ConfigEntry(
        "max.message.bytes", str(size_bytes), incremental_operation=AlterConfigOpType.SET
    )
    changed = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    admin.incremental_alter_configs([changed])[changed].result(ANSWER_SECONDS)


def test_a_log_of_another_version_ends_a_running_worker(broker: Broker, tmp_path: Path) -> None:
    """Given a worker at work, when a record of a version to come is put on its log, then it ends,
    and names the record and both versions; so does the next one, which skips nothing.
    """
    with Stream(broker, tmp_path, raw_partitions=1) as stream:
        worker = stream.started()
        stream.send(keyed_documents(1, 40))
        identity = Fingerprinter(stream.settings.index_profile()).identity
        control = Control(NO_CONTROL, "x", leads=True, decisions=[], heads=[], next=0)
        value = LogCodec(identity).encode(control)
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        log = stream.settings.topics.log
        producer.produce(log, bytes((LOG_VERSION + 1,)) + value[1:], partition=0)
        assert producer.flush(ANSWER_SECONDS) == 0

        assert worker.await_end() == ExitCode.RUNTIME
        again = stream.worker()
        again.start()
        assert again.await_end() == ExitCode.RUNTIME
        for each in (worker, again):
            said = each.log_text().splitlines()[-1]
            assert f"the record {log}/0@" in said
            assert f"has format version {LOG_VERSION + 1}, this program reads {LOG_VERSION}" in said


def test_a_transaction_that_takes_too_long_is_done_again(
    kafka_required: None,  # noqa: ARG001 - skips
    tmp_path: Path,
) -> None:
    """Given a broker that ends transactions after four seconds, when a batch takes seven, then what
    it sent is never seen, the worker says why, and does it again: nothing is lost or repeated.
    """
    soon = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"}
    with KafkaBroker(tmp_path / "kafka", properties=soon) as server:
        options = [f"send_timeout_seconds={TRANSACTION_SECONDS}"]
        broker = Broker("kafka", server)
        with Stream(broker, tmp_path, raw_partitions=1, options=options) as stream:
            worker = stream.worker()
            worker.start_as(faulty(f"slow_commit={SLOW_SECONDS}"))
            worker.await_ready()
            stream.send(keyed_documents(2, 60))
            stream.judge_all()

            said = worker.log_text()
            assert said.count("sleeping in a transaction") == 1
            assert f"took longer than {TRANSACTION_SECONDS} s" in said
            assert 'firstseen_transactions_total{outcome="aborted"} 0.0' not in worker.metrics()
            worker.stop_gently()


def test_a_batch_larger_than_a_request_is_sent_in_several(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    """Given topics and clients that take less than a megabyte at once, when one batch of documents
    has two, then all of it comes out.
    """
    options = [f"max_record_bytes={LARGE_CHARACTERS + KIB}"]
    with Stream(kafka_broker, tmp_path, raw_partitions=1, options=options) as stream:
        stream.send(large_documents(3, 12))
        worker = stream.started()
        stream.judge_all()
        worker.stop_gently()


def test_a_document_larger_than_a_topic_takes_is_named(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    """Given a worker at work and a topic whose limit was lowered meanwhile, when a document is
    larger, then the worker ends at once, names document, topic, size and limit; with the limit as
    it was, the next worker puts that document out, and those around it.
    """
    with Stream(kafka_broker, tmp_path, raw_partitions=1) as stream:
        name = stream.settings.topics.unique
        stream.started()
        stream.send(keyed_documents(4, 20))
        stream.settle()
        set_largest(stream, name, 20 * KIB)
        (large,) = stream.send(large_documents(5, 1))
        stream.send(keyed_documents(6, 20))

        assert stream.workers[-1].await_end() == ExitCode.RUNTIME
        said = stream.workers[-1].log_text().splitlines()[-1]
        assert f"{name} refuses a record of 2" in said
        assert str(large) in said
        assert "max.message.bytes" in said
        set_largest(stream, name, 4 * KIB * KIB)
        worker = stream.started()
        stream.judge_all()
        worker.stop_gently()


def check_ended_for_want_of_room(stream: Stream, full: Worker, state: str) -> None:
    """Fail unless the worker has ended by itself, said why, and left something to do."""
    assert full.await_end() == ExitCode.RUNTIME
    said = full.log_text().splitlines()[-1]
    assert str(stream.directory / state) in said
    assert "Make room on the disk" in said
    assert "nothing is lost" in said
    assert stream.open > 0, "nothing was left to do: no test"


def test_a_limit_on_the_size_of_files(kafka_broker: Broker, tmp_path: Path) -> None:
    """Given a worker at work that may write no file of more than 64 KB from now on, as on a disk
    without room, then it ends, and names the path and the fix; without the limit, the next one does
    what was left: nothing is skipped, nothing put out twice.
    """
    with Stream(kafka_broker, tmp_path, raw_partitions=1) as stream:
        worker = stream.started()
        assert worker._process is not None
        resource.prlimit(worker._process.pid, resource.RLIMIT_FSIZE, (64 * KIB, 64 * KIB))
        stream.send(keyed_documents(9, 1_200))
        check_ended_for_want_of_room(stream, worker, "state")
        worker = stream.started()
        stream.judge_all()
        worker.stop_gently()
