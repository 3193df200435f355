"""Loads a shard of many documents, opens it again from disk, and looks documents up in it.

Each step has its own process (``python -m benchmarks.index.shard STEP …``) and prints its figures
as one line of JSON. Times are CPU times of all threads, unless their names say clock.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.command import output_of
from benchmarks.measures import Stopwatch, disk_bytes, memory_bytes
from benchmarks.random_documents import (
    CHAIN,
    HOT_SHARE,
    IDENTITY,
    PACKET,
    SKETCH_BYTES,
    columns_of,
    packet_of,
    random_columns,
)
from benchmarks.recovery import from_records
from simhash_core.document_columns import DocumentColumns
from simhash_core.fingerprints.blocks import BlockScheme
from simhash_core.index.bucket_columns import completed
from simhash_core.index.document_index import DocumentIndex
from simhash_core.index.look_up import Nearness
from simhash_core.index.prints import Prints, Rows, prints_of
from simhash_core.index.segment import build_segment, segment_of
from simhash_core.index.segment import columns_of as segment_columns
from simhash_core.log.local_decider import LocalDecider, MemoryEntries
from simhash_core.log.records import Chain, Progress, entry_of, sequence_number, sequence_numbers
from simhash_core.text.fingerprinter import Fingerprinter
from simhash_core.text.profiles import profile_named
from streams.maintenance.exporting import encode_entry
from streams.maintenance.loading import FileSource, LoadSpool
from streams.settings.settings import Settings
from streams.store.changelog_codec import encode_block
from streams.store.compaction import KeptShard
from streams.store.recovery import fill_index, make_missing_files
from streams.store.rocksdb_store import MIB, block_cache
from streams.store.row_codec import EntryBlock, ProgressRow, StoreIdentity
from streams.store.shard_directory import RocksDisk, open_shard
from streams.store.shard_segments import (
    SegmentOwner,
    ShardSegments,
    WorkerSegments,
    documents_limit,
)
from streams.store.shard_store import ShardStore

Figures = dict[str, float]

_BLOCK: Final = 65_536
"""The number of documents that are made together, for one offset of the log."""
_PROBES: Final = 1 << 30
"""The number of the first block of documents that are looked up."""
_PACKETS: Final = 40
_TENTH: Final = 10
FILES: Final = "files"
_FLIPPED_SKETCH_BYTES: Final = 5
_OTHER_BITS: Final = 0.1  # of documents of one template
_OTHER_BINS: Final = 0.36
_TAIL_BYTES_LOST: Final = 3


def run_step(step: str, path: Path, profile: str, documents: int) -> Figures:
    """Run a step in its own process; raises ``MeasurementError``."""
    command = [sys.executable, "-m", "benchmarks.index.shard", step, str(path.resolve()), profile]
    figures: Figures = json.loads(output_of([*command, str(documents)]).splitlines()[-1])
    return figures


@contextmanager
def opened(
    paths: Sequence[Path], files: Path, scheme: BlockScheme
) -> Iterator[list[tuple[ShardStore, ShardSegments]]]:
    """Open the stores of a worker's shards, partition by partition, with its segment files."""
    cache = block_cache()
    worker = WorkerSegments(files, SegmentOwner(IDENTITY, "benchmark"), scheme)
    with ExitStack() as stack:
        shards = []
        for partition, path in enumerate(paths):
            owner = StoreIdentity(IDENTITY, "benchmark", partition)
            store = stack.enter_context(
                closing(open_shard(path, owner, scheme.bits, RocksDisk(cache)))
            )
            store.segments = segments = ShardSegments(worker, partition)
            shards.append((store, segments))
        yield shards


@contextmanager
def opened_index(
    paths: Sequence[Path], files: Path, scheme: BlockScheme
) -> Iterator[tuple[DocumentIndex, list[KeptShard]]]:
    """Open the shards as a worker does, and yield an index of them."""
    index = DocumentIndex(scheme)
    with opened(paths, files, scheme) as stores:
        kept = []
        for store, segments in stores:
            make_missing_files(store, segments)
            slot = index.open_slot()
            for _ in fill_index(index, slot, store):
                pass
            kept.append(KeptShard(slot, store, segments))
        yield index, kept


@contextmanager
def _opened(path: Path, profile: str) -> Iterator[tuple[ShardStore, ShardSegments]]:
    with opened([path], path / FILES, profile_named(profile).scheme()) as (shard,):
        yield shard


def look_up(index: DocumentIndex, packets: Sequence[Prints]) -> float:
    """Look packets up; return the CPU µs per document."""
    spent = Stopwatch()
    with spent:
        for packet in packets:
            index.pairs(packet)
    return spent.us_each(sum(packet.documents for packet in packets))


def _sequences(log_offset: int, documents: int) -> NDArray[np.uint64]:
    return sequence_numbers(sequence_number(log_offset, 0), np.arange(documents))


def random_blocks(
    profile: str, documents: int, size: int = _BLOCK, *, skewed: bool = False
) -> Iterator[EntryBlock]:
    for number, first in enumerate(range(0, documents, size)):
        count = min(size, documents - first)
        columns = random_columns(profile, first, count, skewed=skewed)
        yield EntryBlock(CHAIN, _sequences(number, count), columns)


def load_blocks(path: Path, profile: str, loads: Iterable[Sequence[EntryBlock]]) -> Figures:
    """Write documents to a new store, as a bulk load does, and its segment files.

    The blocks of each of ``loads`` are written together.
    """
    rows, files, documents = Stopwatch(), Stopwatch(), 0
    with _opened(path, profile) as (store, segments):
        for number, blocks in enumerate(loads, 1):
            documents += sum(map(len, blocks))
            progress = Progress(CHAIN, documents, number, number)
            with rows:
                store.load(blocks, ProgressRow(progress, number))
        with files:
            make_missing_files(store, segments)
        size = disk_bytes(path / FILES)
    return {
        "documents": documents,
        "rows_cpu_us": rows.us_each(documents),
        "files_cpu_us": files.us_each(documents),
        "load_per_cpu_second": documents / (rows.seconds + files.seconds),
        "segment_bytes": size / documents,
        "peak_memory_mb": memory_bytes("VmHWM") / MIB,
    }


def load(path: Path, profile: str, documents: int) -> Figures:
    figures = load_blocks(path, profile, ([block] for block in random_blocks(profile, documents)))
    del figures["documents"]
    return figures


def rebuild(path: Path, profile: str, documents: int) -> Figures:
    """Build a shard from the records of its changelog, with its segment files."""
    spent = Stopwatch()
    with _opened(path, profile) as (store, segments), spent:
        _, making = from_records(store, profile, documents)
        make_missing_files(store, segments)
    return {"rebuilt_per_cpu_second": documents / (spent.seconds - making)}


def lines(path: Path, profile: str, documents: int) -> Figures:
    """Read an export as ``firstseen index load`` does, and make changelog records from it."""
    with path.open("wb") as file:
        for block in random_blocks(profile, documents):
            packet = packet_of(block.columns)
            file.writelines(
                encode_entry(int(sequence), entry_of(packet, row), "")
                for row, sequence in enumerate(block.sequences)
            )
    settings = Settings(profile=profile)
    fingerprinter = Fingerprinter(settings.index_profile())
    source = FileSource(settings, fingerprinter, str(path), "fingerprints")
    spent, read = Stopwatch(), 0
    with spent, tempfile.TemporaryFile() as file:
        spool = LoadSpool(file)
        for run in source.runs(lambda *_: None):
            spool.write(run)
        for run in spool.read():
            numbers = np.arange(read, read + len(run.columns), dtype=np.uint64)
            encode_block(EntryBlock(Chain(run.topic, "", run.partition), numbers, run.columns))
            read += len(run.columns)
    assert read == documents
    return {"lines_per_cpu_second": documents / spent.seconds}


def open_and_look_up(path: Path, profile: str, documents: int) -> Figures:
    """Open the shard from its disk, and look new documents up and insert them."""
    scheme, before = profile_named(profile).scheme(), memory_bytes("RssAnon")
    begun, clock = time.process_time(), time.perf_counter()
    with opened_index([path], path / FILES, scheme) as (index, (shard,)):
        cpu, wall = time.process_time() - begun, time.perf_counter() - clock
        assert len(index) == documents
        size = disk_bytes(path)
        figures = _looked_up(index, shard.slot, profile)
    return figures | {
        "open_seconds": wall,
        "open_cpu_seconds": cpu,
        "disk_bytes": size / documents,
        "memory_mb": (memory_bytes("RssAnon") - before) / MIB,
        "resident_mb": memory_bytes("VmRSS") / MIB,
        "segments": len(index.segments),
    }


def look_up_skewed(_: Path, profile: str, documents: int) -> Figures:
    """Look skewed documents up in segments in memory, as large as segment files."""
    index = DocumentIndex(profile_named(profile).scheme())
    slot = index.open_slot()
    limit = documents_limit(index.scheme)
    parts: list[tuple[NDArray[np.uint64], Prints]] = []
    size = 0
    for number, block in enumerate(random_blocks(profile, documents, skewed=True)):
        parts.append((block.sequences, prints_of(index.scheme, block.columns)))
        size += len(block)
        if size >= limit or (number + 1) * _BLOCK >= documents:
            sequences, prints = zip(*parts, strict=True)
            joined = Prints(*map(np.concatenate, zip(*prints, strict=True)))
            rows = Rows(np.concatenate(sequences), np.zeros(size, dtype=np.uint16), joined)
            columns = segment_columns(
                completed(build_segment(index.scheme, rows)), with_times=False
            )
            ranges = [(int(rows.sequences[0]), int(rows.sequences[-1]))]
            index.claim(segment_of(index.scheme, *columns), 0, slot, ranges)
            parts, size = [], 0
    return _looked_up(index, slot, profile, skewed=True)


def packets_of(
    index: DocumentIndex, columns: DocumentColumns, documents: int = PACKET
) -> list[Prints]:
    prints = prints_of(index.scheme, columns)
    return [prints.take(slice(at, at + documents)) for at in range(0, len(columns), documents)]


def _looked_up(index: DocumentIndex, slot: int, profile: str, *, skewed: bool = False) -> Figures:
    """Look packets up and insert them, as a worker does with new documents."""
    columns = random_columns(profile, _PROBES * _BLOCK, PACKET * _PACKETS, skewed=skewed)
    packets = packets_of(index, columns)
    look_up(index, packets[: _PACKETS // 4])  # warm up: the first reads of pages come from the disk
    candidates_before = index.candidates_seen
    looking, inserting = 0.0, Stopwatch()
    for number, packet in enumerate(packets):
        looking += look_up(index, [packet]) / len(packets)
        with inserting:
            index.add(slot, _sequences(_PROBES + number, PACKET), packet)
    documents = PACKET * _PACKETS
    return {
        "look_up_cpu_us": looking,
        "insert_cpu_us": inserting.us_each(documents),
        "cpu_us": looking + inserting.us_each(documents),
        "candidates": (index.candidates_seen - candidates_before) / documents,
        "hot_share": HOT_SHARE if skewed else 0.0,
    }


def flood(_: Path, profile: str, documents: int) -> Figures:
    """Look up and decide near-identical documents in a row, as a worker without a log does.

    All are near the first document, the only one that the index keeps. The last documents must cost
    as much as the first. ``documents`` is a multiple of ten packets.
    """
    spent, uniques = _decided(Nearness.of(profile_named(profile)), profile, documents, _near_copies)
    tenth = max(len(spent) // _TENTH, 1)
    # Use the median, because other work of the machine delays only single packets.
    begin, end = (float(np.median(part)) for part in (spent[:tenth], spent[-tenth:]))
    return {
        "flood_cpu_us": float(np.mean(spent)),
        "flood_first_cpu_us": begin,
        "flood_last_cpu_us": end,
        "flood_uniques": uniques,
    }


def template(_: Path, profile: str, documents: int) -> Figures:
    """Look up and decide documents of one template, which are within the distance, but not similar.

    All are unique. ``alone``: the same when each pair is verified by itself.
    """
    nearness = Nearness.of(profile_named(profile))
    spent, uniques = _decided(nearness, profile, documents, _of_template)
    assert nearness.verifier is not None
    verification = nearness.verifier.verification._replace(many=None)
    nearness.verifier = nearness.verifier._replace(verification=verification)
    alone, _uniques = _decided(nearness, profile, documents, _of_template)
    return {
        "template_cpu_us": float(np.mean(spent)),
        "template_alone_cpu_us": float(np.mean(alone)),
        "template_uniques": uniques,
    }


def _decided(
    nearness: Nearness,
    profile: str,
    documents: int,
    columns_of_packet: Callable[[str, int], DocumentColumns],
) -> tuple[list[float], int]:
    """Return the CPU time of each packet, µs a document, and the number of unique documents."""
    entries = MemoryEntries()
    decider = LocalDecider(nearness, entries)
    deciding = Stopwatch()
    for number in range(documents // PACKET):
        packet = packet_of(columns_of_packet(profile, number))
        with deciding:
            entries.add(decider.decide(number, packet).new)
    return deciding.laps_us(PACKET), len(entries)


def _of_template(profile: str, number: int) -> DocumentColumns:
    """Return documents that differ in about a fifth of the bits, and share 0.41 of the bins."""
    one = random_columns(profile, 0, 1)
    random = np.random.default_rng([number, PACKET, 1])
    bits = np.unpackbits(one.fingerprints.view(np.uint8), axis=1) ^ (
        random.random((PACKET, one.fingerprints.shape[1] * 64)) < _OTHER_BITS
    )
    base = np.frombuffer(one.sketches.joined, dtype=np.uint8)
    own = random.integers(0, 256, (PACKET, len(base)), dtype=np.uint8)
    is_own = random.random(own.shape) < _OTHER_BINS
    tail = np.arange(max(len(base) - SKETCH_BYTES, 0))
    is_own[:, SKETCH_BYTES:] = is_own[:, tail // 2]  # it has more bits of the first bins
    sketches = np.where(is_own, own, base)
    first = number * PACKET
    times = np.arange(first, first + PACKET, dtype=np.int64)
    fingerprints = np.packbits(bits, axis=1).view(np.uint64)
    return columns_of(random, first, times, fingerprints, sketches)


def _near_copies(profile: str, number: int) -> DocumentColumns:
    """Return near-identical documents, which differ in a bit, parts of the sketch, and bands."""
    one = random_columns(profile, 0, 1)
    random = np.random.default_rng([number, PACKET])
    first, rows = number * PACKET, np.arange(PACKET)
    fingerprints = np.repeat(one.fingerprints, PACKET, axis=0)
    bits = random.integers(0, fingerprints.shape[1] * 64, PACKET)
    fingerprints[rows, bits // 64] ^= np.uint64(1) << (bits % 64).astype(np.uint64)
    sketches = np.tile(np.frombuffer(one.sketches.joined, dtype=np.uint8), (PACKET, 1))
    tail = profile_named(profile).scheme().sketch_bands.tail_bytes
    if tail:
        at = random.integers(0, SKETCH_BYTES, (PACKET, _FLIPPED_SKETCH_BYTES))
        sketches[rows[:, None], at] ^= 1
        lost = SKETCH_BYTES + random.integers(0, tail, (PACKET, _TAIL_BYTES_LOST))
        sketches[rows[:, None], lost] = random.integers(0, 256, lost.shape)
    times = np.arange(first, first + PACKET, dtype=np.int64)
    return columns_of(random, first, times, fingerprints, sketches)


_STEPS: Final[Mapping[str, Callable[[Path, str, int], Figures]]] = {
    "load": load,
    "rebuild": rebuild,
    "lines": lines,
    "look_up": open_and_look_up,
    "look_up_skewed": look_up_skewed,
    "flood": flood,
    "template": template,
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("step", choices=_STEPS)
    parser.add_argument("path", type=Path)
    parser.add_argument("profile")
    parser.add_argument("documents", type=int)
    options = parser.parse_args()
    step = _STEPS[options.step]
    print(json.dumps(step(options.path, options.profile, options.documents)))


if __name__ == "__main__":
    main()
