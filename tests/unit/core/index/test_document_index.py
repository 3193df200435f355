"""The index meets what a scan of all documents would, however they came."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simhash_core.fingerprints.blocks import BlockScheme
from simhash_core.fingerprints.fingerprint import distance_bits
from simhash_core.index import document_index, segment
from simhash_core.index.document_index import DocumentIndex
from simhash_core.index.memtable import Rows, joined
from simhash_core.index.prints import Prints, bare_prints

SCHEMES = [
    BlockScheme(64, 4, 3),
    BlockScheme(64, 8, 16, 8, 2),
    BlockScheme(256, 16, 72, 16, 2),
    BlockScheme(256, 21, 60, 12),
    BlockScheme(64, 7, 6, 9),
    BlockScheme(512, 16, 100, 32),
    BlockScheme(512, 128, 60, 4),
    BlockScheme(64, 1, 20, 1),
]


def prints_of(scheme: BlockScheme, count: int, seed: int) -> list[bytes]:
    """Fingerprints of few different bytes, so that blocks are shared."""
    chance = random.Random(seed)
    return [bytes(chance.choices((0, 1, 0x80, 0xFF), k=scheme.bits // 8)) for _ in range(count)]


def words_of(scheme: BlockScheme, prints: list[bytes]) -> Prints:
    joined = np.frombuffer(b"".join(prints), dtype=np.uint64)
    return bare_prints(joined.reshape(len(prints), scheme.bits // 64))


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
    held: dict[int, tuple[int, bytes]] = {}
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
                held = {}
                slot = index.open_slot()
                continue
            more = prints_of(scheme, count, seed + step)
            sequences = np.arange(number, number + count, dtype=np.uint64)
            if kind == "hidden":
                hidden = index.open_slot(visible=False)
                index.add(hidden, sequences, words_of(scheme, more))
            else:
                index.add(slot, sequences, words_of(scheme, more))
                held |= {number + n: (slot, each) for n, each in enumerate(more)}
            number += count
        asked = prints_of(scheme, 7, seed)
        pairs = index.pairs(words_of(scheme, asked))
        counts = index.bucket_counts(words_of(scheme, asked[:1]))
        nearest = index.nearest(words_of(scheme, asked[:1]), 5)

    assert index.documents(slot) == len(held)
    met = [
        (row, distance_bits(each, other), sequence, slot)
        for row, each in enumerate(asked)
        for sequence, (slot, other) in held.items()
        if scheme.shared_blocks(each, other)
    ]
    assert list(zip(*(column.tolist() for column in pairs), strict=True)) == sorted(
        each for each in met if each[1] <= scheme.distance
    )
    shared = [scheme.shared_blocks(asked[0], other) for _, other in held.values()]
    assert counts.candidates == sum(map(len, shared))
    assert counts.fullest == max(
        (sum(block in each for each in shared) for block in range(scheme.all_blocks)), default=0
    )
    of_first = sorted(each[1] for each in met if each[0] == 0)
    assert nearest.distances.tolist() == of_first[:5]


def test_an_empty_index_meets_nothing() -> None:
    scheme = SCHEMES[0]
    index = DocumentIndex(scheme)
    asked = words_of(scheme, prints_of(scheme, 1, 0))
    assert len(index) == len(index.pairs(asked)) == len(index.nearest(asked, 5)) == 0
    assert index.bucket_counts(asked) == (0, 0)


def test_one_part_is_not_copied() -> None:
    """Millions of documents are not in memory twice while a segment file is made."""
    scheme = SCHEMES[0]
    prints = words_of(scheme, prints_of(scheme, 4, 1))
    sequences, slots = np.arange(4, dtype=np.uint64), np.zeros(4, dtype=np.uint16)
    rows = Rows(sequences, slots, prints)
    assert joined([rows]) is rows
    halves = joined([rows.take(slice(0, 2)), rows.take(slice(2, 4))])
    assert halves.sequences.tolist() == [0, 1, 2, 3]
    assert np.array_equal(halves.prints.fingerprints, prints.fingerprints)
