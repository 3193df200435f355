"""A worker reads only what transactions have committed, of raw records and of probes.

Faust itself would read aborted records too; ``streams.committed_transport`` says why, and what it
changes.
"""

from __future__ import annotations

from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer

from simhash_core.documents import SourcePosition
from tests.brokers.broker import Broker
from tests.integration.stream_harness import SEND_SECONDS, Stream
from tests.integration.stream_outputs import Raw
from tests.integration.test_stream import generated


class Transactions:
    """A producer from outside that sends records in transactions of their own."""

    def __init__(self, broker: Broker) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "transactional.id": broker.unique("outside"),
            }
        )
        self._producer.init_transactions(SEND_SECONDS)

    def send(self, topic: str, records: list[Raw], *, commit: bool) -> list[int]:
        """Send records to partition 0, and when the broker has them all, commit or abort.

        Returns their offsets.
        """
        offsets: list[int] = []

        def report(error: KafkaError | None, message: Message) -> None:
            assert error is None, error
            offsets.append(message.offset() or 0)

        self._producer.begin_transaction()
        for raw in records:
            self._producer.produce(
                topic,
                raw.value,
                raw.key,
                partition=0,
                timestamp=raw.timestamp_ms,
                on_delivery=report,
            )
        assert self._producer.flush(SEND_SECONDS) == 0
        if commit:
            self._producer.commit_transaction(SEND_SECONDS)
        else:
            self._producer.abort_transaction(SEND_SECONDS)
        assert len(offsets) == len(records), "the broker has taken them all"
        return offsets


def test_aborted_raw_records_are_not_read(kafka_broker: Broker, tmp_path: Path) -> None:
    """Given raw records of an aborted transaction between those of two that were committed; when a
    worker runs; then the committed ones have their outputs, and the aborted ones have none.
    """
    documents = generated(seed=61, count=30)
    lots = [documents[:10], documents[10:20], documents[20:]]
    with Stream(kafka_broker, tmp_path, raw_partitions=1, shards=1) as stream:
        outside, raw_topic = Transactions(kafka_broker), stream.settings.topics.raw
        for lot, commit in zip(lots, [True, False, True], strict=True):
            offsets = outside.send(raw_topic, lot, commit=commit)
            if commit:
                places = [SourcePosition(raw_topic, 0, offset) for offset in offsets]
                stream.expect(dict(zip(places, lot, strict=True)))
        everything = kafka_broker.read_partition(raw_topic, 30, isolation_level="read_uncommitted")
        assert len(everything) == 30, "the aborted ones are in the log"

        worker = stream.started()
        outputs = stream.settle()
        worker.stop_gently()
        outputs.read_to_ends()

        assert stream.judge.conserved(stream.sent, outputs) == 0
        stream.judge.grounded(stream.sent, outputs)


def test_aborted_probes_are_not_read(kafka_broker: Broker, tmp_path: Path) -> None:
    """Given aborted records on the probes topic, which would end a worker if it read them, since
    they are no packets; when documents come before and after them; then the worker goes on.
    """
    documents = generated(seed=62, count=20)
    with Stream(kafka_broker, tmp_path, raw_partitions=1, shards=1) as stream:
        probes = stream.settings.topics.probes
        worker = stream.started()
        stream.send(documents[:10])
        stream.settle()
        junk = [Raw(b"junk", b"\x00 no packet")] * 3
        Transactions(kafka_broker).send(probes, junk, commit=False)
        stream.send(documents[10:])
        outputs = stream.settle()
        worker.check()
        worker.stop_gently()

        stream.judge.conserved(stream.sent, outputs)


def test_committed_junk_on_the_probes_topic_ends_the_worker(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    """Given the same records, committed; then the worker ends, and names the record: so the test
    above would have seen it read aborted ones.
    """
    with Stream(kafka_broker, tmp_path, raw_partitions=1, shards=1) as stream:
        worker = stream.started()
        junk = [Raw(b"junk", b"\x00 no packet")]
        Transactions(kafka_broker).send(stream.settings.topics.probes, junk, commit=True)

        assert worker.await_end() == 1
        assert f"{stream.settings.topics.probes}/0@0 has format version 0" in worker.log_text()
