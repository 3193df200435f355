"""The look-up of one document: its match, its neighbours, and the size of its buckets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simhash_core.documents import Entry
from simhash_core.index.document_index import DocumentIndex
from simhash_core.index.look_up import WHOLE, LookUp, Nearness, View, joined_answer
from simhash_core.index.prints import prints_of
from simhash_core.log.local_decider import MemoryEntries, OneStore
from simhash_core.log.nearest_matches import own_repeats
from simhash_core.log.shard_stream import NewEntries
from simhash_core.text.verification import verifier_of
from simhash_core.verdicts import Answer
from tests.unit.core.log.made_to_order import NEARNESS, A, Made, columns_of, flipped, packet_of


def look_up_in(held: Sequence[Made], nearness: Nearness = NEARNESS, offset: int = 0) -> LookUp:
    """Return a look-up in an index of one packet, all of whose documents are unique."""
    packet = packet_of(held)
    new = NewEntries(offset, packet, np.arange(len(held)))
    store = MemoryEntries()
    store.add(new)
    decidable = [row for row, each in enumerate(held) if each.fingerprint]
    index = DocumentIndex(nearness.scheme)
    prints = prints_of(nearness.scheme, packet.columns, decidable)
    index.add(index.open_slot(), new.sequences[decidable], prints)
    return LookUp(index, nearness, OneStore(store))


def answer(
    held: Sequence[Made], asked: Made, nearness: Nearness = NEARNESS, offset: int = 0
) -> Answer:
    return look_up_in(held, nearness, offset).answer(columns_of([asked], 99), 5)


@pytest.mark.parametrize("bits", [0, 1, 3, 4, 9])
def test_an_answer_says_what_a_document_would_get(bits: int) -> None:
    found = answer([Made(A)], Made(flipped(A, *range(bits))))
    assert (found.match is not None) is (bits <= 3)
    assert [(each.match.distance, each.near) for each in found.neighbours] == [(bits, bits <= 3)]


def test_an_empty_index_has_no_neighbours() -> None:
    assert answer([], Made(A)) == Answer(None, [], 0, 0)


def test_neighbours_stand_in_order_of_distance_once_each() -> None:
    found = answer([Made(flipped(A, *range(48, 48 + bits))) for bits in (12, 8, 4)], Made(A))
    assert [each.match.distance for each in found.neighbours] == [4, 8, 12]
    assert [each.match.block for each in found.neighbours] == [0, 0, 0]
    assert (found.candidates, found.fullest_bucket) == (9, 3)


def test_undecidable_texts_meet_by_content() -> None:
    found = answer([Made(b"", b"same"), Made(A)], Made(b"", b"same"))
    assert found.match is not None
    assert (found.match.exact, found.match.block) == (True, None)
    assert [each.match for each in found.neighbours] == [found.match]


def test_neighbours_that_are_not_confirmed_say_how_far_they_agree() -> None:
    nearness = Nearness(NEARNESS.scheme, verifier_of("shingles", 0.5))
    found = answer([Made(A, sketch=b"\x12" * 256)], Made(A, sketch=b"\x34" * 256), nearness)
    assert found.match is None
    (neighbour,) = found.neighbours
    assert (neighbour.near, neighbour.match.similarity) == (False, 0.0)


def test_answers_of_parts_are_joined() -> None:
    asked = Made(A)
    late = answer([Made(flipped(A, 50))], asked, offset=9)
    early = answer([Made(flipped(A, 51)), Made(flipped(A, 48, 49))], asked, offset=4)
    joined = joined_answer([late, early], 2)
    assert joined.match == early.match
    assert [each.match.distance for each in joined.neighbours] == [1, 1]
    assert (joined.candidates, joined.fullest_bucket) == (9, 3)


def test_packets_together_are_looked_up_as_each_alone() -> None:
    look_up = look_up_in([Made(A), Made(flipped(A, 0, 1, 2, 3)), Made(b"", b"hi")])
    packets = [
        columns_of([Made(flipped(A, 0)), Made(b"", b"hi"), Made(flipped(A, 0, 1))]),
        columns_of([]),
        columns_of([Made(bytes(8)), Made(b"", b"ho"), Made(A)]),
    ]
    together = look_up.matches_of(packets, [WHOLE] * 3)
    assert together == [look_up.matches(each) for each in packets]
    rows_and_distances = [[(match.row, match.distance) for match in each] for each in together]
    assert rows_and_distances == [[(0, 1), (1, 0), (2, 2)], [], [(2, 0)]]
    assert look_up.matches_of([], []) == []


class _Counted(Sequence[int]):
    """Rows that rise from 0, and how many of them were looked at."""

    def __init__(self, count: int) -> None:
        self._rows = range(count)
        self.looked_at = 0

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, at: Any) -> Any:  # noqa: ANN401 - of a sequence
        self.looked_at += 1
        return self._rows[at]


@given(st.sets(st.integers(0, 20)), st.integers(-3, 20), st.integers(0, 20))
def test_an_entry_is_removed_by_a_row_between_it_and_the_document(
    removing: set[int], own: int, row: int
) -> None:
    view = View(100, removing={b"id": sorted(removing)})
    expected = any(own < each <= row for each in removing)
    assert view.hides(row, 100 + own, "id") is expected
    assert not view.hides(row, 100 + own, "other")


def test_few_rows_are_looked_at_if_all_are_of_one_id() -> None:
    rows = _Counted(10_000)
    view = View(0, removing={b"id": rows})
    assert view.hides(9_000, 8_000, "id")
    assert not view.hides(8_000, 8_000, "id")
    assert rows.looked_at < 50


class CountedEntries(MemoryEntries):
    """Counts the entries that are read."""

    reads = 0

    def entries(self, sequences: Sequence[int]) -> list[Entry]:
        self.reads += len(sequences)
        return super().entries(sequences)


def test_repeats_of_a_short_text_that_are_out_of_the_window_are_not_read_again() -> None:
    nearness = Nearness(NEARNESS.scheme, None, window_ms=60)
    held = packet_of([Made(b"", b"ok", time_ms=100 * number) for number in range(500)])
    store = CountedEntries()
    store.add(NewEntries(0, held, np.arange(500)))
    look_up = LookUp(DocumentIndex(nearness.scheme), nearness, OneStore(store))
    look_up.matches(columns_of([Made(b"", b"ok")], 500))
    store.reads = 0
    asked = columns_of([Made(b"", b"ok", time_ms=10_000 + 10 * number) for number in range(40)])
    matches = look_up.matches(asked)
    assert [(each.row, each.sequence) for each in matches] == [
        (row, next(at for at in range(500) if abs(100 * at - 10_000 - 10 * row) <= 60))
        for row in range(40)
    ]
    assert store.reads < 80
    assert not look_up.matches(columns_of([Made(b"", b"ok", time_ms=1 << 40)]))


def test_repeats_within_a_packet_that_are_out_of_the_window_are_no_pairs() -> None:
    nearness = Nearness(NEARNESS.scheme, None, window_ms=60)
    columns = columns_of([Made(b"", b"ok", time_ms=50 * number) for number in range(200)])
    pairs = own_repeats(nearness, WHOLE, columns, columns.repeatable, {})
    assert list(pairs) == [(row, 0, row - 1) for row in range(1, 200)]
