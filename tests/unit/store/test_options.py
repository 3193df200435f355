"""The options are in effect, as RocksDB itself counts them, for a store that is reopened too."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

import pytest
from rocksdict import Options

from streams.store.rocksdb_store import (
    MIB,
    RocksStore,
    StoreSettings,
    block_cache,
    store_options,
    write_options,
)
from streams.store.row_codec import content_key
from tests.unit.store.samples import fingerprints_in, new_entries, open_store, progress_at, sample


def counted(options: Options, name: str) -> int:
    statistics = options.get_statistics() or ""
    found = re.search(rf"^{re.escape(name)} COUNT : (\d+)", statistics, re.MULTILINE)
    assert found, name
    return int(found[1])


def counting_options(settings: StoreSettings) -> Options:
    options = store_options(settings, block_cache(8 * MIB), create=True)
    options.enable_statistics()
    return options


def key_of(content: int) -> bytes:
    return content_key(content.to_bytes(16, "big"))


def test_bloom_filters_answer_for_new_contents_after_reopening(tmp_path: Path) -> None:
    options = counting_options(StoreSettings(write_buffer_bytes=MIB))
    with closing(RocksStore(tmp_path, options, write_options(StoreSettings()))) as store:
        batch = store.batch()
        for value in range(0, 65536, 16):
            batch.put(key_of(value), bytes(512))
        batch.write()
    options = counting_options(StoreSettings())
    with closing(RocksStore(tmp_path, options, write_options(StoreSettings()))) as store:
        absent = [key_of(value) for value in range(1, 16000, 16)]
        assert not any(store.get(key) for key in absent)
        assert all(store.get(key_of(value)) for value in range(0, 1600, 16))
    assert counted(options, "rocksdb.bloom.filter.useful") > 0.9 * len(absent)


def test_log_is_synchronised_as_the_setting_says(tmp_path: Path) -> None:
    for sync, expected in ((False, 0), (True, 5)):
        settings = StoreSettings(sync=sync)
        options = counting_options(settings)
        path = tmp_path / str(sync)
        path.mkdir()
        with closing(RocksStore(path, options, write_options(settings))) as store:
            for number in range(5):
                batch = store.batch()
                batch.put(bytes((number,)), b"")
                batch.write()
            assert counted(options, "rocksdb.wal.synced") == expected


@pytest.mark.parametrize("sync", [False, True])
def test_commit_is_there_after_closing_with_and_without_sync(tmp_path: Path, *, sync: bool) -> None:
    settings = StoreSettings(sync=sync)
    with closing(open_store(tmp_path / "s", settings=settings)) as store:
        store.commit([new_entries(0, [sample(0)])], progress_at(1))
    with closing(open_store(tmp_path / "s", settings=settings)) as store:
        assert len(store) == 1


def test_shards_share_one_cache(tmp_path: Path) -> None:
    cache = block_cache(2 * MIB)
    used = [cache.get_usage()]
    for name in ("a", "b"):
        with closing(open_store(tmp_path / name)) as store:
            store.commit([new_entries(0, [sample(n) for n in range(4000)])], progress_at(1))
    stores = []
    for name in ("a", "b"):
        store = open_store(tmp_path / name, cache=cache)
        stores.append(store)
        store.entries(list(fingerprints_in(store)))
        used.append(cache.get_usage())
        assert cache.get_usage() <= 2 * MIB
    for store in stores:
        store.close()

    assert used[0] < used[1] < used[2]
