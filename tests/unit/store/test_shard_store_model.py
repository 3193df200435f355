"""A store does what a dictionary of entries does, whatever is done to it, closing included."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from simhash_core.entries import Entry
from streams.store.entry_block import entry_block
from streams.store.rocksdb_options import MIB, StoreSettings, block_cache
from streams.store.state_codec import ProgressRow, StoredProgress
from tests.unit.store.samples import (
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
commits = st.lists(st.tuples(st.integers(0, 5), packets), max_size=3)
SETTINGS = StoreSettings(write_buffer_bytes=MIB)


class SameAsADictionary(RuleBasedStateMachine):
    """Drives both alike."""

    def __init__(self) -> None:
        """Open an empty store, beside an empty dictionary."""
        super().__init__()
        self.state_dir = Path(tempfile.mkdtemp(prefix="firstseen-model-"))
        self.cache = block_cache(MIB)
        self.entries: dict[int, Entry] = {}
        self.contents: dict[bytes, int] = {}
        self.progress: StoredProgress | None = None
        self.open()

    def open(self) -> None:
        """Open the store."""
        self.store = open_store(self.state_dir / "store", cache=self.cache, settings=SETTINGS)

    @rule(commit=commits, following=st.integers(0, 99))
    def commit(self, commit: list[tuple[int, list[Sample]]], following: int) -> None:
        """A worker commits."""
        self.progress = progress_at(following, following)
        self.store.commit([new_entries(*each) for each in commit], self.progress)
        self._put(commit)

    @rule(commit=commits, following=st.integers(0, 99))
    def load(self, commit: list[tuple[int, list[Sample]]], following: int) -> None:
        """A recovery loads the same."""
        self.progress = progress_at(following, following)
        row = ProgressRow(*(getattr(self.progress, f) for f in self.progress.__struct_fields__))
        self.store.load([entry_block(new_entries(*each)) for each in commit], row)
        self._put(commit)

    def _put(self, commit: list[tuple[int, list[Sample]]]) -> None:
        for each in commit:
            for sequence, entry in expected([new_entries(*each)]).items():
                if self.entries.setdefault(sequence, entry) is entry and not entry.fingerprint:
                    self.contents.setdefault(entry.content_digest, sequence)

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
        assert self.store.progress() == self.progress
        assert fingerprints_in(self.store) == {
            sequence: entry.fingerprint
            for sequence, entry in self.entries.items()
            if entry.fingerprint
        }
        for content in range(4):
            digest = bytes((content,)) * 16
            assert self.store.by_content(digest) == self.contents.get(digest)

    def teardown(self) -> None:
        """Close and delete the store."""
        self.store.close()
        shutil.rmtree(self.state_dir)


TestSameAsADictionary = SameAsADictionary.TestCase
TestSameAsADictionary.settings = settings(
    max_examples=settings().max_examples // 3, stateful_step_count=20
)
