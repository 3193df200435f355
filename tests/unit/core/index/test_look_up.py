"""Asking about one document: its match, its neighbours, and what its buckets hold."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from simhash_core.documents import Entry
from simhash_core.fingerprints.blocks import BlockScheme
from simhash_core.index.document_index import DocumentIndex
from simhash_core.index.look_up import LookUp, Nearness, joined_answer
from simhash_core.index.prints import prints_of
from simhash_core.log.local_decider import MemoryEntries
from simhash_core.log.shard_stream import NewEntries
from simhash_core.text.verification import verifier_of
from simhash_core.verdicts import Answer
from tests.unit.core.log.made_to_order import A, Made, columns_of, flipped, packet_of

NEARNESS = Nearness(BlockScheme(64, 4, 3), None)


class Source:
    """The entries of some documents, all unique."""

    def __init__(self, documents: Sequence[Made], offset: int = 0) -> None:
        packet = packet_of(documents)
        rows = [row for row, each in enumerate(documents) if each.fingerprint]
        self.new = NewEntries(offset, packet, packet.columns.offsets.astype(int))
        self.decidable = rows
        self._entries = MemoryEntries()
        self._entries.add(self.new)

    def entries(self, slot: int, sequences: Sequence[int]) -> list[Entry]:
        del slot
        return self._entries.entries(sequences)

    def by_content(self, digest: bytes) -> list[tuple[int, Entry]]:
        numbers = self._entries.by_content(digest)
        return list(zip(numbers, self._entries.entries(numbers), strict=True))


def answer(
    held: Sequence[Made], asked: Made, nearness: Nearness = NEARNESS, offset: int = 0
) -> Answer:
    """What an index of documents, in the packet at an offset, says of one."""
    index = DocumentIndex(nearness.scheme)
    source = Source(held, offset)
    rows = source.decidable
    columns = source.new.packet.columns
    prints = prints_of(nearness.scheme, columns, rows)
    index.add(index.open_slot(), source.new.sequences[rows], prints)
    return LookUp(index, nearness, source).answer(columns_of([asked], 99), 5)


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
