"""The database of a store, behind the store's back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from streams.store.rocksdb_store import (
    MIB,
    RocksStore,
    StoreSettings,
    block_cache,
    store_options,
    write_options,
)
from streams.store.row_codec import ENTRY_TAG, after


@contextmanager
def raw_store(path: Path) -> Iterator[RocksStore]:
    """The database at ``path``, made where there is none."""
    path.mkdir(parents=True, exist_ok=True)
    options = store_options(StoreSettings(), block_cache(MIB), create=True)
    with closing(RocksStore(path, options, write_options(StoreSettings()))) as store:
        yield store


def write_raw(path: Path, rows: dict[bytes, bytes]) -> None:
    with raw_store(path) as store:
        batch = store.batch()
        entries = {key: value for key, value in rows.items() if key[:1] == ENTRY_TAG}
        batch.put_entries(entries.keys(), entries.values())
        for key in rows.keys() - entries.keys():
            batch.put(key, rows[key])
        batch.write()


def read_raw(path: Path) -> dict[bytes, bytes]:
    end = after(ENTRY_TAG)
    ranges = [(b"\x00", ENTRY_TAG), (ENTRY_TAG, end), (end, b"\xff")]
    with raw_store(path) as store:
        return {
            key: value
            for each in ranges
            for rows in store.scan(*each, 1000)
            for key, value in zip(*rows, strict=True)
        }
