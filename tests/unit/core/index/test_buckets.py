"""Look-ups give the result of a scan: with bands, full buckets, and removed documents."""

from __future__ import annotations

from typing import Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from simhash_core.document_columns import BytesColumn
from simhash_core.fingerprints.blocks import BlockScheme
from simhash_core.index import bucket_columns, document_index, hot_buckets
from simhash_core.index.bucket_columns import (
    ROWS_LIMIT,
    completed,
    pack_rows,
    tag_bits_of_ranges,
    unpack_rows,
)
from simhash_core.index.document_index import DocumentIndex
from simhash_core.index.hot_buckets import overload_threshold, slice_bits, slices
from simhash_core.index.prints import Prints, Rows, band_keys, first_shared_bucket, shared_buckets
from simhash_core.index.segment import SequenceColumn, build_segment
from tests.unit.core.index.made_prints import Found, bare_prints, in_a_file, random_prints, scanned

CLASSIC: Final = BlockScheme(64, 4, 3)
WITH_BANDS: Final = BlockScheme(256, 16, 64, 16, bands=8)
BANDS_ALONE: Final = BlockScheme(256, 0, 64, bands=8)
TRIPLES_ALONE: Final = BlockScheme(256, 0, 64, bands=8, band_bins=3)
SCHEMES: Final = [CLASSIC, BlockScheme(64, 4, 5), WITH_BANDS, BANDS_ALONE, TRIPLES_ALONE]


def looked_up(index: DocumentIndex, asked: Prints) -> Found:
    rows, distances, sequences, _ = index.pairs(asked)
    return list(zip(rows.tolist(), distances.tolist(), sequences.tolist(), strict=True))


def sequences_of(held: Prints, first: int = 0) -> NDArray[np.uint64]:
    return np.arange(first, first + held.documents, dtype=np.uint64)


def rows_of(held: Prints) -> Rows:
    return Rows(sequences_of(held), np.zeros(held.documents, dtype=np.uint16), held)


def index_of(
    scheme: BlockScheme, held: Prints, part: int = 1 << 20, window_ms: int | None = None
) -> tuple[DocumentIndex, int]:
    index = DocumentIndex(scheme, window_ms=window_ms)
    slot = index.open_slot()
    for first in range(0, held.documents, part):
        added = held.take(slice(first, first + part))
        index.add(slot, sequences_of(added, first), added)
    return index, slot


@pytest.mark.parametrize("scheme", SCHEMES)
def test_overloaded_buckets_lose_nothing(
    monkeypatch: pytest.MonkeyPatch, scheme: BlockScheme
) -> None:
    monkeypatch.setattr(hot_buckets, "DOCUMENTS_MIN", 8)
    held, asked = random_prints(scheme, 3_000, 3, 20), random_prints(scheme, 200, 4, 20)
    index, _ = index_of(scheme, held)
    found = looked_up(index, asked)
    assert all(len(each.hot) for each in index.segments)
    assert found == scanned(scheme, asked, held)
    assert found


@pytest.mark.parametrize("tag_bits", [1, 5])
def test_ranges_of_a_block_and_its_tag_lose_nothing(
    monkeypatch: pytest.MonkeyPatch, tag_bits: int
) -> None:
    """A large segment has such ranges."""
    monkeypatch.setattr(bucket_columns, "tag_bits_of_ranges", lambda _scheme, _documents: tag_bits)
    drawn = np.random.default_rng(tag_bits)
    whole = drawn.integers(0, 2**64, (1 << 16, 1), dtype=np.uint64)
    whole[: 1 << 15] &= ~np.uint64(0xFFF0)  # 16 full buckets
    index = DocumentIndex(CLASSIC)
    index.claim(
        in_a_file(CLASSIC, rows_of(bare_prints(whole))), 0, index.open_slot(), [(0, 1 << 16)]
    )
    flips = np.zeros((3000, 64), dtype=np.uint8)
    for row, count in enumerate(drawn.integers(0, 4, len(flips))):
        flips[row, drawn.choice(64, count, replace=False)] = 1
    of = drawn.integers(0, len(whole), len(flips))
    asked = whole[of] ^ np.packbits(flips, axis=1).view(np.uint64)
    pairs = index.pairs(bare_prints(asked))
    wanted = {
        (row, other)
        for row, one in enumerate(asked)
        for other in np.flatnonzero(np.bitwise_count(whole[:, 0] ^ one[0]) <= CLASSIC.distance)
    }
    assert set(zip(pairs.rows.tolist(), pairs.sequences.tolist(), strict=True)) == wanted
    assert len(wanted) >= len(asked)
    assert index.bucket_counts(bare_prints(asked[:1])).candidates >= 1


@pytest.mark.parametrize(
    ("scheme", "millions", "tag_bits"),
    [
        (CLASSIC, 1, 0),
        (CLASSIC, 8, 4),
        (CLASSIC, 10, 5),
        (BlockScheme(64, 4, 4), 10, 0),  # pairs share no block
        (BlockScheme(64, 3, 2, 16), 10, 0),  # bits in no block
        (WITH_BANDS, 10, 0),
    ],
)
def test_large_segments_have_ranges_of_blocks_and_tags(
    scheme: BlockScheme, millions: int, tag_bits: int
) -> None:
    assert tag_bits_of_ranges(scheme, millions * 1_000_000) == tag_bits


@pytest.mark.parametrize(
    ("band_bins", "documents", "shift", "tags"),
    [
        (2, 40_000, 17, np.uint32),
        (2, 300_000, 16, np.uint16),
        (3, 40_000, 11, np.uint16),
        (3, 270_000, 10, np.uint16),
        (3, 600_000, 8, np.uint8),
    ],
)
def test_tags_of_bands_take_as_few_bytes_as_a_short_directory_allows(
    band_bins: int, documents: int, shift: int, tags: type[np.unsignedinteger]
) -> None:
    scheme = BlockScheme(256, 0, 64, bands=1, band_bins=band_bins)
    held = bare_prints(np.zeros((documents, 4), dtype=np.uint64), 1)
    keys = np.random.default_rng(12).integers(
        1, 2**scheme.sketch_bands.key_bits, held.bands.shape, dtype=np.uint32
    )
    held.bands[:] = keys
    segment = completed(build_segment(scheme, rows_of(held)))
    assert segment.bands.shift == shift
    assert segment.bands.tags.dtype == tags
    assert np.array_equal(completed(segment.rows()).prints.bands, keys)


@given(st.lists(st.integers(0, ROWS_LIMIT - 1)))
def test_row_numbers_take_three_bytes(numbers: list[int]) -> None:
    packed = pack_rows(np.array(numbers, dtype=np.uint32))
    assert packed.nbytes == 3 * len(numbers)
    assert unpack_rows(packed).tolist() == numbers


def test_the_published_sizes() -> None:
    """With 2^33 documents a bucket has 131,072 on average and μ is 2; 48 of 64 bits remain."""
    assert overload_threshold(16, 2**33) == 393_216
    assert slice_bits(CLASSIC, 0) == 12
    whole = np.frombuffer(b"\x00\x00\xff\xf0\x00\x00\x00\x01", dtype=np.uint64).reshape(1, 1)
    assert slices(CLASSIC, 0, whole).shape == (1, 4)
    assert np.count_nonzero(slices(CLASSIC, 0, whole)) == 2
    assert slice_bits(BlockScheme(256, 16, 64, 16, 2), 0) == 0
    assert BANDS_ALONE.expected_candidates(2**32) == BANDS_ALONE.all_buckets == 8


def test_a_flood_in_one_bucket_stays_linear() -> None:
    random = np.random.default_rng(6)
    prints = bare_prints(random.integers(0, 2**64, (40_000, 1), dtype=np.uint64))
    prints.fingerprints[:] |= np.uint64(0xFFFF)
    index = DocumentIndex(CLASSIC)
    slot = index.open_slot()
    met = []
    for first in range(0, prints.documents, 500):
        part = prints.take(slice(first, first + 500))
        before = index.candidates_seen
        index.pairs(part)
        met.append((index.candidates_seen - before) / 500)
        index.add(slot, sequences_of(part, first), part)
    assert max(met) < 3 * hot_buckets.DOCUMENTS_MIN


@pytest.mark.parametrize("memtable", [1, 10_000])
@pytest.mark.parametrize("gone", ["removed", "dropped", "late"])
def test_what_is_gone_is_not_met(monkeypatch: pytest.MonkeyPatch, memtable: int, gone: str) -> None:
    monkeypatch.setattr(document_index, "MEMTABLE_DOCUMENTS", memtable)
    held, asked = random_prints(CLASSIC, 900, 7), random_prints(CLASSIC, 60, 8)
    index, slot = index_of(CLASSIC, held, 300, 30 if gone == "late" else None)
    if gone == "removed":
        index.remove(slot, np.array([*range(0, 900, 7), 5_000], dtype=np.uint64))
        index.remove(slot, np.array([7, 14], dtype=np.uint64))
        index.remove(index.open_slot(), np.array([1, 2], dtype=np.uint64))
        kept = np.arange(900) % 7 > 0
    elif gone == "dropped":
        index.drop_before(431)
        index.drop_before(400)
        kept = np.arange(900) >= 431
    else:
        kept = np.abs(asked.times_ms[:, None] - held.times_ms) <= 30
    kept = np.broadcast_to(kept, (60, 900))
    wanted = [each for each in scanned(CLASSIC, asked, held) if kept[each[0], each[2]]]
    assert looked_up(index, asked) == wanted
    if gone != "late":
        assert len(index) == np.count_nonzero(kept[0])
    index.add(slot, sequences_of(held, 900), held)
    assert [each for each in looked_up(index, asked) if each[2] < 900] == wanted


def test_a_file_takes_the_place_of_rows() -> None:
    """It has the earliest rows of both slots; look-ups do not find what is removed meanwhile."""
    held, asked = random_prints(CLASSIC, 900, 9), random_prints(CLASSIC, 60, 10)
    index, slot = index_of(CLASSIC, held)
    other = index.open_slot()
    index.add(other, sequences_of(held, 1_000), held)
    ranges = {slot: (0, 850), other: (1_000, 1_900)}
    assert index.filing(ranges, 2_000, 2_000) is None
    filing = index.filing(ranges, 1_000, 1_200)
    assert filing is not None
    assert filing.last is not None
    assert [int(filing.last[each]) for each in (slot, other)] == [850, 1_348]
    assert filing.documents == {slot: 851, other: 349}
    index.remove(slot, np.array([3, 5, 860], dtype=np.uint64))
    index.remove(other, np.array([1_003, 1_400], dtype=np.uint64))
    before = looked_up(index, asked)
    rows = completed(filing.rows())
    numbers = np.where(rows.slots == slot, 1, 0).astype(np.uint16)
    index.filed(in_a_file(CLASSIC, rows._replace(slots=numbers), 2), {slot: 1, other: 0})
    assert looked_up(index, asked) == before
    assert (index.documents(slot), index.documents(other)) == (897, 898)
    assert index.documents_in_memory == 1_795 - 1_200 + 3
    index.drop_slot(other)
    assert looked_up(index, asked) == [each for each in before if each[2] < 1_000]


@given(st.lists(st.integers(0, 2**18) | st.integers(0, 2**40), max_size=200), st.integers(0, 2**40))
def test_sequence_numbers_are_packed(numbers: list[int], bound: int) -> None:
    sequences = np.array(sorted(numbers), dtype=np.uint64)
    packed = SequenceColumn.of(sequences)
    assert packed.all().tolist() == sequences.tolist()
    assert packed.take(np.arange(len(numbers))).tolist() == sequences.tolist()
    for limit in (bound, *numbers[:5]):
        assert packed.count_below(limit) == sum(each < limit for each in numbers)
    wanted = set(numbers[::3]) | {bound}
    rows = packed.rows_of(np.array(sorted(wanted), dtype=np.uint64))
    assert rows.tolist() == [at for at, each in enumerate(sorted(numbers)) if each in wanted]


def test_segments_give_their_rows_back() -> None:
    held = random_prints(WITH_BANDS, 500, 11)
    again = completed(completed(build_segment(WITH_BANDS, rows_of(held))).rows())
    assert np.array_equal(again.sequences, sequences_of(held))
    assert np.array_equal(again.prints.fingerprints, held.fingerprints)
    assert np.array_equal(again.prints.bands, held.bands)


def test_band_keys_stand_at_the_end_of_a_sketch() -> None:
    scheme = BlockScheme(64, 4, 3, bands=2)
    a = b"sketch" + bytes([1, 0, 0, 0, 2, 0, 0, 0])
    b = b"other" + bytes([9, 0, 0, 0, 2, 0, 0, 0])
    sketches = BytesColumn.of([a, b"", b, b[5:]])
    assert band_keys(sketches, scheme.sketch_bands).tolist() == [[1, 2], [0, 0], [9, 2], [9, 2]]
    assert shared_buckets(scheme, bytes(8), a, b"\xff" * 8, b) == [5]
    assert shared_buckets(scheme, bytes(8), a, bytes(8), b) == [0, 1, 2, 3, 5]
    assert shared_buckets(scheme, bytes(8), a, b"\xff" * 8, b"") == []
    assert shared_buckets(scheme, bytes(8), bytes(8), b"\xff" * 8, bytes(8)) == []
    assert first_shared_bucket(scheme, bytes(8), a, b"\xff" * 8, b) == 5
    assert [scheme.bucket_name(each) for each in (3, 5)] == ["block 3", "band 1"]
