"""Decisions document by document: which are unique, and which originals duplicates name."""

from __future__ import annotations

import random
from collections.abc import Sequence
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simhash_core.documents import Entry, SourcePosition
from simhash_core.fingerprints.blocks import BlockScheme
from simhash_core.fingerprints.fingerprint import distance_bits
from simhash_core.index import known_sketches, look_up
from simhash_core.index.look_up import Nearness
from simhash_core.index.prints import prints_of
from simhash_core.log import nearest_matches
from simhash_core.log.local_decider import LocalDecider, MemoryEntries
from simhash_core.text.verification import verifier_of
from simhash_core.verdicts import Match
from tests.unit.core.log.made_to_order import NEARNESS, SCHEME, A, Made, flipped, packet_of


def decide(
    documents: Sequence[Made], sizes: Sequence[int] = (), nearness: Nearness | None = None
) -> dict[int, Match]:
    """Decide documents in packets of ``sizes``, the rest one by one; return matches by offset."""
    store = MemoryEntries()
    nearness = nearness or NEARNESS
    words = nearness.scheme.bits // 64
    decider = LocalDecider(nearness, store)
    matches: dict[int, Match] = {}
    first, left = 0, list(sizes)
    for number in range(len(documents)):
        size = left.pop(0) if left else 1
        part = documents[first : first + size]
        if part:
            decision = decider.decide(number, packet_of(part, first, words))
            store.add(decision.new)
            matches |= {first + row: match for row, match in decision.matches.items()}
        first += size
    assert len(store) == len(documents) - len(matches)
    return matches


def test_a_duplicate_names_its_original() -> None:
    documents = [Made(A), Made(flipped(A, 0, 20))]
    for sizes in ([1, 1], [2]):
        match = decide(documents, sizes)[1]
        assert (match.original_id, match.source) == ("document 0", SourcePosition("raw", 0, 0))
        assert (match.event_time_ms, match.distance, match.block) == (1_000, 2, 2)
        assert (match.exact, match.similarity) == (False, None)


def test_equal_content_is_exact_and_all_that_undecidable_documents_match_by() -> None:
    documents = [Made(b"", b"0"), Made(b"", b"0"), Made(b"", b"1"), Made(A, b"0"), Made(A, b"0")]
    found = {
        row: (match.source.offset, match.distance, match.block, match.exact)
        for row, match in decide(documents).items()
    }
    assert found == {1: (0, 0, None, True), 4: (3, 0, 0, True)}


def test_sketches_that_do_not_agree_are_not_near() -> None:
    nearness = Nearness(SCHEME, verifier_of("shingles", 0.5))
    like, unlike = b"\x12" * 256, b"\x34" * 256
    documents = [Made(A, sketch=unlike), Made(flipped(A, 0), sketch=like), Made(A, sketch=like)]
    for sizes in ([1, 1, 1], [3], [1, 2]):
        matches = decide(documents, sizes, nearness)
        assert {offset: match.source.offset for offset, match in matches.items()} == {2: 1}
        assert matches[2].similarity == 1.0


@given(
    scheme=st.sampled_from([SCHEME, BlockScheme(64, 8, 12, 8, 2), BlockScheme(128, 8, 20)]),
    seed=st.integers(0, 999),
    sizes=st.lists(st.integers(1, 40), max_size=8),
    compared=st.sampled_from([2, 1_000]),
)
def test_any_packets_give_what_a_scan_gives(
    scheme: BlockScheme, seed: int, sizes: list[int], compared: int
) -> None:
    """Up to ``compared`` documents are compared in pairs, more by buckets."""
    chance = random.Random(seed)
    centres = [chance.randbytes(scheme.bits // 8) for _ in range(3)]
    documents = []
    for _ in range(60):
        content = bytes([chance.randrange(9)])
        bits = chance.choices(range(scheme.bits), k=chance.randrange(scheme.distance + 2))
        print_ = b"" if chance.random() < 0.1 else flipped(chance.choice(centres), *bits)
        documents.append(Made(print_, b"" if print_ else content))
    with patch.object(nearest_matches, "_COMPARED_WHOLE", compared):
        matches = decide(documents, sizes, Nearness(scheme, None))
    assert {n: (m.source.offset, m.distance) for n, m in matches.items()} == _scanned(
        documents, scheme
    )


@pytest.mark.parametrize("window_ms", [None, 10_000_000])
@pytest.mark.parametrize("made", [Made(A), Made(b"", b"x")], ids=["near", "of one content"])
def test_a_large_bundle_of_similar_documents_has_few_pairs(
    made: Made, window_ms: int | None
) -> None:
    """Compared with all earlier ones, 2,000 documents would have two million pairs."""
    documents, wrapped = 2_000, nearest_matches.match_nearest
    with patch.object(nearest_matches, "match_nearest", wraps=wrapped) as match_nearest:
        matches = decide([made] * documents, [documents], Nearness(SCHEME, None, window_ms))
    assert {match.source.offset for match in matches.values()} == {0}
    assert len(matches) == documents - 1
    assert max(len(call.args[2]) for call in match_nearest.call_args_list) < 256 * 256


@given(
    seed=st.integers(0, 999),
    sizes=st.lists(st.integers(1, 40), max_size=8),
    many=st.sampled_from([0, 3]),
    known=st.sampled_from([2, 1_000]),
)
def test_texts_of_one_template_are_verified_together_as_each_alone(
    seed: int, sizes: list[int], many: int, known: int
) -> None:
    chance = random.Random(seed)
    template = chance.randbytes(256)
    documents = []
    for _ in range(60):
        own = chance.choice([20, 60, 150])
        sketch = template[own:] + bytes([chance.randrange(4)]) * own
        documents.append(Made(flipped(A, *chance.choices(range(64), k=2)), sketch=sketch))
    verifier = verifier_of("shingles", 0.5)
    assert verifier is not None
    alone = verifier._replace(verification=verifier.verification._replace(many=None))
    expected = decide(documents, sizes, Nearness(SCHEME, alone))
    with (
        patch.object(look_up, "MANY", many),
        patch.object(known_sketches, "_CAPACITY", known),
        patch.object(nearest_matches, "_COMPARED_WHOLE", 10),
    ):
        assert decide(documents, sizes, Nearness(SCHEME, verifier)) == expected


def test_few_sketches_of_a_template_are_read_for_a_document() -> None:
    read: list[int] = []

    class Counted(MemoryEntries):
        def entries(self, sequences: Sequence[int]) -> list[Entry]:
            read.extend(sequences)
            return super().entries(sequences)

    store = Counted()
    decider = LocalDecider(Nearness(SCHEME, verifier_of("shingles", 0.5)), store)
    documents = [Made(A, sketch=random.Random(number).randbytes(256)) for number in range(200)]
    for number, each in enumerate(documents):
        decision = decider.decide(number, packet_of([each], number))
        assert not decision.matches
        store.add(decision.new)
    assert len(read) < (known_sketches.MANY + 2) * len(documents), "not each for each later one"


def _scanned(documents: Sequence[Made], scheme: BlockScheme) -> dict[int, tuple[int, int]]:
    uniques: list[int] = []
    found: dict[int, tuple[int, int]] = {}
    for number, made in enumerate(documents):
        near = []
        for other in uniques:
            theirs = documents[other]
            if not made.fingerprint or not theirs.fingerprint:
                if made == theirs:
                    near.append((0, other))
                continue
            distance = distance_bits(made.fingerprint, theirs.fingerprint)
            shared = scheme.shared_blocks(made.fingerprint, theirs.fingerprint)
            if distance <= scheme.distance and shared:
                near.append((distance, other))
        if near:
            distance, original = min(near)
            found[number] = (original, distance)
        else:
            uniques.append(number)
    return found


def test_a_decider_resumes_from_what_is_stored() -> None:
    store = MemoryEntries()
    nearness = Nearness(SCHEME, None)
    new = LocalDecider(nearness, store).decide(0, packet_of([Made(A), Made(b"", b"x")])).new
    store.add(new)
    prints = prints_of(SCHEME, new.packet.columns)
    committed = [(new.sequences[:1], prints.take(slice(1)))]
    again = LocalDecider(nearness, store, committed)
    decision = again.decide(1, packet_of([Made(flipped(A, 9)), Made(b"", b"x")], 2))
    assert [decision.matches[row].source.offset for row in (0, 1)] == [0, 1]
