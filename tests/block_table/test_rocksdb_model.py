"""A table on disk does what one in memory does, whatever is done to both, closing included."""

from __future__ import annotations

import shutil
import tempfile
from functools import partial
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from simhash_core.documents import SourcePosition
from simhash_core.entries import Change, Entry, Progress, PutEntry, PutParked, PutPending
from simhash_core.memory_table import MemoryBlockTable
from simhash_core.shard import owned_buckets
from streams.rocksdb_options import MIB, StoreSettings, block_cache
from tests.block_table.samples import (
    PLACEMENT,
    all_met,
    entry_of,
    fingerprint_of,
    met,
    open_store,
    parked,
)

# Small ranges, so that orders, buckets, sources and tickets come again.
values = st.integers(0, 15)
fingerprints = st.one_of(st.builds(fingerprint_of, values, values, values, values), st.just(b""))
digests = st.sampled_from([b"\x00" * 16, b"\x00" * 15 + b"\x01", b"\xff" * 16])
offsets = st.integers(0, 99)
entries = st.builds(lambda o, f, d: entry_of(o, f, digest=d), offsets, fingerprints, digests)
orders = st.one_of(st.integers(0, 12), st.sampled_from([255, 256, 2**40, 2**64 - 1]))
puts = st.builds(PutEntry, orders, entries)
topics = st.sampled_from(["a", "ab"])
sources = st.builds(SourcePosition, topics, st.integers(0, 1), st.integers(0, 2))
pendings = st.builds(PutPending, sources, st.none() | entries)
tickets = st.integers(0, 4)
parkeds = st.one_of(
    st.builds(parked, tickets, sources, st.binary(max_size=8)),
    st.builds(PutParked, tickets, sources, st.none()),
)
numbers = st.integers(0, 2**63 - 1)
progresses = st.builds(
    Progress, numbers, st.dictionaries(st.text(max_size=3), numbers, max_size=2), st.just({3: 1})
)
changes = st.lists(st.one_of(puts, pendings, parkeds, progresses), max_size=8)
SETTINGS = StoreSettings(write_buffer_bytes=MIB)


class SameAsInMemory(RuleBasedStateMachine):
    """Drives both tables alike; the one in memory is made anew where the other is reopened."""

    def __init__(self) -> None:
        """Open an empty table on disk, beside one in memory."""
        super().__init__()
        self.state_dir = Path(tempfile.mkdtemp(prefix="firstseen-model-"))
        self.cache = block_cache(MIB)
        self.committed: list[Change] = []
        self.staged: list[PutEntry] = []
        self.open()

    def open(self) -> None:
        """Open the table on disk, and give one in memory all that was committed."""
        self.table = open_store(self.state_dir / "store", cache=self.cache, settings=SETTINGS)
        self.model = MemoryBlockTable(partial(owned_buckets, PLACEMENT, 0))
        self.model.commit(self.committed)
        self.staged.clear()

    @rule(change=puts)
    def stage(self, change: PutEntry) -> None:
        """An entry is staged."""
        self.table.stage(change)
        self.model.stage(change)
        self.staged.append(change)

    @rule(others=changes, before=st.booleans())
    def commit(self, others: list[Change], *, before: bool) -> None:
        """All that was staged is committed, other changes before or after it."""
        whole = [*others, *self.staged] if before else [*self.staged, *others]
        self.table.commit(whole)
        self.model.commit(whole)
        # What was staged was first, wherever it stands in the commit.
        self.committed += [*self.staged, *others]
        self.staged.clear()

    @rule()
    def reopen(self) -> None:
        """The process ends and begins anew: what was only staged is gone."""
        self.table.close()
        self.open()

    @rule(entry=entries)
    def look_up(self, entry: Entry) -> None:
        """A document is looked up in all its buckets at once."""
        buckets = owned_buckets(PLACEMENT, 0, entry)
        assert met(self.table.candidates(buckets)) == met(self.model.candidates(buckets))

    @rule(order=orders)
    def read_entry(self, order: int) -> None:
        """An entry is read, or is not there in either."""
        found: list[Entry | None] = []
        for table in (self.table, self.model):
            try:
                found.append(table.entry(order))
            except KeyError:
                found.append(None)
        assert found[0] == found[1]

    @invariant()
    def they_are_alike(self) -> None:
        """Both have the same entries in the same buckets, and the same in flight."""
        assert len(self.table) == len(self.model)
        assert all_met(self.table) == all_met(self.model)
        assert self.table.in_flight() == self.model.in_flight()

    def teardown(self) -> None:
        """Close and delete the store."""
        self.table.close()
        shutil.rmtree(self.state_dir)


TestSameAsInMemory = SameAsInMemory.TestCase
TestSameAsInMemory.settings = settings(
    max_examples=settings().max_examples // 3, stateful_step_count=20
)
