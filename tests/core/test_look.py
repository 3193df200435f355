"""Looking a text up without changing the index: a shard says what a visit would meet."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from simhash_core.block_table import Candidates
from simhash_core.blocks import BlockScheme
from simhash_core.documents import RawRecord, SourcePosition
from simhash_core.effects import Emit
from simhash_core.memory_table import MemoryBlockTable
from simhash_core.neighbours import Look, nearest_orders
from simhash_core.placement import Placement
from simhash_core.probes import Probe, Visit, raw_sender
from simhash_core.shard import Shard, owned_buckets
from simhash_core.verdicts import DuplicateOf, Method, UndecidableReason

SCHEME = BlockScheme(64, 4, 3)
ALONE = Placement(SCHEME, 1)
FIRST = bytes.fromhex("00112233445566ff")


def probe(number: int, fingerprint: bytes, content: bytes = b"") -> Probe:
    """A document of its own content; without a fingerprint, one that is undecidable."""
    reason = None if fingerprint else UndecidableReason.TOO_FEW_FEATURES
    source = SourcePosition("raw", 0, number)
    digest = (content or str(number).encode()).ljust(16, b".")
    return Probe(source, f"d{number}", 7, fingerprint, digest, reason, RawRecord(None, b"", 0))


def shard_with(*probes: Probe, placement: Placement = ALONE, partition: int = 0) -> Shard:
    """A shard that has decided these documents, or let them pass."""
    table = MemoryBlockTable(partial(owned_buckets, placement, partition))
    shard = Shard(partition, placement, table)
    for number, each in enumerate(probes):
        shard.handle(raw_sender("raw", 0), number, Visit(each))
    return shard


def look(shard: Shard, asked: Probe, placement: Placement = ALONE) -> Look:
    """Look where the index would."""
    route = placement.by_partition(asked.fingerprint, asked.content_digest)
    return shard.look(asked, route[shard.partition], 5)


def flipped(fingerprint: bytes, bits: int) -> bytes:
    """A fingerprint that differs in the last ``bits`` bits."""
    return (int.from_bytes(fingerprint, "big") ^ ((1 << bits) - 1)).to_bytes(8, "big")


@pytest.mark.parametrize("bits", [0, 1, 3, 4, 9])
def test_a_look_says_what_a_visit_would(bits: int) -> None:
    """Given a confirmed document, when one at any distance is looked up, then the verdict is the
    one that its visit then gets; and the look has changed nothing of that.
    """
    shard = shard_with(probe(0, FIRST))
    asked = probe(1, flipped(FIRST, bits))

    before = shard.progress(0)
    found = look(shard, asked)

    assert shard.progress(0) == before
    assert shard.candidates_met == 0
    (effect, *_) = [
        each
        for each in shard.handle(raw_sender("raw", 0), 1, Visit(asked))
        if isinstance(each, Emit)
    ]
    assert found.duplicate == (effect.verdict if isinstance(effect.verdict, DuplicateOf) else None)
    assert found.behind is None
    assert [(each.distance, each.near) for each in found.nearest] == [(bits, bits <= 3)]


def test_an_empty_index_has_no_neighbours() -> None:
    """Given nothing, then nothing is near, and no bucket has a document."""
    assert look(shard_with(), probe(0, FIRST)) == Look(None, None, [], 0, 0)


def test_neighbours_stand_in_order_of_distance_once_each() -> None:
    """Given documents that share three blocks, then each is named once, the nearest first; the
    candidates are its meetings, and the fullest bucket holds them all.
    """
    shard = shard_with(*(probe(n, flipped(FIRST, bits)) for n, bits in enumerate((12, 8, 4))))

    found = look(shard, probe(9, FIRST))

    assert [each.distance for each in found.nearest] == [4, 8, 12]
    assert [each.block for each in found.nearest] == [0, 0, 0]
    assert found.candidates == 9
    assert found.fullest_bucket == 3


def test_undecidable_texts_meet_by_content() -> None:
    """Given a text that is too short, then an equal one is its duplicate, without a block."""
    shard = shard_with(probe(0, b"", b"same"))

    found = look(shard, probe(1, b"", b"same"))

    assert found.duplicate is not None
    assert found.duplicate.method is Method.EXACT
    assert found.nearest[0].block is None


def test_a_pending_document_is_named() -> None:
    """Given a near document on its way to another partition, then the look names whom a visit
    would wait behind, and lets nobody wait.
    """
    two = Placement(SCHEME, 2)
    number = next(n for n in range(99) if len(two.by_partition(n.to_bytes(8, "big") * 1, b"")) == 2)
    under_way = probe(0, number.to_bytes(8, "big"))
    shard = shard_with(under_way, placement=two)

    found = look(shard, probe(1, under_way.fingerprint), two)

    assert found.duplicate is None
    assert found.behind == under_way.source
    assert shard.parked == 0


def test_the_nearest_of_very_many_are_found_without_sorting_all() -> None:
    """Given more candidates than are sorted, each met twice, then the nearest are the same."""
    chance = np.random.default_rng(5)
    prints = chance.integers(0, 256, (60_000, 8), dtype=np.uint8)
    orders = np.arange(60_000, dtype=np.uint64)
    twice = Candidates(np.concatenate([orders, orders]), np.concatenate([prints, prints]))
    bits = np.unpackbits(prints ^ np.frombuffer(FIRST, np.uint8), axis=1).sum(axis=1).tolist()

    found = nearest_orders(FIRST, twice, 10, 2)

    assert [far for far, _ in found] == sorted(bits)[:10]
    assert len({order for _, order in found}) == 10
