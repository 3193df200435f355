"""A worker that is told to stop while it reads a long changelog does not read it to the end."""

from __future__ import annotations

import random
import time
from contextlib import suppress
from pathlib import Path

from confluent_kafka import Producer

from simhash_core.documents import SourcePosition
from simhash_core.entries import Entry, Progress, PutEntry
from simhash_core.fingerprinter import Fingerprinter
from streams.changelog_codec import encode_change
from streams.demo.worker_process import WorkerProcessError
from tests.brokers.broker import Broker
from tests.integration.stream_harness import Stream, Worker
from tests.ops_page.live_worker import ask

RECOVERED_ENTRIES = 150_000
STOP_SECONDS = 30.0
SEEN_SECONDS = 90.0


def test_a_long_recovery_is_left_at_once(kafka_broker: Broker, tmp_path: Path) -> None:
    """Given a shard with hundreds of thousands of changelog records to read, when the worker gets
    SIGTERM in the middle of that, then it ends in good order and soon; the next one goes on
    where it was. Until then its ops page says how far it is.
    """
    with Stream(kafka_broker, tmp_path, raw_partitions=1) as stream:
        fill_changelog(stream, RECOVERED_ENTRIES)
        worker = stream.worker()
        worker.start()
        left = await_recovering(worker)
        (shard,) = ask(worker, "GET", "/api/status").json["shards"]
        assert (shard["state"], shard["entries"]) == ("recovering", 0)
        assert shard["remaining"] <= left
        assert 0 <= shard["recovered"] < 1
        started = time.monotonic()
        worker.stop_gently()
        assert time.monotonic() - started < STOP_SECONDS
        assert "moved away while it was opened" in worker.log_text()

        worker = stream.worker()
        worker.start()
        assert await_recovering(worker) <= left, "it began anew"
        worker.stop_gently()


def await_recovering(worker: Worker) -> float:
    """Wait until the worker is in the middle of a recovery; return how many records are left."""
    deadline = time.monotonic() + SEEN_SECONDS
    while time.monotonic() < deadline:
        worker.check()
        with suppress(WorkerProcessError):  # its pages are not there yet
            for line in worker.metrics().splitlines():
                name, _, value = line.partition(" ")
                if name == "firstseen_recovery_remaining_messages" and float(value) > 0:
                    return float(value)
        time.sleep(0.02)
    raise AssertionError(f"no recovery was seen; {worker.log_text()}")


def fill_changelog(stream: Stream, entries: int) -> None:
    """Write a changelog of so many unique documents, as a worker that decided them would have."""
    rng = random.Random(10)
    scheme = stream.settings.index_profile().scheme()
    producer = Producer(
        {
            "bootstrap.servers": stream.broker.bootstrap_servers,
            "queue.buffering.max.messages": entries + 1,
            "queue.buffering.max.kbytes": 1024 * 1024,
        }
    )
    topic = stream.settings.topics.changelog
    for order in range(entries):
        source = SourcePosition(stream.settings.topics.raw, 0, order)
        entry = Entry(source, str(order), 0, rng.randbytes(scheme.bits // 8), rng.randbytes(16))
        key, value = encode_change(PutEntry(order, entry))
        producer.produce(topic, value, key, partition=0)
        if order % 1000 == 0:
            producer.poll(0)
    identity = Fingerprinter(stream.settings.index_profile()).identity
    key, value = encode_change(Progress(next_order=entries, index=identity))
    producer.produce(topic, value, key, partition=0)
    assert producer.flush(60.0) == 0
