"""What the store of a shard keeps, and what it says of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from simhash_core.documents import Entry
from simhash_core.log.records import Chain, Progress
from simhash_core.log.shard_stream import NewEntries
from streams.store.changelog_codec import ENTRIES_TAG, ChangelogRecord, decode_records
from streams.store.entry_batch import Removal, records_of
from streams.store.row_codec import ProgressRow, StoredProgress, entry_block
from streams.store.shard_directory import open_shard
from streams.store.shard_store import ShardStore
from tests.rigs.memory_rows import MemoryDisk
from tests.unit.store.samples import (
    BITS,
    IDENTITY,
    expected,
    fingerprints_in,
    fingerprints_of,
    new_entries,
    open_store,
    packet_of,
    progress_at,
    sample,
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ShardStore]:
    with closing(open_store(tmp_path / "shard-3")) as opened:
        yield opened


def all_in(store: ShardStore) -> dict[int, Entry]:
    return dict(store.all_entries())


def test_new_store_is_empty(store: ShardStore) -> None:
    assert len(store) == 0
    assert store.progress() is None
    assert store.changelog_offset == 0
    assert fingerprints_in(store) == {}
    assert store.by_content(bytes(16)) == []
    with pytest.raises(KeyError):
        store.entries([0])


def reopened(store: ShardStore) -> ShardStore:
    store.close()
    return open_store(store.path)


COMMITS = {
    "duplicates left out": [
        new_entries(7, [sample(n, sketch=bytes(range(n))) for n in range(5)], [0, 2, 4]),
        new_entries(9, [sample(10), sample(11, undecidable=True)]),
    ],
    "undecidable ones": [
        new_entries(7, [sample(n, undecidable=n % 3 == 0) for n in range(10)]),
        new_entries(8, [sample(20)]),
    ],
    "other raw partitions": [
        NewEntries(0, packet_of([sample(0)], Chain("原文", "", 0)), np.arange(1)),
        NewEntries(1, packet_of([sample(1)], Chain("/a file.jsonl", "", 2**31 - 1)), np.arange(1)),
        new_entries(2, [sample(2)]),
        new_entries(9, [sample(9)]),
    ],
    "highest sequence numbers": [
        new_entries(at, [sample(1), sample(2)]) for at in (0, 2**40, 2**48 - 1)
    ],
    "extreme values": [
        new_entries(
            1,
            [
                sample(0)._replace(document_id="x" * 4096, time_ms=-5),
                sample(1)._replace(document_id="\x00 “文” 🌧 \n", sketch=bytes(70_000)),
                sample(2)._replace(document_id="", time_ms=2**63 - 1),
                sample(3)._replace(offset=2**63 - 1, time_ms=-(2**63)),
            ],
        )
    ],
}


@pytest.mark.parametrize("commits", COMMITS.values(), ids=COMMITS.keys())
def test_entries_come_back_as_they_were(store: ShardStore, commits: list[NewEntries]) -> None:
    wanted: dict[int, Entry] = {}
    for part in (commits[:-1], commits[-1:], []):
        store.commit(part, progress_at(12))
        wanted |= expected(part)
        assert all_in(store) == wanted
        sequences = sorted(wanted, reverse=True)
        assert store.entries(sequences) == [wanted[each] for each in sequences]
        assert len(store) == len(wanted)
        assert store.progress() == progress_at(12)
        assert list(fingerprints_in(store).items()) == sorted(fingerprints_of(wanted).items())
        for numbers, prints in store.prints():
            assert numbers.dtype == prints.fingerprints.dtype == np.dtype(np.uint64)
            assert prints.fingerprints.shape == (len(numbers), 1)
        store = reopened(store)
    store.close()


def test_fingerprints_come_in_parts_of_a_bounded_size(store: ShardStore) -> None:
    for first in range(0, 80_000, 20_000):
        samples = [sample(n) for n in range(first, first + 20_000)]
        store.commit([new_entries(first, samples)], progress_at(first))
    parts = [len(sequences) for sequences, _ in store.prints()]
    assert sum(parts) == len(store) == 80_000
    assert len(parts) > 1
    assert max(parts) <= 65_536


def test_entries_that_come_again_are_left_out(store: ShardStore) -> None:
    """As after a crash without transactions: each is kept once, as it was first."""
    samples = [sample(n) for n in range(4)]
    store.commit([new_entries(7, samples, [0, 1])], progress_at(2))
    store.commit([new_entries(7, samples, [0, 1, 2])], progress_at(3))
    changed = [each._replace(document_id="other") for each in samples]
    store.commit([new_entries(7, changed), new_entries(7, changed)], progress_at(4))
    store.commit([new_entries(6, [sample(90)])], progress_at(4))

    first, last = new_entries(7, samples, [0, 1, 2]), new_entries(7, changed, [3])
    assert all_in(store) == expected([first, last, new_entries(6, [sample(90)])])
    assert len(store) == 5
    with closing(reopened(store)) as again:
        assert len(again) == 5


def test_last_progress_without_entries_is_kept(store: ShardStore) -> None:
    chain = Chain("t", "id", 3)
    last = StoredProgress(Progress(chain, 5, 9, 8), 77, 1, "identity", "reading", b"\x00run")
    store.commit([], progress_at(1))
    store.commit([], last)
    assert store.progress() == last
    assert store.changelog_offset == 77
    with closing(reopened(store)) as again:
        assert again.progress() == last


def test_recovery_before_any_progress_keeps_its_place(store: ShardStore) -> None:
    store.load([entry_block(new_entries(1, [sample(1)]))], ProgressRow(None, 40, 9))
    assert store.progress() is None
    assert store.changelog_offset == 40
    with closing(reopened(store)) as again:
        assert again.progress() is None
        assert (again.changelog_offset, len(again)) == (40, 1)


def test_closing_twice_is_harmless(store: ShardStore) -> None:
    store.close()
    store.close()
    assert store.closed


@pytest.mark.parametrize(("rows", "steps_wanted"), [(1, 4), (3, 4), (4, 4), (7, 4), (1000, 1)])
def test_what_expires_leaves_in_steps_of_whole_packets(
    store: ShardStore, monkeypatch: pytest.MonkeyPatch, rows: int, steps_wanted: int
) -> None:
    """Tombstones of their records leave with them; a larger packet goes at once."""
    monkeypatch.setattr("streams.store.entry_batch.EXPIRED_ROWS", rows)
    packets = [
        new_entries(at, [sample(100 * at + n, undecidable=n == 0) for n in range(5)])
        for at in range(2, 8)
    ]
    store.commit(packets, progress_at(1))
    ends: list[int] = []
    steps = 0
    while store.expired_before < 6 << 16:
        change = store.change([], (), 6 << 16)
        assert change.expiry is not None
        ends += [end.first for end in change.expiry.ends]
        before = len(store)
        store.write(change, progress_at(2))
        steps += 1
        assert before - len(store) == change.expired
        assert len(store) % 5 == 0

    assert ends == [packet << 16 for packet in range(2, 6)]
    assert steps == steps_wanted
    assert set(all_in(store)) == set(expected(packets[4:]))
    assert store.by_content(sample(200).digest) == []
    assert store.by_content(sample(600).digest) == [6 << 16]
    assert store.change([], (), 6 << 16).expiry is None


HALVES = [new_entries(5, [sample(n) for n in range(4)], rows) for rows in ([0, 1], [2, 3])]


def committed(
    store: ShardStore, *commits: tuple[list[NewEntries], list[int]]
) -> list[ChangelogRecord]:
    """Commit new entries and deletions, and return what the changelog gets of them."""
    records: list[ChangelogRecord] = []
    for parts, removed in commits:
        change = store.change(parts, removed)
        store.write(change, progress_at(1))
        records += records_of(change)
    return records


def loaded(path: Path, records: list[ChangelogRecord]) -> ShardStore:
    """A new store that has read these records at one time."""
    store = open_store(path)
    decoded = decode_records([each.key for each in records], [each.value for each in records], str)
    store.load(decoded.blocks, ProgressRow(None, 9), Removal(decoded.deletions, decoded.ends))
    return store


def test_all_records_of_a_packet_end_with_its_entries(store: ShardStore, tmp_path: Path) -> None:
    """A packet in two records, the first deleted: once the rest is deleted too, both end."""
    first, second = HALVES
    records = committed(store, ([first], []), ([second], []), ([], [*expected([first])]))
    with closing(loaded(tmp_path / "again", records)) as again:
        change = again.change([], [*expected([second])])
        entries = {each.key for each in records if each.key.startswith(ENTRIES_TAG)}
        assert {each.key for each in records_of(change) if each.value is None} >= entries
        assert len(entries) == 2


def test_packet_keeps_later_entries_after_a_deletion(store: ShardStore, tmp_path: Path) -> None:
    first, second = HALVES
    records = committed(store, ([first], []), ([], [*expected([first])]), ([second], []))
    with closing(loaded(tmp_path / "again", records)) as again:
        assert all_in(again) == all_in(store) == expected([second])
        assert len(again) == 2


def test_ids_are_made_in_slices_that_a_kill_does_not_undo(tmp_path: Path) -> None:
    """Commits in between bring, delete and expire entries; all ids are found in the end."""
    disk = MemoryDisk()
    store = open_shard(tmp_path, IDENTITY, BITS, disk)
    packets = [new_entries(at, [sample(7 * at + n) for n in range(7)]) for at in range(9)]
    store.commit(packets[:6], progress_at(1))
    calls = 0
    while not store.make_ids(5):
        calls += 1
        assert not store.ids_ready
        if calls == 2:
            store.commit(packets[6:8], progress_at(2), [1, 3 << 16 | 2], expired_before=1 << 16)
        disk.kill()
        store = open_shard(tmp_path, IDENTITY, BITS, disk)
    assert store.ids_ready
    store.commit(packets[8:], progress_at(3), [4 << 16 | 1])

    assert calls == 8 * 7 // 5  # the expired packet was made by then
    left = {*expected(packets[1:])} - {3 << 16 | 2, 4 << 16 | 1}
    ids = [sample(n).document_id.encode() for n in range(63)]
    assert store.by_ids(ids) == [
        [sequence] * (sequence in left) for sequence in (n // 7 << 16 | n % 7 for n in range(63))
    ]
    store.close()
