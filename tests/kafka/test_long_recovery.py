"""A worker that is told to stop while it reads a long changelog does not read it to the end."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

import numpy as np

from simhash_core.document_columns import BytesColumn, DocumentColumns
from simhash_core.log.records import NO_CONTROL, Chain, Packet, Progress, Sender
from simhash_core.log.shard_stream import NewEntries
from simhash_core.text.fingerprinter import CONTENT_DIGEST_SIZE, Fingerprinter
from streams.demo.worker_process import WorkerProcessError
from streams.kafka.clients import Producer
from streams.store.changelog_codec import encode_entries, encode_progress
from streams.worker.index_on_kafka import reading_rules
from tests.rigs.brokers.broker import Broker
from tests.rigs.workers.stream_harness import Stream, Worker
from tests.unit.ops_page.live_worker import ask

A_PACKET = 250
RECOVERED_ENTRIES = 500_000
STOP_SECONDS = 30.0
SEEN_SECONDS = 90.0


def test_a_long_recovery_is_left_at_once(kafka_broker: Broker, tmp_path: Path) -> None:
    """Given a shard with hundreds of thousands of documents to recover, when the worker gets
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


def fill_changelog(stream: Stream, documents: int) -> None:
    """Write a changelog of so many unique documents, as a worker that decided them would have."""
    rng = np.random.default_rng(10)
    profile = stream.settings.index_profile()
    producer = Producer(
        {"bootstrap.servers": stream.broker.bootstrap_servers, "compression.type": "lz4"}
    )
    topic, chain = stream.settings.topics.changelog, Chain(stream.settings.topics.raw, "", 0)
    for number, first in enumerate(range(0, documents, A_PACKET)):
        columns = DocumentColumns(
            np.arange(first, first + A_PACKET),
            np.zeros(A_PACKET, np.int64),
            BytesColumn.of([b"%d" % order for order in range(first, first + A_PACKET)]),
            rng.integers(0, 256, (A_PACKET, CONTENT_DIGEST_SIZE), np.uint8),
            rng.integers(0, 2**64, (A_PACKET, profile.bits // 64), np.uint64),
            np.zeros(A_PACKET, np.uint8),
            BytesColumn.of([b""] * A_PACKET),
        )
        packet = Packet(chain, Sender("x", number), first - 1, first + A_PACKET - 1, columns)
        key, value = encode_entries(NewEntries(number, packet, np.arange(A_PACKET)))
        producer.produce(topic, value, key, partition=0)
        producer.poll(0)
    identity = Fingerprinter(profile).identity
    progress = Progress(chain, documents, documents // A_PACKET, NO_CONTROL)
    key, value = encode_progress(progress, identity, reading_rules(stream.settings))
    producer.produce(topic, value, key, partition=0)
    assert producer.flush(60.0) == 0
