"""The options are in effect, as RocksDB itself counts them, for a store that is reopened too."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

import pytest
from rocksdict import Options, WriteBatch

from simhash_core.blocks import Bucket
from streams.rocksdb_options import MIB, StoreSettings, block_cache, store_options, write_options
from streams.rocksdb_store import RocksStore
from streams.state_codec import bucket_prefix, bucket_prefix_length
from tests.block_table.samples import ALL_BUCKETS, open_store, put

BLOCK_BITS = 16


def counted(options: Options, name: str) -> int:
    """How often RocksDB has counted ``name``."""
    statistics = options.get_statistics() or ""
    found = re.search(rf"^{re.escape(name)} COUNT : (\d+)", statistics, re.MULTILINE)
    assert found, name
    return int(found[1])


def counting_options(settings: StoreSettings) -> Options:
    """The options of a store, and RocksDB's own counters."""
    options = store_options(
        settings, block_cache(8 * MIB), bucket_prefix_length(BLOCK_BITS), create=True
    )
    options.enable_statistics()
    return options


def bucket_of(block: int, value: int) -> Bucket:
    """A bucket's name."""
    return Bucket(bytes((block,)) + value.to_bytes(2, "big"))


def test_filters_answer_for_empty_buckets(tmp_path: Path) -> None:
    """Given files with rows in few buckets, when empty ones are looked up, then nearly none of
    them reads a block: the Bloom filters over prefixes answer. And so it is after reopening.
    """
    options = counting_options(StoreSettings(write_buffer_bytes=MIB))
    with closing(RocksStore(tmp_path, options, write_options(StoreSettings()))) as store:
        batch = WriteBatch(raw_mode=True)
        for value in range(0, 65536, 16):
            batch.put(bucket_prefix(bucket_of(0, value)) + bytes(8), bytes(512))
        store.write(batch)
    options = counting_options(StoreSettings())
    with closing(RocksStore(tmp_path, options, write_options(StoreSettings()))) as store:
        empty = [bucket_prefix(bucket_of(0, value)) for value in range(1, 16000, 16)]
        assert store.rows_of(empty) == ([], [])
        met = [bucket_prefix(bucket_of(0, value)) for value in range(0, 1600, 16)]
        assert len(store.rows_of(met)[0]) == len(met)

    levels = ("non.last", "last")
    filtered = sum(counted(options, f"rocksdb.{level}.level.seek.filtered") for level in levels)
    assert filtered > 0.9 * len(empty)


def test_without_sync_no_commit_waits_for_the_disk_and_with_it_each_does(tmp_path: Path) -> None:
    """Given both settings, when commits are written, then RocksDB synchronises its log as often
    as they say.
    """
    for sync, expected in ((False, 0), (True, 5)):
        settings = StoreSettings(sync=sync)
        options = counting_options(settings)
        path = tmp_path / str(sync)
        path.mkdir()
        with closing(RocksStore(path, options, write_options(settings))) as store:
            for number in range(5):
                batch = WriteBatch(raw_mode=True)
                batch.put(bytes((number,)), b"")
                store.write(batch)
            assert counted(options, "rocksdb.wal.synced") == expected


@pytest.mark.parametrize("sync", [False, True])
def test_a_table_with_either_setting(tmp_path: Path, *, sync: bool) -> None:
    """Given either setting, then a commit is there after closing."""
    settings = StoreSettings(sync=sync)
    with closing(open_store(tmp_path / "s", settings=settings)) as table:
        table.commit([put(0, 1, 2, 3, 4)])
    with closing(open_store(tmp_path / "s", settings=settings)) as table:
        assert len(table) == 1


def test_shards_share_one_cache(tmp_path: Path) -> None:
    """Given two tables with one cache, when each is read, then it holds blocks of both, and never
    more than it may.
    """
    cache = block_cache(2 * MIB)
    used = [cache.get_usage()]
    for name in ("a", "b"):
        with closing(open_store(tmp_path / name)) as table:
            table.commit([put(order, order % 16, order // 256) for order in range(4000)])
    tables = [open_store(tmp_path / name, cache=cache) for name in ("a", "b")]
    for table in tables:
        for bucket in ALL_BUCKETS:
            table.candidates([bucket])
        used.append(cache.get_usage())
        assert cache.get_usage() <= 2 * MIB
    for table in tables:
        table.close()

    assert used[0] < used[1] < used[2]
