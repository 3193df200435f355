"""Records of a worker that no longer has the shard do not count, at any position."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Final, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from simhash_core.log.records import Progress, sequence_number
from simhash_core.log.shard_stream import NewEntries
from streams.store import changelog_codec
from streams.store.changelog_codec import (
    WRITER_BYTES,
    ChangelogRecord,
    Decoded,
    LoggedEnd,
    LoggedProgress,
    Written,
    encode_block,
    encode_deletions,
    encode_end,
    encode_progress,
)
from streams.store.entry_batch import StoreChange, records_of
from streams.store.recovery import load_batch
from streams.store.row_codec import StoredProgress, entry_block
from streams.store.shard_store import ShardStore
from tests.unit.store.samples import (
    CHAIN,
    INDEX,
    READING,
    batch_of,
    memory_store,
    new_entries,
    sample,
)

WRITER: Final = b"writer-1"
OTHER: Final = b"writer-2"
PACKET: Final = new_entries(7, [sample(5), sample(6)])
FIRST: Final = sequence_number(7, 0)


def decoded_at(offset: int, *records: ChangelogRecord) -> Decoded:
    return batch_of(records, range(offset, offset + len(records))).decoded()


# ---- one record


def test_entries_count_only_where_their_writer_expects_them() -> None:
    record = encode_block(entry_block(PACKET), WRITER, 9)
    in_place, late = decoded_at(9, record), decoded_at(10, record)
    assert in_place.blocks[0].sequences.tolist() == PACKET.sequences.tolist()
    assert (in_place.written, in_place.late) == ([Written(FIRST, WRITER, b"e")], [])
    assert (late.blocks, late.written, late.late) == ([], [], [record.key])


def test_progress_elsewhere_says_the_one_before() -> None:
    now, before = Progress(CHAIN, 50, 9, 8), Progress(CHAIN, 40, 7, 6)
    logged = LoggedProgress(now, INDEX, READING, "w", 3, leader_epoch=7)
    record = encode_progress(logged, 9, before, 6)
    assert decoded_at(9, record).progress == [logged]
    assert decoded_at(10, record).progress == [replace(logged, progress=before, leader_epoch=6)]


def test_writers_have_keys_of_their_own_for_entries_and_deletions() -> None:
    block = entry_block(PACKET)
    keys = {
        record.key
        for writer in (b"", WRITER, OTHER)
        for record in (
            encode_block(block, writer),
            encode_deletions(changelog_codec.LoggedDeletions(FIRST, [FIRST]), writer),
        )
    }
    assert len(keys) == 6
    ends = decoded_at(0, *encode_end(FIRST, WRITER)).ends
    assert ends == [LoggedEnd(FIRST, WRITER)] * 2


# ---- many workers on one shard
#
# The log is fixed: each raw offset is a document, and some also delete an earlier one. All workers
# do the same from the progress that they found. A worker starts again if its records are not at the
# expected offsets. Records arrive one by one, from all workers in turn; workers do not learn of
# some of them, and compaction comes at any moment.

DOCUMENTS: Final = 24
_ROWS: Final = 4  # documents of a packet


class Log:
    def __init__(self, rng: random.Random) -> None:
        self.deleted_at: dict[int, list[int]] = defaultdict(list)
        for raw in range(DOCUMENTS):
            for other in range(raw):
                if rng.random() < 0.15 and other not in self.gone(raw + 1):
                    self.deleted_at[raw].append(other)

    def gone(self, before: int) -> set[int]:
        return {
            each for raw, deleted in self.deleted_at.items() if raw < before for each in deleted
        }

    def left(self) -> set[int]:
        return {sequence_of(raw) for raw in set(range(DOCUMENTS)) - self.gone(DOCUMENTS)}


def sequence_of(raw: int) -> int:
    return sequence_number(1 + raw // _ROWS, raw % _ROWS)


def entries_of(first: int, end: int, without: set[int]) -> Iterator[NewEntries]:
    for packet in range(first // _ROWS, (end + _ROWS - 1) // _ROWS):
        raws = range(packet * _ROWS, (packet + 1) * _ROWS)
        rows = [row for row, raw in enumerate(raws) if first <= raw < end and raw not in without]
        if rows:
            yield new_entries(1 + packet, [sample(raw) for raw in raws], rows)


class Stored(NamedTuple):
    offset: int
    record: ChangelogRecord


class Partition:
    def __init__(self) -> None:
        self.end = 0
        self.records: list[Stored] = []

    def append(self, record: ChangelogRecord) -> None:
        self.records.append(Stored(self.end, record))
        self.end += 1

    def compact(self, end: int, keeps: Callable[[], bool] = lambda: True) -> None:
        """Keep the last record of each key before an offset; ``keeps`` decides on tombstones."""
        last = {each.record.key: each.offset for each in self.records if each.offset < end}
        self.records = [
            each
            for each in self.records
            if each.offset >= end
            or (last[each.record.key] == each.offset and (each.record.value or keeps()))
        ]

    def read(self, store: ShardStore, size: int) -> None:
        unread = [each for each in self.records if each.offset >= store.changelog_offset]
        for first in range(0, len(unread), size):
            part = unread[first : first + size]
            batch = batch_of([each.record for each in part], [each.offset for each in part])
            load_batch(store, batch, batch.decoded(), INDEX)
        store.read_to(self.end)


class Worker:
    def __init__(self, log: Log, partition: Partition, rng: random.Random) -> None:
        self._log, self._partition, self._rng = log, partition, rng
        self._store: ShardStore | None = None
        self._change: StoreChange | None = None
        self._unsent: list[ChangelogRecord] = []
        self._next = self._after = 0
        self._last = self._wanted = -1
        self._is_open = False
        self.is_done = False

    def step(self) -> None:
        if self._unsent:
            self._last = self._partition.end
            self._partition.append(self._unsent.pop(0))
        elif self._change is not None:
            self._answered(self._change)
        else:
            self._begin()

    def reopen(self) -> None:
        """Start from the changelog; the rest of a half-sent commit may never be sent."""
        self._unsent, self._change = [], None
        self._is_open = self.is_done = False
        if self._rng.random() < 0.5:
            self._store = None

    def _opened(self) -> ShardStore:
        if self._store is None:
            self._store = memory_store()
        self._partition.read(self._store, self._rng.randint(1, 20))
        self._store.write_at(self._rng.randbytes(WRITER_BYTES), self._partition.end)
        stored = self._store.progress()
        self._next = 0 if stored is None else stored.progress.next
        self._is_open = True
        return self._store

    def _begin(self) -> None:
        store = self._store if self._is_open and self._store is not None else self._opened()
        is_new = store.progress() is None  # then, as in workers, the first commit only says so
        more = 0 if is_new else self._rng.randint(1, 6)
        self._after = after = min(DOCUMENTS, self._next + more)
        self.is_done = self._next == DOCUMENTS
        gone = self._log.gone(after)
        removed = [sequence_of(each) for each in sorted(gone)]
        entries = [*entries_of(self._next, after, gone)]
        self._change = change = store.change(entries, removed)
        records = records_of(change)
        offset = change.place.after(len(records))
        before = change.place.before or self._progress(after)
        logged = LoggedProgress(self._progress(after), INDEX, READING, "w")
        self._unsent = [*records, encode_progress(logged, offset, before)]
        self._wanted = offset

    def _answered(self, change: StoreChange) -> None:
        self._change = None
        if self._last != self._wanted:
            self._is_open = False
            self.is_done = False
            return
        assert self._store is not None
        self._next = self._after
        progress = self._progress(self._next)
        self._store.write(change, StoredProgress(progress, self._last + 1, 1, INDEX, READING))

    def _progress(self, following: int) -> Progress:
        return Progress(CHAIN, following, 1 + following // _ROWS, 0)


def entries_in(partition: Partition) -> set[int]:
    with closing(memory_store()) as store:
        partition.read(store, 7)
        return {sequence for sequence, _ in store.all_entries()}


def run(seed: int) -> tuple[set[int], Sequence[set[int]]]:
    """Return the expected entries, and those that new readers find."""
    rng = random.Random(seed)
    log, partition = Log(rng), Partition()
    workers = [Worker(log, partition, rng) for _ in range(rng.randint(2, 3))]
    for _ in range(rng.randint(20, 200)):
        worker = rng.choice(workers)
        if rng.random() < 0.05:
            worker.reopen()
        worker.step()
        if rng.random() < 0.1:
            partition.compact(rng.randint(0, partition.end))
    owner, others = workers[0], workers[1:]
    while not owner.is_done:
        owner.step()
    for worker in others:  # records in flight
        while worker._unsent:
            worker.step()
    found = [entries_in(partition)]
    partition.compact(rng.randint(0, partition.end), lambda: rng.random() < 0.5)
    found.append(entries_in(partition))
    partition.compact(partition.end, lambda: False)
    found.append(entries_in(partition))
    return log.left(), found


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1 << 32))
def test_readers_find_what_the_log_says_after_any_interleaving(seed: int) -> None:
    wanted, found = run(seed)
    assert all(each == wanted for each in found)


@pytest.mark.parametrize("rule", ["place", "writer"])
def test_without_a_rule_readers_find_something_else(
    rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if rule == "place":
        monkeypatch.setattr(changelog_codec, "counts", lambda *_: True)
    else:
        monkeypatch.setattr(Worker, "_opened", with_one_writer(Worker._opened))

    def holds(seed: int) -> bool:
        wanted, found = run(seed)
        return all(each == wanted for each in found)

    assert not all(map(holds, range(300)))


def with_one_writer(opened: Callable[[Worker], ShardStore]) -> Callable[[Worker], ShardStore]:
    def with_it(self: Worker) -> ShardStore:
        store = opened(self)
        store.write_at(WRITER, 0)
        return store

    return with_it
