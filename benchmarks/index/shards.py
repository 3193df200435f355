"""The index of a worker with one shard and with many, of the same documents.

    python -m benchmarks.index.shards [--shards 1 64] [--documents 6400000] [--profile classic]
        [--apart] [--state-dir DIRECTORY] [--json FILE]

Documents are random, and their blocks go to the shards in turn. They are stored and filed as a
worker does it, then all shards are opened again. ``--apart`` also looks up in as many files as
there are shards, each of one shard: what shared files save.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from benchmarks.command import add_state_dir, new_parser, positive, say
from benchmarks.measures import Stopwatch
from benchmarks.random_documents import CHAIN, IDENTITY, PACKET, random_columns
from benchmarks.report import write_json
from simhash_core.index.document_index import DocumentIndex
from simhash_core.index.prints import Rows, prints_of
from simhash_core.index.segment import build_segment, columns_of, segment_of
from simhash_core.log.records import Progress, sequence_number, sequence_numbers
from simhash_core.text.profiles import PROFILES, profile_named
from streams.store.compaction import KeptShard, SegmentKeeper
from streams.store.recovery import fill_index, make_missing_files
from streams.store.rocksdb_store import block_cache
from streams.store.row_codec import EntryBlock, ProgressRow, StoreIdentity
from streams.store.shard_directory import RocksDisk, open_shard
from streams.store.shard_segments import SegmentOwner, ShardSegments, WorkerSegments

_BLOCK: Final = 8192
_PROBES: Final = 1 << 32
_PACKETS: Final = 40
_SINGLES: Final = 400


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """``us_a_document``: in packets of 250; ``us_a_packet``: of one document. CPU time."""

    profile: str
    documents: int
    shards: int
    apart: bool = False
    files: int
    open_seconds: float | None = None
    us_a_document: float
    us_a_packet: float


@contextmanager
def _opened(
    state: Path, profile: str, shards: int
) -> Iterator[tuple[DocumentIndex, list[KeptShard]]]:
    scheme = profile_named(profile).scheme()
    index, cache = DocumentIndex(scheme), block_cache()
    files = WorkerSegments(state / "segments", SegmentOwner(IDENTITY, "benchmark"), scheme)
    kept = []
    with ExitStack() as stores:
        for partition in range(shards):
            owner = StoreIdentity(IDENTITY, "benchmark", partition)
            path = state / f"shard-{partition}"
            store = stores.enter_context(
                closing(open_shard(path, owner, scheme.bits, RocksDisk(cache)))
            )
            store.segments = ShardSegments(files, partition)
            make_missing_files(store, store.segments)
            slot = index.open_slot()
            for _ in fill_index(index, slot, store):
                pass
            kept.append(KeptShard(slot, store, store.segments))
        yield index, kept


def _load(state: Path, profile: str, documents: int, shards: int) -> None:
    with _opened(state, profile, shards) as (index, kept):
        keeper = SegmentKeeper(index)
        for number, first in enumerate(range(0, documents, _BLOCK)):
            columns = random_columns(profile, first, min(_BLOCK, documents - first))
            shard = kept[number % shards]
            sequences = sequence_numbers(sequence_number(number, 0), np.arange(len(columns)))
            progress = Progress(CHAIN, first + len(columns), number, number)
            block = EntryBlock(CHAIN, sequences, columns)
            shard.store.load([block], ProgressRow(progress, number))
            index.add(shard.slot, sequences, prints_of(index.scheme, columns))
            asyncio.run(keeper.step(lambda: kept))
        while asyncio.run(keeper.step(lambda: kept)):
            pass


def _looked_up(index: DocumentIndex, profile: str) -> tuple[float, float]:
    prints = prints_of(index.scheme, random_columns(profile, _PROBES, PACKET * _PACKETS))
    packets = [prints.take(slice(at, at + PACKET)) for at in range(0, prints.documents, PACKET)]
    singles = [prints.take(slice(at, at + 1)) for at in range(_SINGLES)]
    spent = []
    for parts in (packets, singles):
        for part in parts[:_PACKETS]:
            index.pairs(part)
        watch = Stopwatch()
        with watch:
            for part in parts:
                index.pairs(part)
        spent.append(watch.us_each(sum(part.documents for part in parts)))
    return spent[0], spent[1]


def measured(state: Path, profile: str, documents: int, shards: int) -> Figures:
    _load(state, profile, documents, shards)
    begun = time.perf_counter()
    with _opened(state, profile, shards) as (index, kept):
        seconds = time.perf_counter() - begun
        if len(index) != documents:
            raise RuntimeError(f"{len(index)} of {documents} documents")
        full, single = _looked_up(index, profile)
        return Figures(
            profile=profile,
            documents=documents,
            shards=shards,
            files=len(kept[0].segments.files.files),
            open_seconds=seconds,
            us_a_document=full,
            us_a_packet=single,
        )


def apart(profile: str, documents: int, shards: int) -> Figures:
    scheme = profile_named(profile).scheme()
    index = DocumentIndex(scheme)
    each = documents // shards
    for shard in range(shards):
        columns = random_columns(profile, shard * each, each)
        sequences = np.arange(shard * each, (shard + 1) * each, dtype=np.uint64)
        ranges = [(int(sequences[0]), int(sequences[-1]))]
        numbers = np.zeros(each, dtype=np.uint16)
        built = build_segment(scheme, Rows(sequences, numbers, prints_of(scheme, columns)))
        segment = segment_of(scheme, *columns_of(built, with_times=False))
        index.claim(segment, 0, index.open_slot(), ranges)
    full, single = _looked_up(index, profile)
    return Figures(
        profile=profile,
        documents=documents,
        shards=shards,
        apart=True,
        files=shards,
        us_a_document=full,
        us_a_packet=single,
    )


def main(arguments: list[str] | None = None) -> None:
    parser = new_parser("benchmarks.index.shards", __doc__)
    parser.add_argument("--shards", type=positive, nargs="+", default=[1, 64])
    parser.add_argument("--documents", type=positive, default=6_400_000)
    parser.add_argument("--profile", choices=PROFILES, default="classic")
    parser.add_argument("--apart", action="store_true", help="and with a file for each shard")
    add_state_dir(parser)
    chosen = parser.parse_args(arguments)
    figures = []
    for shards in chosen.shards:
        with tempfile.TemporaryDirectory(dir=chosen.state_dir) as directory:
            state = Path(directory)
            figures.append(measured(state, chosen.profile, chosen.documents, shards))
            say(str(msgspec.structs.asdict(figures[-1])))
        if chosen.apart:
            figures.append(apart(chosen.profile, chosen.documents, shards))
            say(str(msgspec.structs.asdict(figures[-1])))
    write_json(figures, chosen.json)


if __name__ == "__main__":
    main()
