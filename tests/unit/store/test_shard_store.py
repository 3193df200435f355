"""The store of a shard: what it keeps, and what it returns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from simhash_core.documents import Entry
from simhash_core.log.records import Chain
from simhash_core.log.shard_stream import NewEntries
from streams.store import shard_store
from streams.store.changelog_codec import ENTRIES_TAG, ChangelogRecord
from streams.store.entry_batch import (
    Removal,
    deletions_between,
    records_of,
    written_between,
)
from streams.store.row_codec import ProgressRow
from streams.store.row_store import SCANNED_ROWS
from streams.store.shard_directory import open_shard
from streams.store.shard_store import ShardStore
from tests.rigs.memory_rows import MemoryDisk
from tests.unit.store.samples import (
    BITS,
    IDENTITY,
    batch_of,
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
        last = replace(progress_at(12), run=b"\x00run")
        store.commit(part, last)
        wanted |= expected(part)
        assert dict(store.all_entries()) == wanted
        sequences = sorted(wanted, reverse=True)
        assert store.entries(sequences) == [wanted[each] for each in sequences]
        assert len(store) == len(wanted)
        assert store.progress() == last
        assert list(fingerprints_in(store).items()) == sorted(fingerprints_of(wanted).items())
        for numbers, prints in store.prints():
            assert numbers.dtype == prints.fingerprints.dtype == np.dtype(np.uint64)
            assert prints.fingerprints.shape == (len(numbers), 1)
        store.close()
        store = open_store(store.path)
    store.close()


def test_fingerprints_come_in_parts_of_a_bounded_size(
    store: ShardStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert SCANNED_ROWS * shard_store._JOINED_SCANS == 65_536
    monkeypatch.setattr(shard_store, "SCANNED_ROWS", 16)
    monkeypatch.setattr(shard_store, "_JOINED_SCANS", 2)
    store.commit([new_entries(0, [sample(n) for n in range(80)])], progress_at(1))
    assert [len(sequences) for sequences, _ in store.prints()] == [32, 32, 16]


@pytest.mark.parametrize(("rows", "steps_wanted"), [(1, 4), (3, 4), (4, 4), (7, 4), (1000, 1)])
def test_what_expires_leaves_in_steps_of_whole_packets(
    store: ShardStore, monkeypatch: pytest.MonkeyPatch, rows: int, steps_wanted: int
) -> None:
    """The tombstones of their records go with them; a larger packet goes in one step."""
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
    assert {each for each, _ in store.all_entries()} == set(expected(packets[4:]))
    assert store.by_content(sample(200).digest) == []
    assert store.by_content(sample(600).digest) == [6 << 16]
    assert store.change([], (), 6 << 16).expiry is None


def test_all_records_of_a_packet_end_with_its_entries(store: ShardStore, tmp_path: Path) -> None:
    """Of a packet in two records, the first was deleted; both end when the rest is deleted."""
    halves = [new_entries(5, [sample(n) for n in range(4)], rows) for rows in ([0, 1], [2, 3])]
    records: list[ChangelogRecord] = []
    commits: list[tuple[list[NewEntries], list[int]]] = [
        *((halves[:1], []), (halves[1:], [])),
        ([], [*expected(halves[:1])]),
    ]
    for parts, removed in commits:
        change = store.change(parts, removed)
        store.write(change, progress_at(1))
        records += records_of(change)
    decoded = batch_of(records, range(len(records))).decoded()
    with closing(open_store(tmp_path / "again")) as again:
        removal = Removal(decoded.deletions, decoded.ends)
        again.load(decoded.blocks, ProgressRow(None, 9), removal)
        change = again.change([], [*expected(halves[1:])])
    entries = {each.key for each in records if each.key.startswith(ENTRIES_TAG)}
    assert {each.key for each in records_of(change) if each.value is None} >= entries
    assert len(entries) == 2


def test_entries_deleted_in_the_commit_in_which_they_expire_leave_nothing(tmp_path: Path) -> None:
    """Another writer wrote them, so tombstones for its keys would not end a record of this one."""
    packet = new_entries(5, [sample(n) for n in range(4)])
    first, *_ = expected([packet])
    path, disk = tmp_path / "shard-3", MemoryDisk()
    with closing(open_shard(path, IDENTITY, BITS, disk)) as store:
        store.write_at(b"writer-1", 10)
        store.commit([packet], progress_at(1))
        store.write_at(b"writer-2", 20)
        change = store.change([], [first], 6 << 16)
        ended = {record.key for record in records_of(change) if record.value is None}
        assert {record.key for record in records_of(change)} == ended
        assert b"writer-1" in b"".join(ended)
        store.write(change, progress_at(2))
        assert len(store) == 0
    with closing(disk.open(path, create=False)) as rows:
        assert deletions_between(rows, 0, 6 << 16) == {}
        assert written_between(rows, 0, 6 << 16) == []
