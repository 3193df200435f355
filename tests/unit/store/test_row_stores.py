"""Databases of rows: RocksDB with our options, and one in memory with the same behaviour."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rocksdict import Options

from streams.store import rocksdb_store
from streams.store.rocksdb_store import MIB, RocksStore, block_cache, store_options
from streams.store.row_codec import ENTRIES, content_key
from streams.store.row_store import (
    RowStore,
    StoreClosedError,
    StoreCorruptError,
    StoreDisk,
    StoreLockedError,
    StoreMissingError,
    each_row,
)
from streams.store.shard_directory import RocksDisk
from tests.rigs.memory_rows import MemoryDisk
from tests.unit.store.samples import fingerprints_in, new_entries, open_store, progress_at, sample

ALL_ENTRIES = ENTRIES.bounds
OTHERS = b"a", b"e"

Step = tuple[str, list[tuple[bytes, bytes]]]
keys = st.integers(0, 5).map(lambda number: bytes((number,)))
rows = st.lists(st.tuples(keys, st.binary(max_size=2)), max_size=4)
kinds = st.sampled_from(["put", "delete", "put_entries", "delete_entry", "delete_entries"])
steps = st.lists(st.tuples(kinds, rows), max_size=6)


@pytest.fixture(params=["RocksDB", "memory"])
def disk(request: pytest.FixtureRequest) -> StoreDisk:
    return MemoryDisk() if request.param == "memory" else RocksDisk(block_cache(MIB))


@pytest.fixture
def store(disk: StoreDisk, tmp_path: Path) -> Iterator[RowStore]:
    with closing(disk.open(tmp_path / "shard-3", create=True)) as opened:
        yield opened


def all_rows(store: RowStore, lower: bytes, upper: bytes) -> list[tuple[bytes, bytes]]:
    return [*each_row(store, (lower, upper))]


def put(store: RowStore, *numbers: int) -> None:
    batch = store.batch()
    batch.put_entries([ENTRIES.key(each) for each in numbers], [b"entry"] * len(numbers))
    for each in numbers:
        batch.put(b"c" + bytes((each,)), b"content")
    batch.write()


def test_rows_come_in_order_and_in_parts(store: RowStore) -> None:
    put(store, 3, 1, 2, 9, 7)
    assert [len(keys) for keys, _ in store.scan(*ALL_ENTRIES, 2)] == [2, 2, 1]
    between = [key for key, _ in all_rows(store, ENTRIES.key(2), ENTRIES.key(9))]
    assert between == [ENTRIES.key(2), ENTRIES.key(3), ENTRIES.key(7)]
    assert all_rows(store, ENTRIES.key(4), ENTRIES.key(7)) == []
    assert store.last_key_between(*ALL_ENTRIES) == ENTRIES.key(9)
    assert store.last_key_between(ENTRIES.key(0), ENTRIES.key(9)) == ENTRIES.key(7)
    assert store.last_key_between(ENTRIES.key(4), ENTRIES.key(7)) is None


def test_values_of_many_keys_come_in_step(store: RowStore) -> None:
    put(store, 1, 3)
    assert store.get_all([]) == []
    assert store.get_all([b"c\x03", b"c\x02", b"c\x01"]) == [b"content", None, b"content"]
    assert store.get_all([ENTRIES.key(2), ENTRIES.key(3)]) == [None, b"entry"]
    assert store.get(ENTRIES.key(2)) is None
    assert store.get(ENTRIES.key(3)) == b"entry"


def test_scan_does_not_see_what_is_written_meanwhile(store: RowStore) -> None:
    put(store, 1, 2, 3, 4)
    scan = store.scan(*ALL_ENTRIES, 1)
    found = [next(scan)]
    batch = store.batch()
    batch.delete_entries(ENTRIES.key(1), ENTRIES.key(4))
    batch.put_entries([ENTRIES.key(4), ENTRIES.key(5)], [b"changed", b"new"])
    assert [key for key, _ in all_rows(store, *ALL_ENTRIES)] == [*map(ENTRIES.key, range(1, 5))]
    batch.write()
    found.extend(scan)
    assert found == [([ENTRIES.key(each)], [b"entry"]) for each in (1, 2, 3, 4)]
    assert all_rows(store, *ALL_ENTRIES) == [(ENTRIES.key(4), b"changed"), (ENTRIES.key(5), b"new")]


def test_database_is_locked_until_closed_then_discarded(disk: StoreDisk, tmp_path: Path) -> None:
    path = tmp_path / "shard-3"
    with pytest.raises(StoreMissingError):
        disk.open(path, create=False)
    assert not disk.holds(path)
    store = disk.open(path, create=True)
    put(store, 1)
    with pytest.raises(StoreLockedError):
        disk.open(path, create=True)
    store.close()
    store.close()
    assert store.closed
    assert disk.holds(path)
    with closing(disk.open(path, create=False)) as again:
        assert again.get(ENTRIES.key(1)) == b"entry"
        assert again.path == path
        assert again.number("rocksdb.no-such-figure") == 0
    disk.discard(path)
    disk.discard(path)
    assert not disk.holds(path)


def test_closed_database_refuses_each_use(store: RowStore) -> None:
    put(store, 1, 2, 3)
    batch = store.batch()
    batch.put(b"c", b"1")
    scan = store.scan(*ALL_ENTRIES, 1)
    next(scan)
    store.close()
    uses: list[Callable[[], object]] = [
        lambda: store.get(b"c"),
        lambda: store.get_all([b"c"]),
        lambda: list(store.scan(*ALL_ENTRIES, 1)),
        lambda: store.last_key_between(*ALL_ENTRIES),
        lambda: store.number("rocksdb.block-cache-usage"),
        lambda: next(scan),
        batch.write,
    ]
    for use in uses:
        with pytest.raises(StoreClosedError):
            use()


def work_on(store: RowStore, start: threading.Barrier, work: Callable[[RowStore], object]) -> None:
    start.wait(30)
    while True:
        work(store)


def test_close_ends_the_work_of_other_threads(disk: StoreDisk, tmp_path: Path) -> None:
    work: list[Callable[[RowStore], object]] = [
        lambda store: all_rows(store, *ALL_ENTRIES),
        lambda store: [store.get(ENTRIES.key(each)) for each in range(200)],
        lambda store: put(store, 7),
    ]
    for number in range(5):
        store = disk.open(tmp_path / "shard-3", create=True)
        put(store, *range(200))
        started = threading.Barrier(len(work) + 1)
        with ThreadPoolExecutor() as threads:
            ended = [threads.submit(work_on, store, started, each) for each in work]
            started.wait(30)
            if number % 2:
                all_rows(store, *ALL_ENTRIES)  # so that the other readers have read further
            store.close()
            assert [type(each.exception(30)) for each in ended] == [StoreClosedError] * len(work)
        del ended  # it holds the frames of the errors


def test_damaged_database_is_refused_until_discarded(disk: StoreDisk, tmp_path: Path) -> None:
    path = tmp_path / "shard-3"
    with closing(disk.open(path, create=True)) as store:
        put(store, 1)
        error = store.damaged("a row is missing")
    assert isinstance(error, StoreCorruptError)
    assert str(path) in str(error)
    assert "a row is missing" in str(error)
    with pytest.raises(StoreCorruptError):
        disk.holds(path)
    disk.discard(path)
    with closing(disk.open(path, create=True)) as store:
        assert store.get(ENTRIES.key(1)) is None


@given(batches=st.lists(steps, max_size=4))
def test_any_batches_have_the_same_effect_on_both_kinds(
    batches: list[list[Step]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("same")
    with (
        closing(RocksDisk(block_cache(MIB)).open(path, create=True)) as rocks,
        closing(MemoryDisk().open(path, create=True)) as memory,
    ):
        for batch in batches:
            for store in (rocks, memory):
                _apply(store, batch)
            for bounds in (ALL_ENTRIES, OTHERS):
                assert all_rows(rocks, *bounds) == all_rows(memory, *bounds)
                assert rocks.last_key_between(*bounds) == memory.last_key_between(*bounds)


def _apply(store: RowStore, steps: list[Step]) -> None:
    batch = store.batch()
    for kind, found in steps:
        entries = [ENTRIES.key(key[0]) for key, _ in found]
        if kind == "put_entries":
            batch.put_entries(entries, [value for _, value in found])
        elif kind == "delete_entries" and entries:
            batch.delete_entries(min(entries), max(entries))
        for entry, (key, value) in zip(entries, found, strict=True):
            if kind == "put":
                batch.put(b"c" + key, value)
            elif kind == "delete":
                batch.delete(b"c" + key)
            elif kind == "delete_entry":
                batch.delete(entry)
    batch.write()


def counted(options: Options, name: str) -> int:
    statistics = options.get_statistics() or ""
    found = re.search(rf"^{re.escape(name)} COUNT : (\d+)", statistics, re.MULTILINE)
    assert found, name
    return int(found[1])


@pytest.fixture
def counters(monkeypatch: pytest.MonkeyPatch) -> Options:
    """Return RocksDB's options with its own counters; the next database uses them."""
    options = store_options(block_cache(8 * MIB), MIB, create=True)
    options.enable_statistics()
    monkeypatch.setattr(rocksdb_store, "store_options", lambda *_, **__: options)
    return options


def key_of(content: int) -> bytes:
    return content_key(content.to_bytes(16, "big"))


def test_bloom_filters_answer_for_new_contents_after_reopening(
    tmp_path: Path, counters: Options
) -> None:
    with closing(RocksStore(tmp_path, block_cache(MIB))) as store:
        batch = store.batch()
        for value in range(0, 65536, 16):
            batch.put(key_of(value), bytes(512))
        batch.write()
    with closing(RocksStore(tmp_path, block_cache(MIB))) as store:
        absent = [key_of(value) for value in range(1, 16000, 16)]
        assert not any(store.get(key) for key in absent)
        assert all(store.get(key_of(value)) for value in range(0, 1600, 16))
    assert counted(counters, "rocksdb.bloom.filter.useful") > 0.9 * len(absent)


def test_shards_share_one_cache(tmp_path: Path) -> None:
    cache = block_cache(2 * MIB)
    used = [cache.get_usage()]
    for name in ("a", "b"):
        with closing(open_store(tmp_path / name)) as store:
            store.commit([new_entries(0, [sample(n) for n in range(4000)])], progress_at(1))
    with ExitStack() as stores:
        for name in ("a", "b"):
            store = stores.enter_context(closing(open_store(tmp_path / name, cache=cache)))
            store.entries(list(fingerprints_in(store)))
            used.append(cache.get_usage())
    assert used[0] < used[1] < used[2] <= 2 * MIB
