"""A whole worker gives records of other clients one output each, also those librdkafka cannot send.

The last record is good: it has an output only if none before it has stopped the worker.
"""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Message, TopicPartition

from simhash_core.documents import SourcePosition
from streams.documents.output_records import DeadLetterOutput, UniqueOutput
from streams.kafka.clients import Consumer
from streams.kafka.headers import headers_of
from tests.rigs.brokers.broker import Broker
from tests.rigs.brokers.foreign_records import ForeignRecord, send_foreign
from tests.rigs.workers.stream_harness import Stream
from tests.rigs.workers.stream_outputs import Output, Raw

READ_SECONDS = 30.0
OFTEN = 1000


def value_of(seed: int) -> bytes:
    rng = random.Random(seed)
    return json.dumps({"text": " ".join(f"w{rng.randrange(10**6)}" for _ in range(60))}).encode()


def outputs_of(broker: Broker, directory: Path, records: list[ForeignRecord]) -> list[list[Output]]:
    """Return the outputs of records."""
    with Stream(broker, directory, raw_partitions=1) as stream:
        topic = stream.settings.topics.raw
        offsets = send_foreign(broker.bootstrap_servers, topic, records)
        places = [SourcePosition(topic, 0, offset) for offset in offsets]
        sent = (Raw(record.key, record.value) for record in records)
        stream.expect(dict(zip(places, sent, strict=True)))
        worker = stream.started()
        outputs = stream.settle()
        worker.stop_gently()
        return [outputs.of(place) for place in places]


def test_a_name_of_a_header_that_is_not_utf8_makes_a_dead_letter(
    broker: Broker, tmp_path: Path
) -> None:
    now = int(time.time() * 1000)
    names = [(b"trace", b"7f"), (b"\xff\xfe", b"1")]
    records = [
        ForeignRecord(b"bad", value_of(1), now, names),
        ForeignRecord(b"gone", None, now, names),
        ForeignRecord(b"large", b"x" * 1_048_576, now, names),
        ForeignRecord(b"good", value_of(2), now, [(b"trace", b"7f")]),
    ]
    ended = outputs_of(broker, tmp_path, records)
    for (output,), record, reason in zip(
        ended, records, ("not_utf8", "not_utf8", "too_large"), strict=False
    ):
        assert isinstance(output.said, DeadLetterOutput)
        assert output.said.reason == reason
        assert str(output.said.source) in output.said.detail
        assert "headers left out" in output.said.detail
        assert output.record.key == record.key
        assert (record.value or b"").startswith(output.record.value or b"")
        assert "trace" not in dict(output.record.headers)
    (good,) = ended[-1]
    assert isinstance(good.said, UniqueOutput)
    assert ("trace", b"7f") in good.record.headers


def test_headers_that_cannot_be_read_stay_so(embedded_broker: Broker) -> None:
    """A worker with a schema registry asks twice, and Python calls often-used code otherwise."""
    usual = Message(headers=[("trace", b"7f")])
    assert {headers_of(usual) for _ in range(OFTEN)} == {(("trace", b"7f"),)}
    topic, servers = embedded_broker.unique("topic"), embedded_broker.bootstrap_servers
    embedded_broker.create_topics({topic: 1})
    now = int(time.time() * 1000)
    send_foreign(servers, topic, [ForeignRecord(None, b"value", now, [(b"\xff", b"1")])])
    consumer = Consumer({"bootstrap.servers": servers, "group.id": topic})
    try:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        message = consumer.poll(READ_SECONDS)
        assert message is not None
        assert message.value() == b"value"
        assert [headers_of(message), headers_of(message)] == [None, None]
    finally:
        consumer.close()


def test_the_time_0_does_not_become_the_time_of_sending(broker: Broker, tmp_path: Path) -> None:
    """It becomes 1, the nearest time that librdkafka can send."""
    times_ms = {0: 1, 1: 1, -1: -1}
    records = [ForeignRecord(b"key", value_of(3 + each), each) for each in times_ms]
    records += [ForeignRecord(b"key", b"no JSON", each) for each in times_ms]
    ended = outputs_of(broker, tmp_path, records)
    came = [output.record.timestamp_ms for (output,) in ended]
    assert came == [*times_ms.values(), *times_ms.values()]
