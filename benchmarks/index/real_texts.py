"""Compares an index of real texts to one of as many random documents, at several sizes.

    python -m benchmarks.index.real_texts FILE [--sizes 100000 1000000 3000000]
        [--profile wide quick] [--jobs N] [--state-dir DIRECTORY] [--json FILE]

FILE has JSON lines with a text, such as ``benchmarks.paragraphs`` writes. The texts are decided in
the order of the file, as ``firstseen dedup`` does, and the index gets the unique ones of the first
N. Then the next texts are looked up in packets of 250, by another process that has opened the
index from its disk. Here a look-up includes the second check, which reads the sketch of each
document within the distance from the store. Times are CPU times of all threads.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.command import (
    MeasurementError,
    add_number,
    add_state_dir,
    errors_reported,
    new_parser,
    positive,
    say,
)
from benchmarks.index.shard import FILES, load_blocks, opened_index, random_blocks
from benchmarks.measures import Stopwatch, disk_bytes, memory_bytes
from benchmarks.random_documents import PACKET, packet_of, random_columns
from benchmarks.report import Figures, machine, publish
from simhash_core.document_columns import DocumentColumns, joined_columns
from simhash_core.index.look_up import LookUp, Nearness
from simhash_core.log.local_decider import LocalDecider, MemoryEntries, OneStore
from simhash_core.log.shard_stream import NewEntries
from simhash_core.text.fingerprinter import Fingerprinter
from simhash_core.text.profiles import PROFILES, profile_named
from streams.offline.dedup_files import DedupInputs, new_run
from streams.offline.fingerprint_pool import prepared_batches, started_pool
from streams.settings.settings import Settings
from streams.store.rocksdb_store import MIB
from streams.store.row_codec import EntryBlock, entry_block

_SIZES: Final = (100_000, 1_000_000, 3_000_000)
_PROFILES: Final = ("wide", "quick")
_JOBS: Final = 2
_LOOKED_UP: Final = 10_000
_WARM_UP: Final = 4
"""The first fourth is looked up once more, before, because it reads pages from the disk."""
_LOADED_TOGETHER: Final = 262  # packets, as many as a bulk load writes at once
_PROBES: Final = 1 << 32
"""The number of the first random document that is looked up."""


def fingerprinted(file: Path, profile: str, documents: int, jobs: int) -> DocumentColumns:
    """Return the first ``documents`` of a file, or all."""
    settings = Settings(profile=profile)
    fingerprinter = Fingerprinter(settings.index_profile())
    parts, read = [], 0
    with (
        closing(DedupInputs([str(file)], settings)) as inputs,
        started_pool(settings, jobs) as pool,
    ):
        batches = inputs.batches(new_run(0, inputs.names, {}))
        for _, prepared in prepared_batches(settings, fingerprinter, pool, jobs, batches):
            parts.append(prepared.columns)
            read += len(prepared.columns)
            if read >= documents:
                break
    return joined_columns(parts).part(0, min(read, documents))


def decided(
    columns: DocumentColumns, profile: str, sizes: Sequence[int], looked_up: int
) -> Iterator[tuple[int, list[NewEntries], Figures]]:
    """Yield each size with all entries so far; the figures are of the last ``looked_up``."""
    entries = MemoryEntries()
    decider = LocalDecider(Nearness.of(profile_named(profile)), entries)
    new: list[NewEntries] = []
    deciding = Stopwatch()
    for number, first in enumerate(range(0, sizes[-1], PACKET)):
        packet = packet_of(columns.part(first, first + PACKET))
        with deciding:
            decision = decider.decide(number, packet)
        entries.add(decision.new)
        new.append(decision.new)
        if first + PACKET in sizes:
            packets = -(-looked_up // PACKET)
            last = deciding.laps_us(PACKET)[-packets:]
            uniques = sum(len(each.rows) for each in new[-packets:])
            figures = {
                "decide_us": float(np.mean(last)),
                "slowest_packet_us": max(last),
                "duplicates": 1 - uniques / (PACKET * len(last)),
            }
            yield first + PACKET, new, figures


def loads_of(new: Iterable[NewEntries]) -> Iterator[list[EntryBlock]]:
    blocks = (entry_block(each) for each in new if len(each.rows))
    while together := list(islice(blocks, _LOADED_TOGETHER)):
        yield together


def random_loads(profile: str, documents: int) -> Iterator[list[EntryBlock]]:
    return ([block] for block in random_blocks(profile, documents))


def measured(
    path: Path,
    profile: str,
    loads: Callable[[], Iterable[Sequence[EntryBlock]]],
    probes: DocumentColumns,
) -> Figures:
    """Write a shard with its segment files, and look ``probes`` up.

    Each step has its own process, because a process keeps the lock of segment files until its end.
    """
    figures: Figures = {}
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, spawn, max_tasks_per_child=1) as process:
        for step in (partial(write, path, profile, loads), partial(look_up, path, profile, probes)):
            figures |= process.submit(step).result()
    return figures


def write(path: Path, profile: str, loads: Callable[[], Iterable[Sequence[EntryBlock]]]) -> Figures:
    loaded = load_blocks(path, profile, loads())
    documents = round(loaded["documents"])
    return {
        "documents": documents,
        "disk_bytes": disk_bytes(path) / documents,
        "segment_bytes": loaded["segment_bytes"],
    }


def look_up(path: Path, profile: str, probes: DocumentColumns) -> Figures:
    nearness = Nearness.of(profile_named(profile))
    before = memory_bytes("RssAnon")
    with opened_index([path], path / FILES, nearness.scheme) as (index, (shard,)):
        look = LookUp(index, nearness, OneStore(shard.store))
        packets = [probes.part(at, at + PACKET) for at in range(0, len(probes), PACKET)]
        for packet in packets[: len(packets) // _WARM_UP]:
            look.matches(packet)
        seen, looking, matches = index.candidates_seen, Stopwatch(), 0
        for packet in packets:
            with looking:
                matches += len(look.matches(packet))
        timed = zip(looking.laps, packets, strict=True)
        spent = [lap / len(packet) * 1e6 for lap, packet in timed]
        return {
            "look_up_us": float(np.mean(spent)),
            "slowest_look_up_us": max(spent),
            "candidates": (index.candidates_seen - seen) / len(probes),
            "matched": matches / len(probes),
            "memory_mb": (memory_bytes("RssAnon") - before) / MIB,
        }


def compared(
    file: Path, profile: str, options: argparse.Namespace, sizes: Sequence[int]
) -> Iterator[Figures]:
    say(f"{profile}: fingerprints …")
    looked_up = options.looked_up
    columns = fingerprinted(file, profile, sizes[-1] + looked_up, options.jobs)
    if len(columns) < sizes[-1] + looked_up:
        raise MeasurementError(
            f"{file} has {len(columns):,} documents: with {looked_up:,} to look up, the largest of "
            f"--sizes is {max(0, len(columns) - looked_up):,}"
        )
    random = random_columns(profile, _PROBES, looked_up)
    for size, new, deciding in decided(columns, profile, sizes, looked_up):
        say(f"{profile}, {size:,} …")
        texts = partial(loads_of, new), columns.part(size, size + looked_up)
        with tempfile.TemporaryDirectory(dir=options.state_dir, prefix="index-") as name:
            values = measured(Path(name) / "real", profile, *texts)
            yield {"profile": profile, "texts": "real", "read": size, **values, **deciding}
            documents = int(values["documents"])
            loads = partial(random_loads, profile, documents)
            values = measured(Path(name) / "random", profile, loads, random)
        yield {"profile": profile, "texts": "random", "read": documents, **values}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = new_parser("benchmarks.index.real_texts", __doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--sizes", type=positive, nargs="+", default=_SIZES)
    parser.add_argument("--profile", nargs="+", choices=list(PROFILES), default=_PROFILES)
    add_number(parser, "--looked-up", _LOOKED_UP, "documents that are looked up")
    add_number(parser, "--jobs", _JOBS, "processes that make fingerprints")
    add_state_dir(parser)
    options = parser.parse_args(arguments)
    sizes = sorted(options.sizes)
    if any(size % PACKET for size in sizes):
        parser.error(f"--sizes are multiples of {PACKET}")
    with errors_reported():
        figures = [
            each
            for profile in options.profile
            for each in compared(options.file, profile, options, sizes)
        ]
    publish({"machine": machine(), "figures": figures}, options.json)


if __name__ == "__main__":
    main()
