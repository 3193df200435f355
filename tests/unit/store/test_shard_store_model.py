"""A store does what a dictionary of entries does, whatever is done to it, closing included."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec.structs import replace

from simhash_core.entries import Entry
from simhash_core.log.outputs import NewEntries
from streams.store.changelog_codec import decode_records, encode_progress
from streams.store.entry_removal import Removal
from streams.store.rocksdb_options import MIB, StoreSettings, block_cache
from streams.store.state_codec import ProgressRow, StoredProgress
from streams.store.store_change import StoreChange, records_of
from tests.unit.store.samples import (
    INDEX,
    READING,
    Sample,
    expected,
    fingerprints_in,
    new_entries,
    open_store,
    progress_at,
    sample,
)

# Small ranges, so that packets, documents and contents come again.
samples = st.builds(
    lambda offset, content, sketch, undecidable: sample(
        offset, undecidable=undecidable, sketch=sketch
    )._replace(digest=bytes((content,)) * 16),
    st.integers(0, 9),
    st.integers(0, 3),
    st.binary(max_size=3),
    st.booleans(),
)
packets = st.lists(samples, min_size=1, max_size=4, unique_by=lambda each: each.offset).map(
    lambda found: sorted(found, key=lambda each: each.offset)
)
commits = st.lists(st.tuples(st.integers(0, 1), packets), max_size=3)
SETTINGS = StoreSettings(write_buffer_bytes=MIB)


class SameAsADictionary(RuleBasedStateMachine):
    """Drives both alike."""

    def __init__(self) -> None:
        """Open an empty store, beside an empty dictionary."""
        super().__init__()
        self.state_dir = Path(tempfile.mkdtemp(prefix="firstseen-model-"))
        self.cache = block_cache(MIB)
        self.entries: dict[int, Entry] = {}
        self.deleted: set[int] = set()
        self.packets: dict[int, list[Sample]] = {}
        self.whole: set[int] = set()
        self.latest = 0
        self.changelog: dict[bytes, bytes | None] = {}
        self.records: list[tuple[bytes, bytes | None]] = []
        self.expired_before = 0
        self.progress: StoredProgress | None = None
        self.aside = self.state_dir / "aside"
        self.copied: int | None = None
        self.open()

    def open(self) -> None:
        """Open the store."""
        self.store = open_store(self.state_dir / "store", cache=self.cache, settings=SETTINGS)

    @rule(commit=commits, following=st.integers(0, 99))
    def commit(self, commit: list[tuple[int, list[Sample]]], following: int) -> None:
        """A worker commits."""
        parts = self._parts(commit)
        self.progress = progress_at(following, following)
        change = self.store.change(parts)
        self.store.write(change, self.progress)
        self._log(change)
        self._put(parts)

    @rule(commit=commits, following=st.integers(0, 99))
    def load(self, commit: list[tuple[int, list[Sample]]], following: int) -> None:
        """A recovery loads the same."""
        parts = self._parts(commit)
        self.progress = progress_at(following, following)
        row = ProgressRow(*(getattr(self.progress, f) for f in self.progress.__struct_fields__))
        change = self.store.change(parts)
        self._log(change)
        self.store.load(change.blocks, row)
        self._put(parts)

    @rule(data=st.data(), commit=commits)
    def remove(self, data: st.DataObject, commit: list[tuple[int, list[Sample]]]) -> None:
        """A worker commits deletes, of entries that are there and of others, beside new entries."""
        known = st.sampled_from(sorted(self.entries) or [7])
        removed = data.draw(st.lists(st.one_of(known, st.integers(0, 9)), max_size=5))
        new = self._parts(commit)
        removed = [each for each in removed if each not in expected(new) or each in self.entries]
        self.progress = progress_at(1, 1)
        change = self.store.change(new, removed)
        self.store.write(change, self.progress)
        self._log(change)
        self._put(new)
        for sequence in removed:
            if self.entries.pop(sequence, None) is not None:
                self.deleted.add(sequence)

    @rule(back=st.integers(0, 5), removed=st.lists(st.integers(0, 5 << 16 | 9), max_size=3))
    def expire(self, back: int, removed: list[int]) -> None:
        """A worker commits that everything before a packet has expired, some of it deleted too."""
        packet = max(0, self.latest + 1 - back)
        removed += sorted(self.entries)[:2]
        self.progress = progress_at(2, 2)
        change = self.store.change([], removed, packet << 16)
        self.store.write(change, self.progress)
        for sequence in removed:
            if self.entries.pop(sequence, None) is not None:
                self.deleted.add(sequence)
        self._log(change)
        self.expired_before = max(self.expired_before, packet << 16)
        self.entries = {s: e for s, e in self.entries.items() if s >= self.expired_before}

    def _parts(self, commit: list[tuple[int, list[Sample]]]) -> list[NewEntries]:
        """Return half a packet for each that is drawn, as the log has it: its first documents stay.

        What was deleted or has expired is left out: the log gives no number twice. Documents are
        put out in order: no packet comes after a later one, and no first half after the second.
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
            fresh = packet << 16 >= self.expired_before and not self.deleted & {*expected([part])}
            if rows and fresh:
                parts.append(part)
                if not is_first:
                    self.whole.add(packet)
        return parts

    def _put(self, parts: list[NewEntries]) -> None:
        for sequence, entry in expected(parts).items():
            self.entries.setdefault(sequence, entry)

    def _log(self, change: StoreChange) -> None:
        """Append to the changelog, as it is once it is compacted."""
        for key, value in records_of(change):
            self.records.append((key, value))
            self.changelog.pop(key, None)
            if value is not None:
                self.changelog[key] = value
        key, progress = encode_progress(
            progress_at(1).progress, INDEX, READING, "", self.store.expired_before
        )
        self.changelog.pop(key, None)
        self.changelog[key] = progress
        self.records.append((key, progress))

    @rule(cut=st.integers(0, 20), is_compacted=st.booleans())
    def rebuild(self, cut: int, *, is_compacted: bool) -> None:
        """A store that is lost is made again of the changelog, compacted or not, in two parts."""
        if not self.changelog:
            return
        self.store.close()
        shutil.rmtree(self.state_dir / "store")
        self.open()
        self._read(list(self.changelog.items()) if is_compacted else self.records, cut)

    @rule()
    def set_aside(self) -> None:
        """A copy of the store is made while its worker is down."""
        self.store.close()
        shutil.rmtree(self.aside, ignore_errors=True)
        shutil.copytree(self.state_dir / "store", self.aside)
        self.copied = len(self.records)
        self.open()

    @precondition(lambda self: self.copied is not None)
    @rule(cut=st.integers(0, 20), is_compacted=st.booleans())
    def put_back(self, cut: int, *, is_compacted: bool) -> None:
        """The copy takes the place of the store, and reads what was committed since then.

        Compaction leaves the last record of each key, tombstones among them.
        """
        self.store.close()
        shutil.rmtree(self.state_dir / "store")
        shutil.copytree(self.aside, self.state_dir / "store")
        self.open()
        since = self.records[self.copied :]
        last = {key: index for index, (key, _) in enumerate(since)}
        self._read([since[at] for at in sorted(last.values())] if is_compacted else since, cut)

    def _read(self, records: Sequence[tuple[bytes, bytes | None]], cut: int) -> None:
        """Recover from records of the changelog, in two parts."""
        for part in (records[:cut], records[cut:]):
            keys, values = [key for key, _ in part], [value for _, value in part]
            found = decode_records(keys, values, str)
            before = 0 if found.progress is None else found.progress.expired_before
            progress = None if self.progress is None else self.progress.progress
            row = ProgressRow(progress, 5, expired_before=before)
            self.store.load(found.blocks, row, Removal(found.deletions, found.ends))
        self.progress = self.store.progress()

    @rule()
    def reopen(self) -> None:
        """The process ends and begins again."""
        self.store.close()
        self.open()

    @invariant()
    def they_are_alike(self) -> None:
        """Both have the same entries, contents, fingerprints and progress."""
        assert dict(self.store.all_entries()) == self.entries
        assert len(self.store) == len(self.entries)
        found = self.store.progress()
        assert self.progress is None or found == replace(
            self.progress, expired_before=found.expired_before if found else 0
        )
        assert fingerprints_in(self.store) == {
            sequence: entry.fingerprint
            for sequence, entry in self.entries.items()
            if entry.fingerprint
        }
        for content in range(4):
            digest = bytes((content,)) * 16
            assert self.store.by_content(digest) == sorted(
                sequence
                for sequence, entry in self.entries.items()
                if entry.content_digest == digest and not entry.fingerprint
            )

    @rule()
    def ask_by_id(self) -> None:
        """Entries are found by their ids."""
        ids = [sample(offset).document_id for offset in range(10)]
        assert self.store.by_ids([each.encode() for each in ids]) == [
            sorted(s for s, entry in self.entries.items() if entry.document_id == document_id)
            for document_id in ids
        ]

    def teardown(self) -> None:
        """Close and delete the store."""
        self.store.close()
        shutil.rmtree(self.state_dir)


TestSameAsADictionary = SameAsADictionary.TestCase
TestSameAsADictionary.settings = settings(
    max_examples=settings().max_examples // 3, stateful_step_count=20
)
