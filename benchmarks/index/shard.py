"""A shard of many documents: loaded, opened again from its disk, and looked up in.

Each step is a process of its own (``python -m benchmarks.index.shard STEP …``), so that memory is
that of the step, and prints its figures as one line of JSON. Time is the processor's, of all
threads, unless it says clock.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.index.documents import BLOCK, CHAIN, HOT_SHARE, PROBES, blocks_of, columns_of
from benchmarks.index.flood import flood
from benchmarks.index.lines import read_lines
from benchmarks.recovery import from_records
from simhash_core.index.document_index import DocumentIndex
from simhash_core.index.memtable import Rows
from simhash_core.index.prints import Prints, prints_of
from simhash_core.index.segment import build_segment
from simhash_core.log.records import Progress, sequence_numbers
from simhash_core.text.profiles import profile_named
from streams.store.recovery import fill_index, make_missing_files
from streams.store.rocksdb_store import block_cache
from streams.store.row_codec import ProgressRow, StoreIdentity
from streams.store.shard_directory import open_shard_store
from streams.store.shard_segments import SegmentOwner, ShardSegments, documents_limit
from streams.store.shard_store import ShardStore

Figures = dict[str, float]

_IDENTITY: Final = "firstseen-index/1 benchmark"
_PACKET: Final = 250
_PACKETS: Final = 40


def run_step(step: str, path: Path, profile: str, documents: int, *, skewed: bool) -> Figures:
    """Run a step in a process of its own; return its figures."""
    command = [sys.executable, "-m", "benchmarks.index.shard", step, str(path), profile]
    command += [str(documents), *(["--skewed"] if skewed else [])]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    return figures


@contextmanager
def opened(path: Path, profile: str) -> Iterator[tuple[ShardStore, ShardSegments]]:
    """Open the store of the shard."""
    scheme = profile_named(profile).scheme()
    owner = StoreIdentity(_IDENTITY, "benchmark", 0)
    with closing(open_shard_store(path, owner, scheme.bits, block_cache())) as store:
        segments = ShardSegments(path, SegmentOwner(_IDENTITY, "benchmark", 0), scheme)
        store.segments = segments
        yield store, segments


def load(path: Path, profile: str, documents: int) -> Figures:
    """Write documents to a new store, as a bulk load does, and its segment files."""
    making = 0.0
    with opened(path, profile) as (store, segments):
        begun = time.process_time()
        mark = begun
        for number, block in enumerate(blocks_of(profile, documents), 1):
            making += time.process_time() - mark
            progress = Progress(CHAIN, number * BLOCK, number, number)
            store.load([block], ProgressRow(progress, number))
            mark = time.process_time()
        rows = time.process_time() - begun - making
        begun = time.process_time()
        make_missing_files(store, segments)
        files = time.process_time() - begun
        size = _disk_bytes(path / "segments")
    return {
        "rows_cpu_us": rows / documents * 1e6,
        "files_cpu_us": files / documents * 1e6,
        "load_per_cpu_second": documents / (rows + files),
        "segment_bytes": size / documents,
        "peak_memory_mb": _status("VmHWM") / 1024,
    }


def rebuild(path: Path, profile: str, documents: int) -> Figures:
    """Make a shard of the records of its changelog, segment files included.

    Records are of packets of 250, handed over as they come from Kafka; making them does not count.
    """
    with opened(path, profile) as (store, segments):
        begun = time.process_time()
        _, making = from_records(store, profile, documents)
        make_missing_files(store, segments)
        spent = time.process_time() - begun - making
    return {"rebuilt_per_cpu_second": documents / spent}


def look_up(path: Path, profile: str, documents: int) -> Figures:
    """Open the shard from its disk, and look new documents up and insert them."""
    index = DocumentIndex(profile_named(profile).scheme())
    slot = index.open_slot()
    before = _status("RssAnon")
    begun, clock = time.process_time(), time.perf_counter()
    with opened(path, profile) as (store, segments):
        make_missing_files(store, segments)
        for _ in fill_index(index, slot, store):
            pass
        cpu, wall = time.process_time() - begun, time.perf_counter() - clock
        if len(index) != documents:
            raise RuntimeError(f"{len(index)} of {documents} documents")
        size = _disk_bytes(path)
        figures = _looked_up(index, slot, profile, skewed=False)
    return figures | {
        "open_seconds": wall,
        "open_cpu_seconds": cpu,
        "disk_bytes": size / documents,
        "memory_mb": (_status("RssAnon") - before) / 1024,
        "resident_mb": _status("VmRSS") / 1024,
        "segments": len(index.segments),
    }


def in_memory(profile: str, documents: int, *, skewed: bool) -> Figures:
    """Look documents up in segments as large as those of files, without a store."""
    scheme = profile_named(profile).scheme()
    index = DocumentIndex(scheme)
    slot = index.open_slot()
    limit = documents_limit(scheme)
    parts: list[tuple[int, Prints]] = []
    size = 0
    for number, block in enumerate(blocks_of(profile, documents, skewed=skewed)):
        parts.append((number, prints_of(scheme, block.columns)))
        size += len(block)
        if size >= limit or (number + 1) * BLOCK >= documents:
            sequences = np.concatenate([sequence_numbers(n, each.documents) for n, each in parts])
            prints = Prints(*map(np.concatenate, zip(*(each for _, each in parts), strict=True)))
            rows = Rows(sequences, np.full(size, slot, dtype=np.uint16), prints)
            first, last = int(sequences[0]), int(sequences[-1])
            index.attach(slot, build_segment(scheme, rows), first, last)
            parts, size = [], 0
    return _looked_up(index, slot, profile, skewed=skewed)


def _looked_up(index: DocumentIndex, slot: int, profile: str, *, skewed: bool) -> Figures:
    """Look packets up and insert them, as a worker does with new documents."""
    scheme = index.scheme
    columns = columns_of(profile, PROBES, _PACKET * _PACKETS, skewed=skewed)
    prints = prints_of(scheme, columns)
    packets = [prints.take(slice(at, at + _PACKET)) for at in range(0, prints.documents, _PACKET)]
    for packet in packets[: _PACKETS // 4]:
        index.pairs(packet)  # pages that were never read come from the disk
    candidates_before = index.candidates_seen
    looking = inserting = 0.0
    for number, packet in enumerate(packets):
        begun = time.process_time()
        index.pairs(packet)
        looked = time.process_time()
        index.add(slot, sequence_numbers(PROBES + number, _PACKET), packet)
        inserting += time.process_time() - looked
        looking += looked - begun
    documents = prints.documents
    return {
        "look_up_cpu_us": looking / documents * 1e6,
        "insert_cpu_us": inserting / documents * 1e6,
        "cpu_us": (looking + inserting) / documents * 1e6,
        "candidates": (index.candidates_seen - candidates_before) / documents,
        "hot_share": HOT_SHARE if skewed else 0.0,
    }


def _disk_bytes(path: Path) -> int:
    return sum(each.stat().st_size for each in path.rglob("*") if each.is_file())


def _status(name: str) -> float:
    """Return a line of ``/proc/self/status``, kB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return float(line.split()[1])
    return 0.0


def main() -> None:
    """Run one step."""
    parser = argparse.ArgumentParser()
    steps = ("load", "rebuild", "lines", "look_up", "in_memory", "flood")
    parser.add_argument("step", choices=steps)
    parser.add_argument("path", type=Path)
    parser.add_argument("profile")
    parser.add_argument("documents", type=int)
    parser.add_argument("--skewed", action="store_true")
    options = parser.parse_args()
    if options.step == "load":
        figures = load(options.path, options.profile, options.documents)
    elif options.step == "rebuild":
        figures = rebuild(options.path, options.profile, options.documents)
    elif options.step == "lines":
        figures = read_lines(options.path, options.profile, options.documents)
    elif options.step == "flood":
        figures = flood(options.profile, options.documents)
    elif options.step == "look_up":
        figures = look_up(options.path, options.profile, options.documents)
    else:
        figures = in_memory(options.profile, options.documents, skewed=options.skewed)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
