"""How fast the block table of one shard is, on disk and in memory.

A table is filled with random fingerprints, the least skewed and least cacheable case. Then
documents come in batches, as a worker handles them: the table is told of them, each is looked up in
all its buckets and staged, and the batch is committed. Reported are

- documents a second by the clock, which other programs on the machine slow down, and a second of
  processor time of this thread; RocksDB's own threads come on top;
- documents a second by the clock while the table was filled;
- processor time a document: to look up and stage, and to commit;
- candidates that a look-up met, and the size on disk.

    python -m benchmarks.block_table [--entries 100000 …] [--json]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from simhash_core.block_table import BlockTable
from simhash_core.blocks import BlockScheme
from simhash_core.documents import SourcePosition
from simhash_core.entries import Entry, Progress, PutEntry
from simhash_core.memory_table import MemoryBlockTable
from simhash_core.placement import Placement
from simhash_core.shard import owned_buckets
from streams.rocksdb_options import StoreSettings, block_cache
from streams.shard_directory import open_block_table, shard_directory
from streams.state_codec import StoreIdentity

SEED: Final = 20_070_508
APPLICATION: Final = "benchmark"
SKETCH_BYTES: Final = 256
IDENTITY: Final = StoreIdentity("benchmark of the block table", APPLICATION, 0, 1)


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """What is measured; sizes in documents."""

    documents: int
    batch: int
    bits: int
    blocks: int
    block_bits: int
    cuts: int
    sync: bool
    block_cache_bytes: int

    def placement(self) -> Placement:
        """Return the scheme on one partition, where every bucket is ours."""
        scheme = BlockScheme(self.bits, self.blocks, self.bits // 5, self.block_bits, self.cuts)
        return Placement(scheme, 1)


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured of one table."""

    table: str
    entries: int
    documents_per_second: float
    documents_per_cpu_second: float
    fill_documents_per_second: float
    lookup_cpu_us: float
    commit_cpu_us: float
    candidates_per_lookup: float
    disk_bytes: int


def changes_from(first: int, count: int, workload: Workload) -> list[PutEntry]:
    """Return ``count`` entries with orders from ``first`` on; equal for equal arguments."""
    width = workload.bits // 8
    size = width + 16 + SKETCH_BYTES
    data = np.random.default_rng([SEED, first]).bytes(count * size)
    changes = []
    for index in range(count):
        at = index * size
        order = first + index
        entry = Entry(
            SourcePosition("raw-documents", order % 16, order),
            f"https://news.example/articles/{order}",
            1_700_000_000_000 + order,
            data[at : at + width],
            data[at + width : at + width + 16],
            data[at + width + 16 : at + size],
        )
        changes.append(PutEntry(order, entry))
    return changes


def fill(table: BlockTable, entries: int, workload: Workload) -> float:
    """Commit ``entries`` entries; return documents a second."""
    seconds = 0.0
    for first in range(0, entries, workload.batch):
        changes = changes_from(first, min(workload.batch, entries - first), workload)
        begun = time.perf_counter()
        table.commit([*changes, Progress(offset=first)])
        seconds += time.perf_counter() - begun
    return entries / seconds if seconds else 0.0


def measure(
    name: str, table: BlockTable, placement: Placement, entries: int, workload: Workload
) -> Figures:
    """Fill ``table`` with ``entries``, then look up and insert the documents of the workload."""
    filled = fill(table, entries, workload)
    wall = lookup = commit = 0.0
    met = 0
    for first in range(entries, entries + workload.documents, workload.batch):
        changes = changes_from(first, workload.batch, workload)
        # A shard knows the buckets before it comes to the table: finding them is not measured.
        placement.prepare(each.entry.fingerprint for each in changes)
        routes = [owned_buckets(placement, 0, each.entry) for each in changes]
        begun_wall, begun = time.perf_counter(), time.thread_time()
        table.prefetch(routes)
        for change, buckets in zip(changes, routes, strict=True):
            met += len(table.candidates(buckets).orders)
            table.stage(change)
        between = time.thread_time()
        table.commit([*changes, Progress(offset=first)])
        ended = time.thread_time()
        wall += time.perf_counter() - begun_wall
        lookup += between - begun
        commit += ended - between
    done = -(-workload.documents // workload.batch) * workload.batch
    return Figures(
        table=name,
        entries=entries,
        documents_per_second=done / wall,
        documents_per_cpu_second=done / (lookup + commit),
        fill_documents_per_second=filled,
        lookup_cpu_us=lookup / done * 1e6,
        commit_cpu_us=commit / done * 1e6,
        candidates_per_lookup=met / done,
        disk_bytes=0,
    )


@contextmanager
def rocks_table(state_dir: Path, placement: Placement, workload: Workload) -> Iterator[BlockTable]:
    """A new table on disk, open until the end of the block."""
    path = shard_directory(state_dir, APPLICATION, 0)
    cache = block_cache(workload.block_cache_bytes)
    settings = StoreSettings(sync=workload.sync)
    with closing(open_block_table(path, IDENTITY, placement, cache, settings)) as table:
        yield table


def run(entries: int, workload: Workload, state_dir: Path | None) -> list[Figures]:
    """Measure a table in memory and one on disk, each with ``entries`` entries."""
    placement = workload.placement()
    with closing(MemoryBlockTable(partial(owned_buckets, placement, 0))) as table:
        in_memory = measure("memory", table, placement, entries, workload)
    with tempfile.TemporaryDirectory(dir=state_dir, prefix="firstseen-benchmark-") as name:
        with rocks_table(Path(name), placement, workload) as table:
            on_disk = measure("rocksdb", table, placement, entries, workload)
        disk_bytes = sum(path.stat().st_size for path in Path(name).rglob("*") if path.is_file())
    return [in_memory, msgspec.structs.replace(on_disk, disk_bytes=disk_bytes)]


def show(figures: Sequence[Figures], workload: Workload) -> None:
    """Print the figures for people."""
    table = Table(
        box=SIMPLE,
        padding=(0, 1),
        title=f"block table: {workload.bits} bits, {workload.blocks} × {workload.block_bits}"
        f"{' twice' if workload.cuts > 1 else ''}, "
        f"batches of {workload.batch}",
    )
    headers = ["table", "entries", "docs/s", "CPU/s", "fill/s", "look µs", "commit µs", "met", "MB"]
    for header in headers:
        table.add_column(header, justify="right", no_wrap=True)
    for each in figures:
        table.add_row(
            each.table,
            f"{each.entries:,}",
            f"{each.documents_per_second:,.0f}",
            f"{each.documents_per_cpu_second:,.0f}",
            f"{each.fill_documents_per_second:,.0f}",
            f"{each.lookup_cpu_us:.0f}",
            f"{each.commit_cpu_us:.0f}",
            f"{each.candidates_per_lookup:.1f}",
            f"{each.disk_bytes / 1e6:.0f}",
        )
    Console().print(table)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark as the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--entries", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--documents", type=int, default=10_000, help="looked up and inserted")
    parser.add_argument("--batch", type=int, default=250, help="documents a commit")
    parser.add_argument("--bits", type=int, default=256)
    parser.add_argument("--blocks", type=int, default=16)
    parser.add_argument("--block-bits", type=int, default=16)
    parser.add_argument("--cuts", type=int, default=2, help="2 for a square scheme, else 1")
    parser.add_argument("--sync", action="store_true", help="wait for the disk at each commit")
    parser.add_argument("--block-cache-bytes", type=int, default=256 * 1024 * 1024)
    parser.add_argument("--state-dir", type=Path, help="where to make the table (a temporary one)")
    parser.add_argument("--json", action="store_true", help="print JSON alone")
    given = vars(parser.parse_args(arguments))
    as_json, entries, state_dir = given.pop("json"), given.pop("entries"), given.pop("state_dir")
    if min([*entries, given["documents"] - 1, given["batch"] - 1]) < 0:
        parser.error("--entries must be 0 or more, --documents and --batch 1 or more")
    workload = Workload(**given)
    figures = [each for size in entries for each in run(size, workload, state_dir)]
    if as_json:
        result = {
            "workload": msgspec.structs.asdict(workload),
            "tables": [msgspec.structs.asdict(each) for each in figures],
        }
        json.dump(result, sys.stdout, indent=2)
        print()
    else:
        show(figures, workload)


if __name__ == "__main__":
    main()
