"""Changelogs of random documents, for benchmarks of recovery."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import numpy as np
from confluent_kafka.cimpl import NewTopic

from simhash_core.document_columns import BytesColumn, DocumentColumns
from simhash_core.index.prints import BAND_KEY_BYTES
from simhash_core.log.records import Chain, Packet, Progress, Sender
from simhash_core.log.shard_stream import NewEntries
from simhash_core.text.profiles import PROFILES
from streams.kafka.clients import AdminClient, Producer
from streams.store.changelog import Changelog
from streams.store.changelog_codec import ChangelogRecord, encode_entries, encode_progress

IDENTITY: Final = "firstseen-index/1 benchmark"
CHAIN: Final = Chain("raw-documents", "wVzq5XKbQnOXq3kcTtQx2g", 0)
PACKET: Final = 250
LOT: Final = 40
"""Packets in a transaction, and loaded at once."""

_SHINGLES_BYTES: Final = 256
_SEED: Final = 20_141_201
_SECONDS: Final = 60.0


def packet_of(profile: str, number: int, documents: int) -> Packet:
    """Return the packet of random documents with this number; equal for equal arguments."""
    words = PROFILES[profile].bits // 64
    random = np.random.default_rng([_SEED, number])
    first = number * PACKET
    sketches = [random.bytes(_sketch_bytes(profile)) for _ in range(documents)]
    columns = DocumentColumns(
        offsets=np.arange(first, first + documents, dtype=np.int64),
        times_ms=1_700_000_000_000 + first + random.integers(0, 60_000, documents),
        ids=BytesColumn.of([b"document-%011d" % at for at in range(first, first + documents)]),
        digests=random.integers(0, 256, (documents, 16), dtype=np.uint8),
        fingerprints=random.integers(0, 2**64, (documents, words), dtype=np.uint64),
        undecidable=np.zeros(documents, dtype=np.uint8),
        sketches=BytesColumn.of(sketches),
    )
    sender = Sender("benchmark-1", number)
    return Packet(CHAIN, sender, first - 1, first + documents - 1, columns)


def _sketch_bytes(profile: str) -> int:
    """Return the bytes of a sketch, the keys of its bands included."""
    settings = PROFILES[profile]
    return _SHINGLES_BYTES + settings.bands * BAND_KEY_BYTES if settings.bands else 0


def records_of(
    profile: str, documents: int, identity: str = IDENTITY, reading: str = ""
) -> Iterator[list[ChangelogRecord]]:
    """Yield the changelog of a shard with so many entries, a transaction at a time."""
    packets = -(-documents // PACKET)
    for begun in range(0, packets, LOT):
        records = []
        last = 0
        for number in range(begun, min(begun + LOT, packets)):
            packet = packet_of(profile, number, min(PACKET, documents - number * PACKET))
            records.append(encode_entries(NewEntries(number, packet, np.arange(len(packet)))))
            last = packet.last
        progress = Progress(CHAIN, last + 1, begun + LOT, begun)
        yield [*records, encode_progress(progress, identity, reading)]


@contextmanager
def changelog(servers: str, profile: str, documents: int) -> Iterator[Changelog]:
    """Write the changelog to a topic of its own, which is deleted afterwards."""
    topic = f"recovery-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(_SECONDS)
    producer = Producer(
        {"bootstrap.servers": servers, "transactional.id": topic, "compression.type": "lz4"}
    )
    producer.init_transactions(_SECONDS)
    for batch in records_of(profile, documents):
        producer.begin_transaction()
        for record in batch:
            producer.produce(topic, record.value, record.key, partition=0)
        producer.commit_transaction(_SECONDS)
    config = {"bootstrap.servers": servers, "group.id": "benchmark"}
    yield Changelog(topic, 0, config, _SECONDS, threading.Event())
    admin.delete_topics([topic])[topic].result(_SECONDS)
