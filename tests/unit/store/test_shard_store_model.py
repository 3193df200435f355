"""A store behaves as a dictionary of entries, for all operations and all faults of its disk.

The worker of the model commits, reads its changelog in batches that are interrupted, is killed,
gets an old copy of its store, and loses files of it. After each step, all rows that refer to
entries refer to existing ones, and every entry can be found. Once the changelog is read, the store
has the content of the commits, like a store that reads the whole changelog from the start.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import defaultdict
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from unittest.mock import patch

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from simhash_core.documents import Entry
from simhash_core.index.key_filter import KeyFilter
from simhash_core.log.shard_stream import NewEntries
from streams.store import entry_batch
from streams.store import row_codec as codec
from streams.store.changelog_codec import ChangelogRecord, LoggedProgress, encode_progress
from streams.store.entry_batch import records_of
from streams.store.recovery import load_batch
from streams.store.rocksdb_store import MIB, block_cache
from streams.store.row_store import StoreCorruptError, StoreDisk
from streams.store.shard_directory import RocksDisk, open_shard
from streams.store.shard_store import ShardStore
from tests.rigs.memory_rows import MemoryDisk
from tests.unit.store.samples import (
    BITS,
    IDENTITY,
    INDEX,
    READING,
    Sample,
    await_written,
    batch_of,
    expected,
    fingerprints_in,
    fingerprints_of,
    memory_store,
    new_entries,
    progress_at,
    sample,
)

EXPIRED_ROWS = 4  # so that expired entries leave in several commits
FAT_SKETCH = bytes(300_000)  # four fill a write buffer, which RocksDB then writes to files
ENTRIES_WITH_IDS = 2  # ids are looked up once there are more, so many runs make them in parts
CONTENTS = 4
IDS = 10

# Small ranges, so that packets, documents and contents repeat.
samples = st.builds(
    lambda offset, content, sketch, undecidable: sample(
        offset, undecidable=undecidable, sketch=sketch
    )._replace(digest=bytes((content,)) * 16),
    st.integers(0, IDS - 1),
    st.integers(0, CONTENTS - 1),
    st.binary(max_size=3),
    st.booleans(),
)
packets = st.lists(samples, min_size=1, max_size=4, unique_by=lambda each: each.offset).map(
    lambda found: sorted(found, key=lambda each: each.offset)
)
commits = st.lists(st.tuples(st.integers(0, 1), packets), max_size=3)

Commit = list[tuple[int, list[Sample]]]


def progress_record(following: int, expired_before: int) -> ChangelogRecord:
    progress = progress_at(following).progress
    return encode_progress(LoggedProgress(progress, INDEX, READING, "worker", expired_before))


class StoreModel(RuleBasedStateMachine):
    """Applies the same steps to a store in memory and to a dictionary."""

    def __init__(self, disk: StoreDisk | None = None) -> None:
        super().__init__()
        self.memory = MemoryDisk()
        self.copied = MemoryDisk()
        self.disk = disk or self.memory
        self.path = Path(tempfile.mkdtemp(prefix="firstseen-model-")) / "store"
        self.entries: dict[int, Entry] = {}  # by the changelog
        self.gone: set[int] = set()
        self.packets: dict[int, list[Sample]] = {}
        self.whole: set[int] = set()
        self.latest = 0
        self.records: list[ChangelogRecord] = []
        # The entries of each commit, and its records, which may be written again.
        self.written: list[tuple[list[int], list[ChangelogRecord]]] = []
        self.expired_before = 0
        self.following = 0
        self.has_copy = False
        self.is_late = self.may_be_older = False
        self.store = self.opened()

    def opened(self) -> ShardStore:
        """Open the store, or an empty one if it is damaged, as a worker does."""
        try:
            store = open_shard(self.path, IDENTITY, BITS, self.disk)
        except StoreCorruptError:
            self.disk.discard(self.path)
            store = open_shard(self.path, IDENTITY, BITS, self.disk)
        self.filter = KeyFilter()
        store.filter_by(self.filter.open())
        return store

    def killed(self, then: Callable[[], object] = lambda: None) -> None:
        """End the process, call ``then`` to change its disk, and open the store again."""
        self.kill_process()
        then()
        self.store = self.opened()

    # ---- the worker

    @rule(commit=commits, crashes=st.booleans())
    def commit(self, commit: Commit, *, crashes: bool) -> None:
        """A worker commits; it may be killed before its store has the commit."""
        self._commit(self._parts(commit), crashes=crashes)

    @rule(data=st.data(), commit=commits, crashes=st.booleans())
    def remove(self, data: st.DataObject, commit: Commit, *, crashes: bool) -> None:
        """A worker commits new entries, and deletes of existing and of other entries."""
        known = st.sampled_from(sorted(self.entries) or [7])
        removed = data.draw(st.lists(st.one_of(known, st.integers(0, 9)), max_size=5))
        new = self._parts(commit)
        removed = [each for each in removed if each not in expected(new) or each in self.entries]
        self._commit(new, removed, crashes=crashes)

    @rule(
        back=st.integers(0, 5),
        removed=st.lists(st.integers(0, 5 << 16 | 9), max_size=3),
        commits=st.integers(1, 4),
    )
    def expire(self, back: int, removed: list[int], commits: int) -> None:
        """A worker commits that all before a packet has expired, of which some is also deleted."""
        before = max(0, self.latest + 1 - back) << 16
        for _ in range(commits):
            self._commit([], [*removed, *sorted(self.entries)[:2]], before)

    @precondition(lambda self: len(self.entries) > ENTRIES_WITH_IDS)
    @rule(limit=st.integers(1, 2))
    def make_ids(self, limit: int) -> None:
        self.store.make_ids(limit)

    @rule(limit=st.integers(1, 3), steps=st.sampled_from([1, 99]))
    def note_keys(self, limit: int, steps: int) -> None:
        for _ in range(steps):
            self.store.note_keys(limit)

    # ---- recovery

    @rule(size=st.integers(1, 9), batches=st.integers(1, 3), is_compacted=st.booleans())
    def read_on(self, size: int, batches: int, *, is_compacted: bool) -> None:
        for _ in range(batches):
            self._load(self.store, size, is_compacted=is_compacted)

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = self.opened()

    @rule()
    def kill(self) -> None:
        self.killed()

    @rule(size=st.integers(1, 50), is_compacted=st.booleans())
    def rebuild(self, size: int, *, is_compacted: bool) -> None:
        self.store.close()
        self.disk.discard(self.path)
        self.store = self.opened()
        self._catch_up(size, is_compacted=is_compacted)

    # ---- the disk

    @rule()
    def set_aside(self) -> None:
        self.killed(self.copy_disk)
        self.has_copy = True

    @precondition(lambda self: self.has_copy)
    @rule()
    def put_back(self) -> None:
        self.killed(self.put_copy_back)

    @rule(data=st.data())
    def lose_files(self, data: st.DataObject) -> None:
        self.killed(lambda: self.lose_some(data))

    def kill_process(self) -> None:
        self.store.close()
        self.memory.kill()

    def copy_disk(self) -> None:
        self.copied = self.memory.copy()

    def put_copy_back(self) -> None:
        self.memory.put_back(self.copied)

    def lose_some(self, data: st.DataObject) -> None:
        first = data.draw(st.integers(1, 5), "first lost, from the end")
        self.memory.lose(self.path, first, data.draw(st.integers(0, first - 1), "kept at the end"))

    # ---- without transactions

    @precondition(lambda self: self.records)
    @rule()
    def commit_again(self) -> None:
        _, records = self.written[-1]
        self.records += records

    @rule(data=st.data(), back=st.integers(0, 5))
    def write_late(self, data: st.DataObject, back: int) -> None:
        """A worker that was paused writes entries and progress that others have already replaced.

        Then compaction keeps the older progress.
        """
        late = [each for each in self.written if each[0] and not self.gone & {*each[0]}]
        if not late:
            return
        _, records = data.draw(st.sampled_from(late))
        self.records += [each for each in records if each.key[:1] == b"e"]
        self.records.append(progress_record(max(0, self.following - back), self.expired_before))
        self.is_late = True

    # ---- what must hold

    @invariant()
    def rows_lead_to_entries(self) -> None:
        store = self.store
        by_content: dict[bytes, list[int]] = defaultdict(list)
        by_id: dict[bytes, list[int]] = defaultdict(list)
        entries = list(store.all_entries())
        for sequence, entry in entries:
            if not entry.fingerprint:
                by_content[codec.content_key(entry.content_digest)].append(sequence)
            if sequence < store._ids_before:
                by_id[codec.id_key(entry.document_id.encode())].append(sequence)
        for tag, wanted in ((codec.CONTENT_TAG, by_content), (codec.ID_TAG, by_id)):
            led = {
                key: codec.decode_numbers(value)
                for keys, values in store._store.scan(tag, codec.after(tag), 100)
                for key, value in zip(keys, values, strict=True)
            }
            assert led == wanted
            assert all([*self.filter.columns(key[1:])] for key in led)
        assert [*self.filter.columns(b"in none")] == ([] if store.keys_noted else [0])
        assert len(store) == len(entries)

    @invariant()
    def has_what_the_changelog_says(self) -> None:
        """A store that has read the whole changelog has the changelog's entries and progress."""
        if self.store.changelog_offset < len(self.records):
            return
        store = self.store
        assert dict(store.all_entries()) == self.entries
        assert fingerprints_in(store) == fingerprints_of(self.entries)
        stored = store.progress()
        reached = 0 if stored is None else stored.progress.next
        assert reached == self.following or (self.may_be_older and reached < self.following)
        for content in range(CONTENTS):
            digest = bytes((content,)) * 16
            assert store.by_content(digest) == sorted(
                sequence
                for sequence, entry in self.entries.items()
                if entry.content_digest == digest and not entry.fingerprint
            )

    @precondition(lambda self: len(self.entries) > ENTRIES_WITH_IDS)
    @rule(size=st.integers(1, 50))
    def look_up_ids(self, size: int) -> None:
        self._catch_up(size)
        ids = [sample(offset).document_id for offset in range(IDS)]
        assert self.store.by_ids([each.encode() for each in ids]) == [
            sorted(s for s, entry in self.entries.items() if entry.document_id == document_id)
            for document_id in ids
        ]

    @rule(size=st.integers(1, 50), is_compacted=st.booleans())
    def compare_with_another(self, size: int, *, is_compacted: bool) -> None:
        """A store that reads the changelog from the start is the same."""
        self._catch_up(50)
        with closing(memory_store()) as another:
            while another.changelog_offset < len(self.records):
                self._load(another, size, is_compacted=is_compacted)
            assert dict(another.all_entries()) == dict(self.store.all_entries())
            assert len(another) == len(self.store)

    def teardown(self) -> None:
        self.store.close()
        shutil.rmtree(self.path.parent)

    # ---- implementation

    def _commit(
        self,
        new: list[NewEntries],
        removed: list[int] | None = None,
        expired_before: int = 0,
        *,
        crashes: bool = False,
    ) -> None:
        self._catch_up(50)
        with patch.object(entry_batch, "EXPIRED_ROWS", EXPIRED_ROWS):
            change = self.store.change(new, removed or [], expired_before)
        self.following += 1
        self.is_late = self.may_be_older = False
        records = [*records_of(change), progress_record(self.following, change.expired_before)]
        self.records += records
        self.expired_before = change.expired_before
        self.written.append(([s for each in new for s in expected([each])], records))
        if crashes:
            self.killed()
        else:
            self.store.write(change, progress_at(self.following, len(self.records)))
        self.entries = expected(new) | self.entries
        left = {*self.entries} - {*(removed or [])}
        left = {each for each in left if each >= change.expired_before}
        self.gone |= {*self.entries} - left
        self.entries = {sequence: self.entries[sequence] for sequence in left}

    def _parts(self, commit: Commit) -> list[NewEntries]:
        """Return half a packet for each one that is drawn, as in the log.

        Deleted and expired documents are left out, because the log gives no number twice. Documents
        are output in order: no packet comes after a later one, and no first half after the second.
        """
        parts = []
        for step, found in commit:
            self.latest += step
            packet = self.latest
            samples = self.packets.setdefault(packet, found)
            half = len(samples) // 2
            is_first = len(found) % 2 and packet not in self.whole
            rows = range(half) if is_first else range(half, len(samples))
            part = new_entries(packet, samples, list(rows))
            fresh = packet << 16 >= self.expired_before and not self.gone & {*expected([part])}
            if rows and fresh:
                parts.append(part)
                if not is_first:
                    self.whole.add(packet)
        return parts

    def _catch_up(self, size: int, *, is_compacted: bool = False) -> None:
        while self.store.changelog_offset < len(self.records):
            self._load(self.store, size, is_compacted=is_compacted)

    def _load(self, store: ShardStore, size: int, *, is_compacted: bool) -> None:
        """Load the next records; compaction keeps the last record of each key, also a tombstone."""
        first = store.changelog_offset
        if first >= len(self.records):
            return
        self.may_be_older |= is_compacted and self.is_late and store is self.store
        last = {record.key: offset for offset, record in enumerate(self.records)}
        offsets = [
            offset
            for offset in range(first, len(self.records))
            if not is_compacted or last[self.records[offset].key] == offset
        ][:size]
        batch = batch_of([self.records[each] for each in offsets], offsets)
        load_batch(store, batch, batch.decoded(), INDEX)


class OnRocksDB(StoreModel):
    """Uses the store of real workers."""

    has_cut_manifest = False

    def __init__(self) -> None:
        super().__init__(RocksDisk(block_cache(MIB), MIB))
        self.aside = self.path.with_name("aside")
        self.left = self.path.with_name("left")

    def opened(self) -> ShardStore:
        """Open the store; a worker that fills its index from it compares the number of entries.

        RocksDB writes the files of the two column families to the manifest one after the other when
        it reads a log. A disk that loses the second although it was synchronised, and the log
        that was deleted after it, has two families of different commits.
        """
        store = super().opened()
        if self.has_cut_manifest and len(store) != len(list(store.all_entries())):
            store.close()
            self.disk.discard(self.path)
            store = super().opened()
        self.has_cut_manifest = False
        return store

    @rule(count=st.integers(1, 5), loses_logs=st.booleans())
    def commit_much(self, count: int, *, loses_logs: bool) -> None:
        """A worker commits so much that RocksDB writes files; then it may lose logs."""
        for _ in range(count):
            self.latest += 1
            self.packets[self.latest] = [sample(0, undecidable=True, sketch=FAT_SKETCH)]
            self.whole.add(self.latest)
            self._commit([new_entries(self.latest, self.packets[self.latest])])
        if loses_logs:
            self.killed(self.lose_logs)

    def lose_logs(self) -> None:
        for log in self.path.glob("*.log"):
            log.unlink()

    def kill_process(self) -> None:
        """Keep a copy of the files as they are now, before closing writes others."""
        await_written(self.store)
        shutil.copytree(self.path, self.left)
        self.store.close()
        shutil.rmtree(self.path)
        self.left.rename(self.path)

    def copy_disk(self) -> None:
        shutil.rmtree(self.aside, ignore_errors=True)
        shutil.copytree(self.path, self.aside)

    def put_copy_back(self) -> None:
        shutil.rmtree(self.path)
        shutil.copytree(self.aside, self.path)

    def lose_some(self, data: st.DataObject) -> None:
        """Lose a write-ahead log, the end of one, or the end of the manifest."""
        files = sorted([*self.path.glob("*.log"), *self.path.glob("MANIFEST-*")])
        file = data.draw(st.sampled_from(files), "file")
        self.has_cut_manifest = file.name.startswith("MANIFEST")
        kept = data.draw(st.floats(0, 1), "share that is kept")
        content = file.read_bytes()
        file.write_bytes(content[: int(len(content) * kept)])


TestInMemory = StoreModel.TestCase
TestInMemory.settings = settings(max_examples=settings().max_examples, stateful_step_count=30)
TestOnRocksDB = OnRocksDB.TestCase
TestOnRocksDB.settings = settings(max_examples=settings().max_examples // 8, stateful_step_count=20)
