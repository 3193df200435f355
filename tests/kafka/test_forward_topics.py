"""The example that forwards several topics to one sends each record once, even if it is killed."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections import Counter

import pytest

from streams.kafka.clients import Consumer, Producer
from tests.repository.source_tree import ROOT
from tests.rigs.brokers.broker import Broker

EXAMPLE = ROOT / "examples" / "forward_topics.py"
RECORDS = 1_500
LARGE_BYTES = 1_040_000  # less than topics take by default, and more than clients send by default
SECONDS = 60.0
KILLS = 2


def read(consumer: Consumer, seen: Counter[str], wanted: int) -> list[tuple[bytes | None, bytes]]:
    """Read until ``wanted`` records have come; count them by their source position."""
    values: list[tuple[bytes | None, bytes]] = []
    deadline = time.monotonic() + SECONDS
    while seen.total() < wanted:
        assert time.monotonic() < deadline, f"{seen.total()} of {wanted} records were forwarded"
        for message in consumer.consume(500, 0.2):
            assert message.error() is None
            headers = dict(message.headers() or [])
            place = headers["forwarded-from"]
            assert headers["own"] == b"kept"
            assert isinstance(place, bytes)
            seen[place.decode()] += 1
            values.append((message.key(), message.value() or b""))
    return values


def test_each_record_is_forwarded_once(kafka_broker: Broker) -> None:
    name = kafka_broker.unique("forward")
    sources = [f"{name}-feeds", f"{name}-crawl-a", f"{name}-crawl-b"]
    target = f"{name}.raw"
    kafka_broker.create_topics(dict.fromkeys(sources, 2) | {target: 3})
    producer = Producer(
        {
            "bootstrap.servers": kafka_broker.bootstrap_servers,
            "message.max.bytes": 2 * LARGE_BYTES,
            "log_level": 2,
        }
    )
    sent = [
        (b"k%d" % (number % 7) if number % 3 else None, b"value %d" % number)
        for number in range(RECORDS)
    ]
    sent[-1] = b"large", b"x" * LARGE_BYTES
    for number, (key, value) in enumerate(sent):
        producer.produce(sources[number % 3], value, key, headers=[("own", b"kept")])
    assert producer.flush(SECONDS) == 0
    consumer = Consumer(
        kafka_broker.consumer_settings(kafka_broker.unique("read"))
        | {"isolation.level": "read_committed", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([target])
    arguments = [kafka_broker.bootstrap_servers, target, sources[0], f"^{re.escape(name)}-crawl-.*"]
    seen: Counter[str] = Counter()
    values: list[tuple[bytes | None, bytes]] = []
    try:
        for part in range(1, KILLS + 2):
            process = subprocess.Popen([sys.executable, str(EXAMPLE), *arguments])
            try:
                values += read(consumer, seen, RECORDS * part // (KILLS + 1))
            finally:
                process.kill() if part <= KILLS else process.terminate()
                process.wait(SECONDS)
    finally:
        consumer.close()

    assert set(seen.values()) == {1}
    assert Counter(values) == Counter(sent)


def test_a_pattern_that_matches_the_target_is_refused() -> None:
    arguments = ["127.0.0.1:1", "crawl-all", "^crawl-.*"]
    found = subprocess.run(
        [sys.executable, str(EXAMPLE), *arguments],
        capture_output=True,
        check=False,
        timeout=SECONDS,
    )
    assert found.returncode == 1
    assert b"again and again" in found.stderr


pytestmark = pytest.mark.timeout(300)
