"""How fast a shard is rebuilt from its changelog, and opened from disk; and what the bytes cost.

The changelog of one shard is made of random documents of a profile, ids of 20 characters, 250 to a
packet. The shard is caught up from nothing, in two ways:

- ``records``: the records are handed over as they would come from Kafka: what is left is ours;
- ``kafka``: they are read from a topic of a real broker, as a worker reads them
  (``--bootstrap-servers``: its topic is deleted afterwards).

Then the store is closed, opened again, and the index is filled from it, as at a restart. Time is
that of the processor, of the whole process, so that RocksDB's and librdkafka's threads are counted
too; making the records is not.

    python -m benchmarks.recovery [--profile wide classic] [--documents 1000000]
        [--bootstrap-servers …]
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from rich.table import Table

from benchmarks.report import Machine, add_json_option, machine, new_table, publish
from simhash_core.index.document_index import DocumentIndex
from simhash_core.log.packets import BytesColumn, Chain, DocumentColumns, Packet, Sender
from simhash_core.log.records import Progress
from simhash_core.log.shard_stream import NewEntries
from simhash_core.profiles import PROFILES, profile_named
from streams.ordering.log_codec import LogCodec
from streams.store.changelog_codec import (
    ChangelogRecord,
    LoggedProgress,
    decode_record,
    encode_entries,
    encode_progress,
)
from streams.store.changelog_reader import Changelog
from streams.store.entry_block import EntryBlock
from streams.store.recovery import catch_up
from streams.store.rocksdb_options import block_cache
from streams.store.shard_directory import open_shard_store
from streams.store.shard_store import ShardStore
from streams.store.state_codec import ProgressRow, StoreIdentity

IDENTITY: Final = "firstseen-index/1 benchmark"
CHAIN: Final = Chain("raw-documents", "wVzq5XKbQnOXq3kcTtQx2g", 0)
PACKET: Final = 250
LOT: Final = 40
"""Packets in a transaction, and loaded at once."""

_SKETCH_BYTES: Final = {"wide": 256, "classic": 0}
_SEED: Final = 20_141_201
_SECONDS: Final = 60.0
_TIMES: Final = 200


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """One recovery. CPU times in microseconds a document, bytes of a document."""

    source: str
    profile: str
    documents: int
    records: int
    documents_per_cpu_second: float
    recovery_cpu_us: float
    index_cpu_us: float
    open_seconds: float
    from_disk_cpu_us: float
    packet_bytes: float
    changelog_bytes: float
    disk_bytes: float
    encode_packet_us: float
    decode_packet_us: float


class Report(msgspec.Struct, frozen=True):
    """All of them, and where they were measured."""

    machine: Machine
    figures: list[Figures]


def packet_of(profile: str, number: int, documents: int) -> Packet:
    """Return the packet of random documents with this number; equal for equal arguments."""
    words = PROFILES[profile].bits // 64
    random = np.random.default_rng([_SEED, number])
    first = number * PACKET
    sketches = [random.bytes(_SKETCH_BYTES[profile]) for _ in range(documents)]
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


def from_records(store: ShardStore, profile: str, documents: int) -> tuple[int, float]:
    """Load the records; return their number, and CPU seconds that went into making them."""
    count, making = 0, 0.0
    begun = time.thread_time()
    for lot in records_of(profile, documents):
        making += time.thread_time() - begun
        count += len(lot)
        found = [decode_record(key, value, "the benchmark's") for key, value in lot]
        blocks = [each for each in found if isinstance(each, EntryBlock)]
        (logged,) = (each for each in found if isinstance(each, LoggedProgress))
        store.load(blocks, ProgressRow(logged.progress, count, 0, logged.identity))
        begun = time.thread_time()
    return count, making


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
    for lot in records_of(profile, documents):
        producer.begin_transaction()
        for record in lot:
            producer.produce(topic, record.value, record.key, partition=0)
        producer.commit_transaction(_SECONDS)
    config = {"bootstrap.servers": servers, "group.id": "benchmark"}
    yield Changelog(topic, 0, config, _SECONDS, threading.Event())
    admin.delete_topics([topic])[topic].result(_SECONDS)


def fill_index(store: ShardStore, profile: str) -> int:
    """Fill an index from a store, as a worker does; return the number of documents."""
    index = DocumentIndex(profile_named(profile).scheme())
    slot = index.open_slot()
    for sequences, fingerprints in store.fingerprints():
        index.add(slot, sequences, fingerprints)
    return len(index)


def measure(state_dir: Path, profile: str, documents: int, log: Changelog | None) -> Figures:
    """Rebuild a shard, fill an index from it, and do that again from disk."""
    path = state_dir / "shard-0"
    owner = StoreIdentity(IDENTITY, "benchmark", 0)
    bits = PROFILES[profile].bits
    making = 0.0
    begun = time.process_time()
    with closing(open_shard_store(path, owner, bits, block_cache())) as store:
        if log is None:
            records, making = from_records(store, profile, documents)
        else:
            records = catch_up(store, log, IDENTITY, documents, lambda _left: None)
        recovered = time.process_time() - begun - making
        if len(store) != documents:
            raise RuntimeError(f"{len(store)} of {documents} documents were recovered")
        begun = time.process_time()
        fill_index(store, profile)
        index = time.process_time() - begun
    begun, begun_wall = time.process_time(), time.perf_counter()
    with closing(open_shard_store(path, owner, bits, block_cache())) as store:
        for _ in store.fingerprints():
            pass
        from_disk, opened = time.process_time() - begun, time.perf_counter() - begun_wall
    packet = packet_of(profile, 0, PACKET)
    codec = LogCodec(IDENTITY)
    value = codec.encode(packet)
    entries = encode_entries(NewEntries(0, packet, np.arange(PACKET)))
    return Figures(
        source="records" if log is None else "kafka",
        profile=profile,
        documents=documents,
        records=records,
        documents_per_cpu_second=documents / recovered,
        recovery_cpu_us=recovered / documents * 1e6,
        index_cpu_us=index / documents * 1e6,
        open_seconds=opened,
        from_disk_cpu_us=from_disk / documents * 1e6,
        packet_bytes=len(value) / PACKET,
        changelog_bytes=(len(entries.key) + len(entries.value)) / PACKET,
        disk_bytes=sum(each.stat().st_size for each in path.rglob("*") if each.is_file())
        / documents,
        encode_packet_us=_us_each(lambda: codec.encode(packet)),
        decode_packet_us=_us_each(lambda: codec.decode(value, "the benchmark's")),
    )


def _us_each(do: Callable[[], object]) -> float:
    begun = time.thread_time()
    for _ in range(_TIMES):
        do()
    return (time.thread_time() - begun) / _TIMES * 1e6


def run(
    profiles: Sequence[str], documents: Sequence[int], servers: str | None, state_dir: Path | None
) -> Report:
    """Measure each number of documents of each profile, one recovery after another."""
    figures = []
    for profile in profiles:
        for count in documents:
            with tempfile.TemporaryDirectory(dir=state_dir, prefix="recovery-") as name:
                figures.append(measure(Path(name), profile, count, None))
            if servers is None:
                continue
            with (
                changelog(servers, profile, count) as log,
                tempfile.TemporaryDirectory(dir=state_dir, prefix="recovery-") as name,
            ):
                figures.append(measure(Path(name), profile, count, log))
    return Report(machine(), figures)


def tables(report: Report) -> list[Table]:
    """Return the figures for people."""
    recovery = new_table(
        "recovery of one shard (CPU µs a document)",
        "profile",
        "from",
        "docs",
        "docs a CPU s",
        "recover µs",
        "fill index µs",
        "from disk µs",
        "open s",
    )
    size = new_table(
        "bytes a document, and a packet of 250",
        "profile",
        "packet",
        "changelog",
        "disk",
        "encode µs",
        "decode µs",
    )
    for each in report.figures:
        recovery.add_row(
            each.profile,
            each.source,
            f"{each.documents:,}",
            f"{each.documents_per_cpu_second:,.0f}",
            f"{each.recovery_cpu_us:.1f}",
            f"{each.index_cpu_us:.1f}",
            f"{each.from_disk_cpu_us:.1f}",
            f"{each.open_seconds:.2f}",
        )
        size.add_row(
            each.profile,
            f"{each.packet_bytes:.0f}",
            f"{each.changelog_bytes:.0f}",
            f"{each.disk_bytes:.0f}",
            f"{each.encode_packet_us:.0f}",
            f"{each.decode_packet_us:.0f}",
        )
    return [recovery, size]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark as the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--profile", nargs="+", choices=list(PROFILES), default=list(PROFILES))
    parser.add_argument("--documents", type=int, nargs="+", default=[100_000])
    parser.add_argument("--bootstrap-servers", help="of a Kafka to write and read changelogs on")
    parser.add_argument("--state-dir", type=Path, help="where to make stores (a temporary one)")
    add_json_option(parser)
    given = parser.parse_args(arguments)
    if min(given.documents) < 1:
        parser.error("--documents must be 1 or more")
    report = run(given.profile, given.documents, given.bootstrap_servers, given.state_dir)
    publish(report, tables(report), given.json)


if __name__ == "__main__":
    main()
