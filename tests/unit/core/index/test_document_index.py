"""The index finds what a scan of all documents finds, for any history and any shards."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simhash_core.errors import UsageError
from simhash_core.fingerprints.blocks import BlockScheme
from simhash_core.index import document_index, segment
from simhash_core.index.bucket_columns import completed
from simhash_core.index.document_index import DocumentIndex, Filing, SegmentMerge
from simhash_core.index.pairs import NearRows, Pairs, near_earlier_rows, near_rows
from simhash_core.index.prints import (
    Prints,
    Rows,
    bucket_values,
    joined_prints,
    joined_rows,
    shared,
)
from simhash_core.index.segment import Segment
from simhash_core.text.profiles import profile_named
from tests.unit.core.index.made_prints import Found, bare_prints, in_a_file, random_prints, scanned

CLASSIC = BlockScheme(64, 4, 3)
SCHEMES = [
    CLASSIC,
    BlockScheme(64, 8, 16, 8, 2),
    BlockScheme(256, 16, 72, 16, 2),
    BlockScheme(256, 21, 60, 12),
    BlockScheme(64, 7, 6, 9),
    BlockScheme(512, 16, 100, 32),
    BlockScheme(512, 128, 60, 4),
    BlockScheme(64, 1, 20, 1),
    BlockScheme(256, 16, 64, 16, bands=8),
    BlockScheme(256, 0, 64, bands=8),
    BlockScheme(256, 0, 64, bands=8, band_bins=3),
]
ONE = bare_prints(np.array([[0x0011223344556677]], dtype=np.uint64))


def few_bytes(scheme: BlockScheme, count: int, seed: int) -> Prints:
    """Return fingerprints of few different bytes, so that many share blocks."""
    drawn = np.random.default_rng(seed)
    made = drawn.choice(np.array([0, 1, 0x80, 0xFF], dtype=np.uint8), (count, scheme.bits // 8))
    prints = bare_prints(made.view(np.uint64), scheme.bands)
    prints.bands[:] = drawn.integers(0, 40, prints.bands.shape)
    return prints


@given(
    scheme=st.sampled_from(SCHEMES),
    steps=st.lists(
        st.tuples(st.sampled_from(["add", "drop", "hidden"]), st.integers(1, 60)),
        min_size=1,
        max_size=12,
    ),
    seed=st.integers(0, 99),
)
def test_look_ups_meet_all_that_was_added(
    scheme: BlockScheme, steps: list[tuple[str, int]], seed: int
) -> None:
    """Memtable and segments are small; shards come and go, and some are hidden."""
    held = few_bytes(scheme, 0, seed)
    numbers = np.empty(0, dtype=np.uint64)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(document_index, "MEMTABLE_DOCUMENTS", 16)
        patched.setattr(document_index, "SEGMENT_DOCUMENTS_LIMIT", 128)
        patched.setattr(segment, "CANDIDATES_LIMIT", 100)
        patched.setattr(document_index, "_COMPARED_ROWS", 3)
        index = DocumentIndex(scheme)
        slot, number = index.open_slot(), 0
        for step, (kind, count) in enumerate(steps):
            if kind == "drop":
                index.drop_slot(slot)
                held, numbers = held.take(slice(0)), numbers[:0]
                slot = index.open_slot()
                continue
            more = few_bytes(scheme, count, seed + step)
            sequences = np.arange(number, number + count, dtype=np.uint64)
            into = slot if kind == "add" else index.open_slot(visible=False)
            index.add(into, sequences, more)
            if kind == "add":
                held = joined_prints([held, more])
                numbers = np.concatenate([numbers, sequences])
            number += count
        asked = few_bytes(scheme, 7, seed)
        pairs = index.pairs(asked)
        first = asked.take(slice(1))
        counts = index.bucket_counts(first)
        nearest = index.nearest(first, 5)

    assert index.documents(slot) == len(numbers)
    found = zip(*(column.tolist() for column in pairs), strict=True)
    near = scanned(scheme, asked, held)
    assert list(found) == [(row, far, int(numbers[at]), slot) for row, far, at in near]
    ours, theirs = bucket_values(scheme, first), bucket_values(scheme, held)
    met = shared(scheme, np.broadcast_to(ours, theirs.shape), theirs)
    assert counts == (met.sum(), met.sum(axis=0).max(initial=0))
    differing = held.fingerprints[met.any(axis=1)] ^ first.fingerprints
    distances = np.bitwise_count(differing).sum(axis=1, dtype=np.int64)
    assert nearest.distances.tolist() == sorted(distances.tolist())[:5]


def test_one_part_is_not_copied() -> None:
    """Otherwise millions of documents would be in memory twice while a segment file is made."""
    prints = few_bytes(CLASSIC, 4, 1)
    rows = Rows(np.arange(4, dtype=np.uint64), np.zeros(4, dtype=np.uint16), prints)
    assert joined_rows([rows]) is rows
    halves = joined_rows([rows.take(slice(0, 2)), rows.take(slice(2, 4))])
    assert halves.sequences.tolist() == [0, 1, 2, 3]
    assert np.array_equal(halves.prints.fingerprints, prints.fingerprints)


def met(index: DocumentIndex) -> list[tuple[int, int]]:
    """Return the sequence numbers and slots of the documents near ``ONE``."""
    pairs = index.pairs(ONE)
    return sorted(zip(pairs.sequences.tolist(), pairs.slots.tolist(), strict=True))


class Files:
    """Shards in files of one index, each with the data of its store; the model is ``held``."""

    def __init__(self, *, merges_inline: bool) -> None:
        self.index = DocumentIndex(CLASSIC)
        if not merges_inline:
            self.index.inline_documents = 2
        self.slots: dict[int, int] = {}  # slots of the open shards
        self.hidden: set[int] = set()  # open shards in which look-ups do not search yet
        self.held: dict[int, list[int]] = {}  # all documents of each shard, open or not
        self.claims: dict[int, list[tuple[Segment, int, tuple[int, int]]]] = {}
        self.segments: list[Segment] = []
        self.number = 0
        self.under_way: tuple[Filing, list[int], list[Segment], set[int]] | None = None
        self.merge: SegmentMerge | None = None

    def come(self, shard: int, *, visible: bool = True) -> None:
        if shard in self.slots:
            return
        held = self.held.setdefault(shard, [])
        slot = self.index.open_slot(visible=visible)
        assert slot not in self.slots.values()
        self.slots[shard] = slot
        self.hidden |= set() if visible else {shard}
        claims = self.claims.setdefault(shard, [])
        for file in {id(each): each for each, _, _ in claims}.values():
            own = [each for each in claims if each[0] is file]
            self.index.claim(file, own[0][1], slot, [each[2] for each in own])
        after = max((last for _, _, (_, last) in claims), default=-1)
        self._add(slot, [each for each in held if each > after])
        gone = [each for each in range(self.number) if each not in held]
        self.index.remove(slot, np.array(gone, dtype=np.uint64))

    def _add(self, slot: int, numbers: list[int]) -> None:
        prints = bare_prints(np.repeat(ONE.fingerprints, len(numbers), axis=0))
        self.index.add(slot, np.array(numbers, dtype=np.uint64), prints)

    def show(self, shard: int) -> None:
        self.index.show_slot(self.slots[shard])
        self.hidden.discard(shard)

    def leave(self, shard: int) -> None:
        self.index.drop_slot(self.slots.pop(shard))
        self.hidden.discard(shard)

    def begin_or_end_merge(self) -> None:
        """Begin or end merging several segments in memory, while the index changes."""
        if self.merge is not None:
            self.index.merged(self.merge, completed(self.merge.build()))
            self.merge = None
        elif self.under_way is None:
            self.merge = self.index.next_merge()

    def add(self, shard: int, count: int) -> None:
        numbers = [*range(self.number, self.number + count)]
        self.number += count
        self.held[shard] += numbers
        self._add(self.slots[shard], numbers)

    def remove(self, shard: int, which: int) -> None:
        if held := self.held[shard]:
            gone = held.pop(which % len(held))
            self.index.remove(self.slots[shard], np.array([gone], dtype=np.uint64))

    def begin(self, which: int) -> None:
        """Begin to write a file of the memory's segments except the newest, or of some files."""
        shards = sorted(self.slots)
        if which % 2 and self.segments:
            files = self.segments[: 1 + which // 2]
            if any(self.index.claimed(each)[0] for each in files):
                slots = set().union(*(self.index.claimed(each)[1] for each in files))
                self.under_way = self.index.file_merge(files), shards, files, slots
            return
        firsts = [self.first_in_memory(shard) for shard in shards]
        last = self.number - 1 - which
        ranges = {self.slots[each]: (at, last) for each, at in zip(shards, firsts, strict=True)}
        filing = self.index.filing(ranges, 1, 5 + which)
        if filing is not None:
            self.under_way = filing, shards, [], set()

    def first_in_memory(self, shard: int) -> int:
        return max((last + 1 for _, _, (_, last) in self.claims[shard]), default=0)

    def end(self, opened: dict[int, int]) -> None:
        """End it, as a keeper of files does; ``opened`` has the slots at the beginning."""
        assert self.under_way is not None
        filing, shards, files, slots = self.under_way
        self.under_way = None
        shards = [each for each in shards if opened[each] in filing.documents]
        rows = completed(filing.rows())
        if all(self.index.claimed(each)[1] <= slots for each in files):
            numbers = {opened[shard]: number for number, shard in enumerate(shards)}
            of = np.array([numbers[slot] for slot in rows.slots.tolist()], dtype=np.uint16)
            segment = in_a_file(CLASSIC, rows._replace(slots=of), len(shards))
            self.index.filed(segment, numbers)
            for number, shard in enumerate(shards):
                if self.slots.get(shard) == opened[shard]:
                    self.take(shard, segment, number, filing, files)
            self.delete(files)
            self.segments.append(segment)
        self.index.end_filing()

    def delete(self, files: list[Segment]) -> None:
        """Delete files; a shard that names one loses its claim to it and to the later files."""
        self.segments = [each for each in self.segments if not any(each is one for one in files)]
        for claims in self.claims.values():
            claims.sort(key=lambda each: each[2])
            for number, (file, _, _) in enumerate(claims):
                if any(file is one for one in files):
                    del claims[number:]
                    break

    def take(
        self, shard: int, segment: Segment, number: int, filing: Filing, files: list[Segment]
    ) -> None:
        claims = self.claims[shard]
        if filing.last is None:
            taken = [each[2] for each in claims if any(each[0] is file for file in files)]
        else:
            taken = [(self.first_in_memory(shard), int(filing.last[self.slots[shard]]))]
        left = [each for each in claims if not any(each[0] is file for file in files)]
        self.claims[shard] = [*left, *((segment, number, each) for each in taken)]

    def check(self) -> None:
        shown = self.slots.keys() - self.hidden
        wanted = [(n, self.slots[shard]) for shard in shown for n in self.held[shard]]
        assert met(self.index) == sorted(wanted)
        documents = sum(len(self.held[shard]) for shard in self.slots)
        assert len(self.index) == documents
        for shard, slot in self.slots.items():
            assert self.index.documents(slot) == len(self.held[shard])
        filed = sum(self.index.claimed(each)[0] for each in self.segments)
        assert self.index.documents_in_memory == documents - filed


KINDS = [*["come"] * 3, "hide", "show", *["add"] * 8, "remove", "leave", *["merge"] * 2]
KINDS += [*["begin"] * 3, *["end"] * 3]


@given(
    st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 9)), min_size=40, max_size=100),
    st.booleans(),
)
def test_shards_that_come_and_go_share_files(
    steps: list[tuple[str, int]], merges_inline: bool
) -> None:
    """A shard that comes back finds its rows in files, while files are made and merged."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(document_index, "MEMTABLE_DOCUMENTS", 3)
        files = Files(merges_inline=merges_inline)
        files.come(0)
        opened: dict[int, int] = {}
        for kind, which in steps:
            shard = sorted(files.slots)[which % len(files.slots)] if files.slots else None
            if kind in {"come", "hide"}:
                files.come(which % 5, visible=kind == "come")
            elif kind == "merge":
                files.begin_or_end_merge()
            elif kind == "begin" and files.under_way is None and files.merge is None:
                opened = dict(files.slots)
                files.begin(which)
            elif kind == "end" and files.under_way is not None:
                files.end(opened)
            elif shard is not None and kind == "add":
                files.add(shard, 1 + which // 3)
            elif shard is not None and kind in {"show", "leave"}:
                getattr(files, kind)(shard)
            elif shard is not None and kind == "remove":
                files.remove(shard, which)
            files.check()


def test_slots_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document_index, "SLOTS_LIMIT", 2)
    index = DocumentIndex(CLASSIC)
    index.open_slot()
    index.open_slot()
    with pytest.raises(UsageError, match="2 shards"):
        index.open_slot()


def listed(found: NearRows) -> Found:
    rows, others, distances = (column.tolist() for column in found)
    return sorted(zip(rows, distances, others, strict=True))


@pytest.mark.parametrize(
    "sizes", [(0, 0), (0, 3), (3, 0), (1, 1), (2, 200), (64, 64), (65, 7), (150, 130)], ids=str
)
@pytest.mark.parametrize("profile", ["classic", "wide"])
def test_near_rows_are_those_of_a_scan(profile: str, sizes: tuple[int, int]) -> None:
    scheme = profile_named(profile).scheme()
    left, right = (random_prints(scheme, size, seed, 5) for seed, size in enumerate(sizes, 1))
    expected = scanned(scheme, left, right)
    earlier = [pair for pair in scanned(scheme, left, left) if pair[2] < pair[0]]
    assert listed(near_rows(scheme, left, right)) == expected
    assert listed(near_earlier_rows(scheme, left)) == earlier
    assert expected or min(sizes) <= 7


def test_documents_that_share_several_overloaded_buckets_are_pairs_once() -> None:
    scheme = profile_named("wide").scheme()
    held, asked = (random_prints(scheme, size, size, originals=1) for size in (2_500, 50))
    index = DocumentIndex(scheme)
    slot = index.open_slot()
    index.add(slot, np.arange(2_500, dtype=np.uint64), held)
    parts: list[int] = []

    def kept(part: Pairs) -> Pairs:
        parts.append(len(part))
        return part

    found = index.pairs(asked, kept)
    columns = zip(*(each.tolist() for each in found[:3]), strict=True)
    expected = scanned(scheme, asked, held)
    assert sorted(columns) == expected
    assert sum(parts) < 1.2 * len(expected)


def test_fingerprints_that_differ_in_every_bit_are_far() -> None:
    """The number of differing bits does not fit into a byte."""
    scheme = profile_named("wide").scheme()
    keys, times = np.ones((1, scheme.bands), dtype=np.uint32), np.zeros(1, dtype=np.int64)
    zeros = Prints(np.zeros((1, 4), dtype=np.uint64), keys, times)
    ones = Prints(~zeros.fingerprints, keys, times)
    assert not len(near_rows(scheme, zeros, ones)[0])
    assert len(near_rows(scheme, ones, ones)[0])
