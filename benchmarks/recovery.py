"""How fast a shard is rebuilt from its changelog, and opened from disk; and what the bytes cost.

The changelog of one shard is made of random documents of a profile, ids of 20 characters, 250 to a
packet. The shard is caught up from nothing, in two ways:

- ``records``: the records are handed over as they would come from Kafka: what is left is ours;
- ``kafka``: they are read from a topic of a real broker, as a worker reads them
  (``--bootstrap-servers``: its topic is deleted afterwards).

Then the index is filled from the store, and documents are looked up in it, a packet at a time. The
store is closed, opened again and read for the index, as at a restart. Time is that of the
processor, of the whole process, so that RocksDB's and librdkafka's threads are counted too; making
the records is not.

    python -m benchmarks.recovery [--profile wide classic] [--documents 1000000]
        [--bootstrap-servers …]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
from rich.table import Table

from benchmarks.changelogs import IDENTITY, PACKET, changelog, packet_of, records_of
from benchmarks.report import Machine, add_json_option, machine, new_table, publish
from simhash_core.index.document_index import DocumentIndex
from simhash_core.index.prints import prints_of
from simhash_core.log.shard_stream import NewEntries
from simhash_core.text.profiles import PROFILES, profile_named
from streams.store.changelog import Changelog
from streams.store.changelog_codec import (
    LoggedProgress,
    decode_record,
    encode_entries,
)
from streams.store.recovery import catch_up
from streams.store.rocksdb_store import block_cache
from streams.store.row_codec import EntryBlock, ProgressRow, StoreIdentity
from streams.store.shard_directory import open_shard_store
from streams.store.shard_store import ShardStore
from streams.worker.log_codec import LogCodec

_TIMES: Final = 200
_LOOKED_UP: Final = 20
"""Packets."""
_PROBES: Final = 1 << 40
"""The number of the first of them."""


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """One recovery. CPU times in microseconds a document, bytes of a document."""

    source: str
    profile: str
    documents: int
    records: int
    documents_per_cpu_second: float
    recovery_cpu_us: float
    index_cpu_us: float
    lookup_cpu_us: float
    candidates_per_lookup: float
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


def from_records(store: ShardStore, profile: str, documents: int) -> tuple[int, float]:
    """Load the records; return their number, and CPU seconds that went into making them."""
    count, making = 0, 0.0
    begun = time.thread_time()
    for batch in records_of(profile, documents):
        making += time.thread_time() - begun
        count += len(batch)
        decoded = [decode_record(key, value, "the benchmark's") for key, value in batch]
        blocks = [each for each in decoded if isinstance(each, EntryBlock)]
        (logged,) = (each for each in decoded if isinstance(each, LoggedProgress))
        store.load(blocks, ProgressRow(logged.progress, count, 0, logged.identity))
        begun = time.thread_time()
    return count, making


def fill_index(store: ShardStore, profile: str) -> DocumentIndex:
    """Return an index that is filled from a store, as a worker does it."""
    index = DocumentIndex(profile_named(profile).scheme())
    slot = index.open_slot()
    for sequences, prints in store.prints(index.scheme.bands):
        index.add(slot, sequences, prints)
    return index


def look_up(index: DocumentIndex, profile: str) -> tuple[float, float]:
    """Look new documents up; return CPU microseconds and candidates of each."""
    packets = [packet_of(profile, _PROBES + number, PACKET) for number in range(_LOOKED_UP)]
    candidates_before = index.candidates_seen
    begun = time.process_time()
    for packet in packets:
        index.pairs(prints_of(index.scheme, packet.columns))
    documents = _LOOKED_UP * PACKET
    seconds = time.process_time() - begun
    return seconds / documents * 1e6, (index.candidates_seen - candidates_before) / documents


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
        filled = fill_index(store, profile)
        index = time.process_time() - begun
        lookup, candidates = look_up(filled, profile)
        del filled
    begun, begun_wall = time.process_time(), time.perf_counter()
    with closing(open_shard_store(path, owner, bits, block_cache())) as store:
        for _ in store.prints(profile_named(profile).scheme().bands):
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
        lookup_cpu_us=lookup,
        candidates_per_lookup=candidates,
        open_seconds=opened,
        from_disk_cpu_us=from_disk / documents * 1e6,
        packet_bytes=len(value) / PACKET,
        changelog_bytes=entries.size / PACKET,
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
        "look up µs",
        "met",
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
            f"{each.lookup_cpu_us:.1f}",
            f"{each.candidates_per_lookup:.0f}",
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
    options = parser.parse_args(arguments)
    if min(options.documents) < 1:
        parser.error("--documents must be 1 or more")
    report = run(options.profile, options.documents, options.bootstrap_servers, options.state_dir)
    publish(report, tables(report), options.json)


if __name__ == "__main__":
    main()
