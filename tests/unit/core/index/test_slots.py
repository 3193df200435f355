"""Shards of one index: each is seen, hidden and dropped by its slot, and no other with it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simhash_core.errors import UsageError
from simhash_core.fingerprints.blocks import BlockScheme
from simhash_core.index import document_index
from simhash_core.index.document_index import DocumentIndex
from simhash_core.index.look_up import WHOLE, LookUp, Nearness
from simhash_core.index.prints import bare_prints, prints_of
from simhash_core.log.local_decider import MemoryEntries
from simhash_core.log.shard_stream import NewEntries
from tests.unit.core.index.test_look_up import Source
from tests.unit.core.log.made_to_order import A, Made, columns_of, flipped, packet_of

SCHEME = BlockScheme(64, 4, 3)
ASKED = bare_prints(np.frombuffer(A, dtype=np.uint64).reshape(1, 1))


def met(index: DocumentIndex) -> list[tuple[int, int]]:
    pairs = index.pairs(ASKED)
    return sorted(zip(pairs.sequences.tolist(), pairs.slots.tolist(), strict=True))


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["open", "hide", "show", "add", "add", "drop"]), st.integers(0, 9)
        ),
        max_size=40,
    )
)
def test_slots_are_apart(steps: list[tuple[str, int]]) -> None:
    held: dict[int, list[int]] = {}
    hidden: set[int] = set()
    number = 0
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(document_index, "MEMTABLE_DOCUMENTS", 4)
        index = DocumentIndex(SCHEME)
        for kind, which in steps:
            slot = sorted(held)[which % len(held)] if held else None
            if kind in ("open", "hide"):
                fresh = index.open_slot(visible=kind == "open")
                assert fresh not in held
                held[fresh] = []
                hidden |= {fresh} if kind == "hide" else set()
            elif slot is None:
                continue
            elif kind == "show":
                index.show_slot(slot)
                hidden.discard(slot)
            elif kind == "add":
                index.add(slot, np.array([number], dtype=np.uint64), ASKED)
                held[slot].append(number)
                number += 1
            else:
                index.drop_slot(slot)
                del held[slot]
                hidden.discard(slot)
        found = met(index)

    assert found == sorted(
        (sequence, slot)
        for slot, sequences in held.items()
        if slot not in hidden
        for sequence in sequences
    )
    assert len(index) == sum(map(len, held.values()))


def test_slots_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document_index, "SLOTS_LIMIT", 2)
    index = DocumentIndex(SCHEME)
    index.open_slot()
    index.open_slot()
    with pytest.raises(UsageError, match="2 shards"):
        index.open_slot()


def test_packets_together_are_packets_one_by_one() -> None:
    held = [Made(A), Made(flipped(A, 0, 1, 2, 3)), Made(b"", b"hi")]
    source = Source(held)
    index = DocumentIndex(SCHEME)
    rows = source.decidable
    prints = prints_of(SCHEME, source.new.packet.columns, rows)
    index.add(index.open_slot(), source.new.sequences[rows], prints)
    look_up = LookUp(index, Nearness(SCHEME, None), source)
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


def test_entries_of_new_documents_are_stored_by_number() -> None:
    store = MemoryEntries()
    packet = packet_of([Made(A), Made(b"", b"hi")])
    store.add(NewEntries(3, packet, np.array([0, 1])))
    first, second = store.entries([3 << 16, (3 << 16) + 1])
    assert (first.fingerprint, second.fingerprint) == (A, b"")
    assert store.by_content(second.content_digest) == [(3 << 16) + 1]
