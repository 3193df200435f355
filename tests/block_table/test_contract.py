"""What every ``BlockTable`` does, whatever it is kept in: in memory, in RocksDB."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from simhash_core.block_table import BlockTable
from simhash_core.blocks import Bucket, content_bucket
from simhash_core.documents import SourcePosition
from simhash_core.entries import InFlight, Progress, PutEntry, PutPending
from simhash_core.memory_table import MemoryBlockTable
from simhash_core.placement import Placement
from simhash_core.shard import owned_buckets
from streams.state_codec import StoreIdentity
from tests.block_table.samples import (
    ALL_BUCKETS,
    PLACEMENT,
    SCHEME,
    all_met,
    entry_of,
    fingerprint_of,
    met,
    open_store,
    parked,
    put,
    undecidable,
)

KINDS = ("memory", "rocksdb")
MakeTable = Callable[[Placement, int], BlockTable]


@pytest.fixture(params=KINDS)
def make_table(request: pytest.FixtureRequest, tmp_path: Path) -> MakeTable:
    """Makes an empty table of one kind for a partition of a placement."""

    def make(placement: Placement, partition: int) -> BlockTable:
        if request.param == "memory":
            return MemoryBlockTable(partial(owned_buckets, placement, partition))
        identity = StoreIdentity("index", "tests", partition, placement.partitions)
        path = tmp_path / f"shard-{partition}"
        return open_store(path, identity=identity, placement=placement)

    return make


@pytest.fixture
def table(make_table: MakeTable) -> Iterator[BlockTable]:
    """An empty table that owns all buckets."""
    with closing(make_table(PLACEMENT, 0)) as opened:
        yield opened


def buckets(*values: int) -> Sequence[Bucket]:
    """The buckets of the document whose blocks have these values."""
    return SCHEME.buckets(fingerprint_of(*values))


def test_new_table_is_empty(table: BlockTable) -> None:
    """Given a new table, then it has no entry, no candidate, and an in-flight state of nothing."""
    assert len(table) == 0
    assert met(table.candidates(ALL_BUCKETS)) == []
    assert table.in_flight() == InFlight(Progress(), {}, {})
    with pytest.raises(KeyError):
        table.entry(0)


def test_shape_of_no_candidates(table: BlockTable) -> None:
    """Given no candidates, then the arrays have no rows, and the types of those that have."""
    orders, fingerprints = table.candidates(buckets(1, 2, 3, 4))

    assert (orders.shape, orders.dtype) == ((0,), np.dtype(np.uint64))
    assert (len(fingerprints), fingerprints.dtype) == (0, np.dtype(np.uint8))
    assert len(table.candidates([]).orders) == 0


@pytest.mark.parametrize("committed", [False, True])
def test_a_candidate_for_each_shared_block(table: BlockTable, *, committed: bool) -> None:
    """Given an entry, staged or committed, when a document shares blocks with it, then it is met
    once for each of them, with its order and its fingerprint, row by row contiguous.
    """
    change = put(7, 1, 2, 3, 4)
    table.stage(change)
    if committed:
        table.commit([change])

    assert met(table.candidates(buckets(1, 2, 9, 9))) == [(7, fingerprint_of(1, 2, 3, 4))] * 2
    assert met(table.candidates(buckets(9, 9, 9, 9))) == []
    orders, fingerprints = table.candidates(buckets(1, 2, 3, 4))
    assert orders.tolist() == [7, 7, 7, 7]
    assert fingerprints.shape == (4, 8)
    assert fingerprints.flags.c_contiguous
    assert orders.dtype == np.uint64


def test_equal_values_of_different_blocks_do_not_meet(table: BlockTable) -> None:
    """Given an entry with value 5 in block 0, then value 5 in block 1 does not meet it."""
    table.commit([put(0, 5, 6, 7, 8)])

    assert met(table.candidates(buckets(6, 5, 8, 7))) == []


def test_staged_and_committed_entries_are_met_together(table: BlockTable) -> None:
    """Given a bucket with a committed and a staged entry, then both are met, each once."""
    table.commit([put(0, 5, 1, 1, 1)])
    table.stage(put(1, 5, 2, 2, 2))

    rows = met(table.candidates(buckets(5, 9, 9, 9)))

    assert rows == [(0, fingerprint_of(5, 1, 1, 1)), (1, fingerprint_of(5, 2, 2, 2))]
    assert len(table) == 2


def test_a_commit_of_what_was_staged_adds_nothing(table: BlockTable) -> None:
    """Given staged entries, when they are committed, then look-ups see what they saw before."""
    changes = [put(order, order % 3, 1, 2, 3) for order in range(5)]
    for change in changes:
        table.stage(change)
    before = all_met(table)

    table.commit([*changes, Progress(offset=5)])

    assert all_met(table) == before
    assert len(table) == 5
    assert [table.entry(order) for order in range(5)] == [change.entry for change in changes]


def test_a_commit_of_what_was_never_staged(table: BlockTable) -> None:
    """Given changes from a changelog, when they are committed, then they are looked up."""
    table.commit([put(3, 1, 1, 1, 1), put(9, 1, 2, 2, 2)])

    assert [order for order, _ in met(table.candidates(buckets(1, 8, 8, 8)))] == [3, 9]
    assert len(table) == 2


def test_an_order_is_taken_once(table: BlockTable) -> None:
    """Given an entry, when its order comes again, as from a log that is read twice, then it
    stays as it is, whether the second is staged, committed, or stands twice in one commit.
    """
    first, second = put(4, 1, 1, 1, 1), put(4, 2, 2, 2, 2)
    table.commit([first, second])
    table.stage(second)
    table.commit([second])
    table.commit([put(2, 3, 3, 3, 3)])
    table.commit([put(2, 4, 4, 4, 4)])

    assert table.entry(4) == first.entry
    assert table.entry(2) == put(2, 3, 3, 3, 3).entry
    assert len(table) == 2
    assert met(table.candidates(buckets(2, 2, 2, 2))) == []


def test_what_was_staged_is_what_is_committed(table: BlockTable) -> None:
    """Given a staged entry, when a commit has another one of its order before it, then look-ups
    and the entry are those that were seen since it was staged.
    """
    staged, other = put(4, 1, 1, 1, 1), put(4, 2, 2, 2, 2)
    table.stage(staged)
    before = all_met(table)
    table.commit([other, staged])

    assert table.entry(4) == staged.entry
    assert all_met(table) == before


def test_lookups_keep_up_with_commits(table: BlockTable) -> None:
    """Given look-ups between commits, then each sees all that was committed before it."""
    for order in range(20):
        assert len(table.candidates(buckets(5, 9, 9, 9)).orders) == order
        table.commit([put(order, 5, 1, 1, 1)])


def test_a_full_bucket_gives_all_its_rows(table: BlockTable) -> None:
    """Given 3000 documents in one bucket, then a look-up meets every one of them."""
    table.commit([put(order, 5, order % 16, order // 16 % 16, 3) for order in range(3000)])

    rows = met(table.candidates(buckets(5, 9, 9, 9)[:1]))

    assert [order for order, _ in rows] == list(range(3000))


def test_orders_up_to_the_highest(table: BlockTable) -> None:
    """Given orders about the bounds of one, four and eight bytes, then each comes back whole."""
    orders = [0, 255, 256, 2**32 - 1, 2**32, 2**64 - 1]
    entries = [entry_of(offset, fingerprint_of(1, 1, 1, 1)) for offset in range(len(orders))]
    table.commit([PutEntry(order, entry) for order, entry in zip(orders, entries, strict=True)])

    assert table.candidates(buckets(1, 9, 9, 9)).orders.tolist() == orders
    assert [table.entry(order) for order in orders] == entries


def test_undecidable_documents_meet_by_content(table: BlockTable) -> None:
    """Given documents without a fingerprint, then one meets those with its content alone, even
    where digests begin alike, and the rows have no columns.
    """
    digests = [b"\x00" * 16, b"\x00" * 15 + b"\x01", b"\xff" * 16]
    table.commit([undecidable(order, digest) for order, digest in enumerate(digests)])
    table.stage(undecidable(3, digests[0]))

    for digest, orders in zip(digests, ([0, 3], [1], [2]), strict=True):
        found = table.candidates([content_bucket(digest)])
        assert found.orders.tolist() == orders
        assert found.fingerprints.shape == (len(orders), 0)
    assert table.candidates([content_bucket(b"\x00" * 14 + b"\x01\x00")]).orders.tolist() == []


def test_a_partition_indexes_its_own_buckets_only(make_table: MakeTable) -> None:
    """Given two partitions with the same entries, then each bucket's rows are with its owner."""
    placement = Placement(SCHEME, 2)
    changes = [put(order, order, order + 1, order + 2, order + 3) for order in range(12)]
    with closing(make_table(placement, 0)) as zero, closing(make_table(placement, 1)) as one:
        for table in (zero, one):
            table.commit(changes)
        here, there = set(all_met(zero)), set(all_met(one))

    assert here
    assert there
    assert here.isdisjoint(there)
    assert here | there == {b for c in changes for b in SCHEME.buckets(c.entry.fingerprint)}


def test_in_flight_state_is_kept_until_it_is_gone(table: BlockTable) -> None:
    """Given pending entries, parked visits and progress, then they are read back as they were put,
    the last of each; and None takes away the one it names.
    """
    sources = [SourcePosition(topic, 0, 7) for topic in ("a", "ab", "原文")]
    entries = [entry_of(order, fingerprint_of(order)) for order in range(3)]
    visits = [parked(ticket, sources[0], b"\x00\xff" * ticket) for ticket in (0, 1, 300)]
    pending = [PutPending(s, e) for s, e in zip(sources, entries, strict=True)]
    progress = Progress(7, {"raw/raw-documents/0": 41, "shard/2": 0}, {3: 9}, 12, 301)
    table.commit([*pending, *visits, Progress(offset=1), progress])

    assert table.in_flight() == InFlight(
        progress,
        dict(zip(sources, entries, strict=True)),
        {visit.ticket: visit for visit in visits},
    )

    later = parked(1, sources[1])
    gone = parked(300, sources[0])
    table.commit(
        [
            PutPending(sources[1], None),
            PutPending(sources[2], entries[0]),
            type(gone)(300, sources[0], None),
            later,
        ]
    )

    assert table.in_flight() == InFlight(
        progress, {sources[0]: entries[0], sources[2]: entries[0]}, {0: visits[0], 1: later}
    )


def test_what_comes_and_goes_in_one_commit_leaves_nothing(table: BlockTable) -> None:
    """Given changes of one thing in one commit, then the last decides; what was never there can
    be taken away.
    """
    source = SourcePosition("raw-documents", 0, 1)
    visit = parked(5, source)
    gone = type(visit)(5, source, None)
    entry = entry_of(1, fingerprint_of(1))

    table.commit([PutPending(source, entry), visit, PutPending(source, None), gone])
    assert table.in_flight() == InFlight(Progress(), {}, {})

    table.commit([PutPending(source, None), gone, PutPending(source, entry), visit])
    assert table.in_flight() == InFlight(Progress(), {source: entry}, {5: visit})


def test_pending_entries_are_no_candidates(table: BlockTable) -> None:
    """Given a pending entry, then look-ups do not meet it, and it is not counted."""
    source = SourcePosition("raw-documents", 0, 1)
    table.commit([PutPending(source, entry_of(1, fingerprint_of(1, 2, 3, 4)))])

    assert met(table.candidates(buckets(1, 2, 3, 4))) == []
    assert len(table) == 0


def test_in_flight_state_is_a_copy(table: BlockTable) -> None:
    """Given the in-flight state, when the caller changes it, then the table does not change."""
    table.in_flight().parked[1] = parked(1, SourcePosition("t", 0, 0))

    assert table.in_flight().parked == {}


def test_an_empty_commit_changes_nothing(table: BlockTable) -> None:
    """Given no changes, when they are committed, then all is as it was."""
    table.commit([put(0, 1, 2, 3, 4)])
    table.commit([])

    assert len(table) == 1
    assert table.in_flight().progress == Progress()


def test_entries_come_back_whole(table: BlockTable) -> None:
    """Given an entry with every kind of value, then it comes back equal, staged and committed."""
    source = SourcePosition("原文.t-1_x", 2**31 - 1, 2**63 - 1)
    text = "\x00 “文” 🌧 " + "x" * 4096
    change = PutEntry(1, type(put(0).entry)(source, text, -5, fingerprint_of(1), b"\x00" * 16))
    table.stage(change)
    assert table.entry(1) == change.entry

    table.commit([change])
    assert table.entry(1) == change.entry


def test_closing_twice(table: BlockTable) -> None:
    """Given a closed table, when it is closed again, then nothing happens."""
    table.close()
    table.close()
