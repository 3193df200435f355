"""Compares a worker's index with one shard to one with many shards, for the same documents.

    python -m benchmarks.index.shards [--shards 1 64] [--documents 6400000] [--profile classic]
        [--state-dir DIRECTORY] [--json FILE]

Documents are random, and their blocks go to the shards in turn. They are stored and written to
segment files as a worker does it, then all shards are opened again.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from xxhash import xxh3_128_digest

from benchmarks.command import add_number, add_state_dir, new_parser, positive
from benchmarks.index.shard import look_up, opened_index, packets_of, random_blocks
from benchmarks.measures import Stopwatch
from benchmarks.random_documents import CHAIN, PACKET, random_columns
from benchmarks.report import Figures, publish
from simhash_core.index.document_index import DocumentIndex
from simhash_core.index.prints import prints_of
from simhash_core.log.records import Progress
from simhash_core.log.shards import HeldShards
from simhash_core.text.profiles import PROFILES, profile_named
from streams.store.compaction import KeptShard, SegmentKeeper
from streams.store.row_codec import ProgressRow

_BLOCK: Final = 8192
_PROBES: Final = 1 << 32
_PACKETS: Final = 40
_SINGLES: Final = 400
_IDS: Final = 16


def _opened(
    state: Path, profile: str, shards: int
) -> AbstractContextManager[tuple[DocumentIndex, list[KeptShard]]]:
    paths = [state / f"shard-{partition}" for partition in range(shards)]
    return opened_index(paths, state / "segments", profile_named(profile).scheme())


def _load(state: Path, profile: str, documents: int, shards: int) -> None:
    with _opened(state, profile, shards) as (index, kept):
        keeper, loaded = SegmentKeeper(index), 0
        for number, block in enumerate(random_blocks(profile, documents, _BLOCK)):
            shard, loaded = kept[number % shards], loaded + len(block)
            progress = Progress(CHAIN, loaded, number, number)
            shard.store.load([block], ProgressRow(progress, number))
            index.add(shard.slot, block.sequences, prints_of(index.scheme, block.columns))
            asyncio.run(keeper.step(lambda: kept))
        while asyncio.run(keeper.step(lambda: kept)):
            pass


def _looked_up(index: DocumentIndex, profile: str) -> tuple[float, float]:
    """Return the CPU µs per document, in packets of 250 and of one document."""
    columns = random_columns(profile, _PROBES, PACKET * _PACKETS)
    packets, singles = packets_of(index, columns), packets_of(index, columns, 1)[:_SINGLES]
    look_up(index, packets)
    of_packets = look_up(index, packets)
    look_up(index, singles[:_PACKETS])
    return of_packets, look_up(index, singles)


def _looked_up_by_key(index: DocumentIndex, kept: list[KeptShard]) -> Figures:
    """Return the CPU µs per new id, 16 at a time, and per new short text, one at a time.

    First each shard is asked for each of them, then only those that the filter names.
    """
    held: HeldShards[object] = HeldShards("benchmark", index, expires=False)
    for partition, shard in enumerate(kept):
        held.own(Progress(CHAIN._replace(partition=partition), 0, 0, 0), shard.store, shard.slot)
        while not shard.store.make_ids():
            pass
    held.begin(0)
    ids = [[b"new-%d-%d" % (at, each) for each in range(_IDS)] for at in range(_SINGLES)]
    contents = [xxh3_128_digest(b"%d" % each) for each in range(_SINGLES)]
    for some in ids:
        held.with_ids(some)  # warm up
    figures: Figures = {}
    for name in ("all_shards_asked", "filter"):
        looking = Stopwatch()
        with looking:
            for some in ids:
                held.with_ids(some)
        figures[f"us_an_id_{name}"] = looking.us_each(_SINGLES * _IDS)
        looking = Stopwatch()
        with looking:
            for content in contents:
                held.by_content(content)
        figures[f"us_a_short_text_{name}"] = looking.us_each(_SINGLES)
        for shard in kept:
            while not shard.store.keys_noted:
                shard.store.note_keys()
        held.by_content(b"")  # takes what was noted
    return figures


def measured(state: Path, profile: str, documents: int, shards: int) -> Figures:
    """Return CPU times: ``us_a_document`` in packets of 250, ``us_a_packet`` of one document."""
    _load(state, profile, documents, shards)
    begun = time.perf_counter()
    with _opened(state, profile, shards) as (index, kept):
        seconds = time.perf_counter() - begun
        if len(index) != documents:
            raise RuntimeError(f"{len(index)} of {documents} documents")
        full, single = _looked_up(index, profile)
        return {
            "profile": profile,
            "documents": documents,
            "shards": shards,
            "files": len(kept[0].segments.files.files),
            "open_seconds": seconds,
            "us_a_document": full,
            "us_a_packet": single,
            **_looked_up_by_key(index, kept),
        }


def main(arguments: list[str] | None = None) -> None:
    parser = new_parser("benchmarks.index.shards", __doc__)
    parser.add_argument("--shards", type=positive, nargs="+", default=[1, 64])
    add_number(parser, "--documents", 6_400_000, "in the index")
    parser.add_argument("--profile", choices=PROFILES, default="classic")
    add_state_dir(parser)
    chosen = parser.parse_args(arguments)
    figures = []
    for shards in chosen.shards:
        with tempfile.TemporaryDirectory(dir=chosen.state_dir) as directory:
            figures.append(measured(Path(directory), chosen.profile, chosen.documents, shards))
    publish(figures, chosen.json)


if __name__ == "__main__":
    main()
