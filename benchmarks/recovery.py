"""Measures how fast a shard is rebuilt from its changelog and opened from disk, and its bytes.

The changelog of one shard has random documents, 250 in a packet, in the form in which Kafka returns
it. Then the index is filled from the store, and documents are looked up in it, packet by packet.
The store is closed, opened again and read for the index, as at a restart. Times are the CPU time of
the whole process with RocksDB's threads, without the time for making the records.

    python -m benchmarks.recovery [--profile wide classic] [--documents 1000000]
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from timeit import timeit
from typing import Final

from benchmarks.command import (
    MeasurementError,
    add_state_dir,
    errors_reported,
    new_parser,
    positive,
)
from benchmarks.measures import Stopwatch, disk_bytes
from benchmarks.random_documents import (
    IDENTITY,
    PACKET,
    entries_record,
    packet_of,
    random_columns,
    records_of,
)
from benchmarks.report import Figures, machine, publish
from simhash_core.index.document_index import DocumentIndex
from simhash_core.index.prints import prints_of
from simhash_core.log.records import Bundle, Progress
from simhash_core.text.profiles import PROFILES, profile_named
from streams.store.changelog_codec import LoggedProgress, decode_record
from streams.store.rocksdb_store import block_cache
from streams.store.row_codec import EntryBlock, ProgressRow, StoreIdentity
from streams.store.shard_directory import RocksDisk, open_shard
from streams.store.shard_store import ShardStore
from streams.worker.log_codec import LogCodec

_TIMES: Final = 200
_LOOKED_UP: Final = 20
"""The number of packets that are looked up."""
_PROBES: Final = 1 << 48
"""The number of the first document that is looked up."""


def from_records(
    store: ShardStore,
    profile: str,
    documents: int,
    identity: str = IDENTITY,
    progress: Progress | None = None,
) -> tuple[int, float]:
    """Load the records; return their number, and the CPU seconds for making them.

    ``progress`` is the store's progress in the end.
    """
    count, making = 0, Stopwatch(time.thread_time)
    batches = records_of(profile, documents, identity)
    while True:
        with making:
            batch = next(batches, None)
        if batch is None:
            return count, making.seconds
        count += len(batch)
        decoded = [decode_record(key, value, "the benchmark's") for key, value in batch]
        blocks = [each for each in decoded if isinstance(each, EntryBlock)]
        (logged,) = (each for each in decoded if isinstance(each, LoggedProgress))
        store.load(blocks, ProgressRow(progress or logged.progress, count, 0, logged.identity))


def _measured(path: Path, profile: str, documents: int) -> Figures:
    owner = StoreIdentity(IDENTITY, "benchmark", 0)
    scheme = profile_named(profile).scheme()
    index = DocumentIndex(scheme)
    recovering, filling, looking, reading = (Stopwatch() for _ in range(4))
    opening = Stopwatch(time.perf_counter)
    with recovering:
        store = open_shard(path, owner, scheme.bits, RocksDisk(block_cache()))
        records, making = from_records(store, profile, documents)
    recovered = recovering.seconds - making
    with closing(store):
        if len(store) != documents:
            raise MeasurementError(f"{len(store)} of {documents} documents were recovered")
        with filling:
            slot = index.open_slot()
            for sequences, prints in store.prints(scheme.sketch_bands):
                index.add(slot, sequences, prints)
        firsts = range(_PROBES, _PROBES + _LOOKED_UP * PACKET, PACKET)
        probes = [random_columns(profile, first, PACKET) for first in firsts]
        candidates = index.candidates_seen
        with looking:
            for columns in probes:
                index.pairs(prints_of(scheme, columns))
        candidates = index.candidates_seen - candidates
        del index
    with reading, opening:
        store = open_shard(path, owner, scheme.bits, RocksDisk(block_cache()))
        for _ in store.prints(scheme.sketch_bands):
            pass
    store.close()
    packet = packet_of(random_columns(profile, 0, PACKET))
    codec = LogCodec(IDENTITY)
    bundle = Bundle.of([packet])
    value = codec.encode(bundle)
    return {
        "source": "records",
        "profile": profile,
        "documents": documents,
        "records": records,
        "documents_per_cpu_second": documents / recovered,
        "recovery_cpu_us": recovered / documents * 1e6,
        "index_cpu_us": filling.us_each(documents),
        "lookup_cpu_us": looking.us_each(_LOOKED_UP * PACKET),
        "candidates_per_lookup": candidates / (_LOOKED_UP * PACKET),
        "open_seconds": opening.seconds,
        "from_disk_cpu_us": reading.us_each(documents),
        "bundle_bytes": len(value) / PACKET,
        "changelog_bytes": entries_record(packet, 0).size / PACKET,
        "disk_bytes": disk_bytes(path) / documents,
        "encode_bundle_us": _us_each(lambda: codec.encode(bundle)),
        "decode_bundle_us": _us_each(lambda: codec.decode(value, "the benchmark's")),
    }


def _us_each(do: Callable[[], object]) -> float:
    return timeit(do, timer=time.thread_time, number=_TIMES) / _TIMES * 1e6


def run(profiles: Sequence[str], documents: Sequence[int], state_dir: Path | None) -> Figures:
    """Measure all profiles; bytes are per document, times are in µs per document."""
    figures = []
    for profile in profiles:
        for count in documents:
            with tempfile.TemporaryDirectory(dir=state_dir, prefix="recovery-") as name:
                figures.append(_measured(Path(name) / "shard-0", profile, count))
    return {"machine": machine(), "figures": figures}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = new_parser("benchmarks.recovery", __doc__)
    parser.add_argument("--profile", nargs="+", choices=list(PROFILES), default=list(PROFILES))
    parser.add_argument("--documents", type=positive, nargs="+", default=[100_000])
    add_state_dir(parser)
    options = parser.parse_args(arguments)
    with errors_reported():
        publish(run(options.profile, options.documents, options.state_dir), options.json)


if __name__ == "__main__":
    main()
