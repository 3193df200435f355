"""How fast a shard is rebuilt from its changelog, and how fast it looks documents up afterwards.

The changelog of one shard of ``--partitions`` is made of random documents of the profile ``wide``,
those that have a bucket there. The shard is caught up from nothing, in two ways:

- ``records``: the records are handed over as they would come from Kafka: what is left is ours;
- ``kafka``: they are read from a topic of a real broker, as a worker reads them
  (``--bootstrap-servers``: its topic is deleted afterwards).

Time is that of the processor, of the whole process, so that RocksDB's and librdkafka's threads are
counted too; making the records is not. It ends after the first look-up, which sorts what is not
sorted yet. With ``--as-written`` nothing is compacted: each entry on more than one partition has
been pending before.

    python -m benchmarks.recovery [--documents 1000000] [--partitions 1 16] [--bootstrap-servers …]
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from rich.table import Table

from benchmarks.report import Machine, add_json_option, machine, new_table, publish
from simhash_core.documents import SourcePosition
from simhash_core.entries import Change, Entry, Progress, PutEntry, PutPending
from simhash_core.placement import Placement
from simhash_core.profiles import PROFILES
from streams.changelog_codec import encode_change
from streams.changelog_reader import Changelog, catch_up
from streams.rocksdb_options import block_cache
from streams.rocksdb_table import RocksBlockTable
from streams.shard_directory import open_block_table
from streams.state_codec import StoreIdentity

PROFILE: Final = "wide"
SKETCH_BYTES: Final = 256
BATCH: Final = 250
LOT: Final = 10_000
LOOKUPS: Final = 2_000
_SEED: Final = 20_141_201
_SECONDS: Final = 60.0

Record = tuple[bytes, bytes | None]


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """One recovery. CPU times in microseconds a document."""

    source: str
    partitions: int
    documents: int
    records: int
    documents_per_cpu_second: float
    recovery_cpu_us: float
    lookup_cpu_us: float
    candidates_per_lookup: float
    reopen_seconds: float
    disk_bytes_per_document: float


class Report(msgspec.Struct, frozen=True):
    """All of them, and where they were measured."""

    machine: Machine
    figures: list[Figures]


def entries_of(placement: Placement, first: int, count: int) -> list[Entry]:
    """Return random documents that have a bucket in partition 0; equal for equal arguments."""
    width = placement.scheme.bits // 8
    size = width + 16 + SKETCH_BYTES
    data = np.random.default_rng([_SEED, first]).bytes(count * size)
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    placement.prepare(piece[:width] for piece in pieces)
    return [
        Entry(
            SourcePosition("raw-documents", number % 16, number),
            f"https://news.example/articles/{number}",
            1_700_000_000_000 + number,
            piece[:width],
            piece[width : width + 16],
            piece[width + 16 :],
        )
        for number, piece in enumerate(pieces, first)
        if 0 in placement.by_partition(piece[:width], b"")
    ]


def records_of(placement: Placement, documents: int, *, as_written: bool) -> Iterator[list[Record]]:
    """Yield the changelog of partition 0 with so many entries, a lot at a time."""
    order = first = 0
    while order < documents:
        records: list[Record] = []
        for entry in entries_of(placement, first, LOT)[: documents - order]:
            changes: list[Change] = [PutEntry(order, entry)]
            if as_written and placement.partitions > 1:
                pending = PutPending(entry.source, entry), PutPending(entry.source, None)
                changes = [pending[0], *changes, pending[1]]
            order += 1
            if order % BATCH == 0:
                changes.append(Progress(order, next_order=order))
            records += map(encode_change, changes)
        records.append(encode_change(Progress(order, next_order=order)))
        first += LOT
        yield records


def from_records(
    table: RocksBlockTable, placement: Placement, documents: int, *, as_written: bool
) -> tuple[int, float]:
    """Load the records; return their number, and CPU seconds that went into making them."""
    count, making = 0, 0.0
    begun = time.thread_time()
    for lot in records_of(placement, documents, as_written=as_written):
        for at in range(0, len(lot), LOT):
            keys = [key for key, _ in lot[at : at + LOT]]
            values = [value for _, value in lot[at : at + LOT]]
            making += time.thread_time() - begun
            count += len(keys)
            table.load(keys, values, Progress(count))
            begun = time.thread_time()
    return count, making


def write_log(
    servers: str, topic: str, placement: Placement, documents: int, *, as_written: bool
) -> None:
    """Write the changelog to a topic, in transactions of a batch's size times ten."""
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(_SECONDS)
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "transactional.id": topic,
            "compression.type": "lz4",
            "queue.buffering.max.messages": 200_000,
        }
    )
    producer.init_transactions(_SECONDS)
    for lot in records_of(placement, documents, as_written=as_written):
        for at in range(0, len(lot), 10 * BATCH):
            producer.begin_transaction()
            for key, value in lot[at : at + 10 * BATCH]:
                producer.produce(topic, value, key, partition=0)
            producer.commit_transaction(_SECONDS)


def measure(
    state_dir: Path, partitions: int, documents: int, servers: str | None, *, as_written: bool
) -> Figures:
    """Rebuild a shard, look documents up in it, and open it again."""
    placement = Placement(PROFILES[PROFILE].scheme(), partitions)
    identity = StoreIdentity("benchmark of recovery", "benchmark", 0, partitions)
    topic = f"recovery-{uuid.uuid4().hex[:8]}"
    if servers is not None:
        write_log(servers, topic, placement, documents, as_written=as_written)
    path = state_dir / f"shard-{topic}"
    probes = entries_of(placement, 1 << 40, LOOKUPS)
    cache = block_cache()
    making = 0.0
    begun = time.process_time()
    with closing(open_block_table(path, identity, placement, cache)) as table:
        if servers is None:
            records, making = from_records(table, placement, documents, as_written=as_written)
        else:
            config = {"bootstrap.servers": servers, "group.id": "benchmark"}
            log = Changelog(topic, 0, config, _SECONDS, threading.Event())
            records = catch_up(table, log, "", lambda _left: None)
        table.candidates(placement.by_partition(probes[0].fingerprint, b"")[0])
        cpu = time.process_time() - begun - making
        if len(table) != documents:
            raise RuntimeError(f"{len(table)} of {documents} documents were recovered")
        lookup, met = look_up(table, placement, probes)
        table.commit([])
    begun_wall = time.perf_counter()
    with closing(open_block_table(path, identity, placement, cache)) as table:
        table.candidates(placement.by_partition(probes[0].fingerprint, b"")[0])
        reopen = time.perf_counter() - begun_wall
    if servers is not None:
        admin = AdminClient({"bootstrap.servers": servers})
        admin.delete_topics([topic])[topic].result(_SECONDS)
    return Figures(
        source="records" if servers is None else "kafka",
        partitions=partitions,
        documents=documents,
        records=records,
        documents_per_cpu_second=documents / cpu,
        recovery_cpu_us=cpu / documents * 1e6,
        lookup_cpu_us=lookup / len(probes) * 1e6,
        candidates_per_lookup=met / len(probes),
        reopen_seconds=reopen,
        disk_bytes_per_document=sum(
            each.stat().st_size for each in path.rglob("*") if each.is_file()
        )
        / documents,
    )


def look_up(
    table: RocksBlockTable, placement: Placement, probes: Sequence[Entry]
) -> tuple[float, int]:
    """Look documents up, a batch at a time; return CPU seconds and candidates met."""
    met, seconds = 0, 0.0
    for at in range(0, len(probes), BATCH):
        # A shard knows the buckets before it comes to the table: finding them is not measured.
        placement.prepare(probe.fingerprint for probe in probes[at : at + BATCH])
        ways = [placement.by_partition(p.fingerprint, b"")[0] for p in probes[at : at + BATCH]]
        begun = time.thread_time()
        table.prefetch(ways)
        for way in ways:
            met += len(table.candidates(way).orders)
        seconds += time.thread_time() - begun
    return seconds, met


def run(
    documents: Sequence[int],
    partitions: Sequence[int],
    servers: str | None,
    state_dir: Path | None,
    *,
    as_written: bool,
) -> Report:
    """Measure each number of documents on each number of partitions, one recovery after another."""
    figures = []
    for count in documents:
        for number in partitions:
            for source in (None,) if servers is None else (None, servers):
                with tempfile.TemporaryDirectory(dir=state_dir, prefix="recovery-") as name:
                    one = measure(Path(name), number, count, source, as_written=as_written)
                figures.append(one)
    return Report(machine(), figures)


def tables(report: Report) -> list[Table]:
    """Return the figures for people."""
    table = new_table(
        f"recovery of one shard, profile {PROFILE}",
        "from",
        "shards",
        "docs",
        "records",
        "a CPU s",
        "look µs",
        "met",
        "open s",
        "bytes",
    )
    for each in report.figures:
        table.add_row(
            each.source,
            f"{each.partitions}",
            f"{each.documents:,}",
            f"{each.records:,}",
            f"{each.documents_per_cpu_second:,.0f}",
            f"{each.lookup_cpu_us:.0f}",
            f"{each.candidates_per_lookup:.1f}",
            f"{each.reopen_seconds:.2f}",
            f"{each.disk_bytes_per_document:.0f}",
        )
    return [table]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark as the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--documents", type=int, nargs="+", default=[100_000])
    parser.add_argument("--partitions", type=int, nargs="+", default=[1, 16])
    parser.add_argument("--as-written", action="store_true", help="nothing is compacted")
    parser.add_argument("--bootstrap-servers", help="of a Kafka to write and read changelogs on")
    parser.add_argument("--state-dir", type=Path, help="where to make stores (a temporary one)")
    add_json_option(parser)
    given = parser.parse_args(arguments)
    if min([*given.documents, *given.partitions]) < 1:
        parser.error("--documents and --partitions must be 1 or more")
    report = run(
        given.documents,
        given.partitions,
        given.bootstrap_servers,
        given.state_dir,
        as_written=given.as_written,
    )
    publish(report, tables(report), given.json)


if __name__ == "__main__":
    main()
