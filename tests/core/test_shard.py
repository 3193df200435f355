"""The shard, rule by rule: what a document meets, leaves and sends on its way through partitions.

Fingerprints here are made to order: 64 bits in 4 blocks of 16, distance 3, each block owned by the
partition that a test wants. The simulator (tests/simulation) drives whole clusters of shards.
"""

from __future__ import annotations

import random
from functools import partial

import pytest

from simhash_core.blocks import BlockScheme
from simhash_core.documents import RawRecord, SourcePosition
from simhash_core.effects import Effect, Emit, EmitDeadLetter, Remember, Send
from simhash_core.entries import Entry, PutEntry, PutParked, PutPending
from simhash_core.errors import ProtocolError, UsageError
from simhash_core.memory_table import MemoryBlockTable
from simhash_core.placement import Placement, owner
from simhash_core.probes import (
    Confirm,
    Message,
    Packet,
    Probe,
    Refuse,
    Visit,
    Withdraw,
    raw_sender,
    shard_sender,
)
from simhash_core.rejections import Rejection, RejectionReason
from simhash_core.shard import Shard, first_partition, owned_buckets
from simhash_core.verdicts import (
    DuplicateOf,
    Method,
    Undecidable,
    UndecidableReason,
    Unique,
    Verdict,
)

SCHEME = BlockScheme(64, 4, 3)
RAW = raw_sender("raw", 0)


# ---------------------------------------------------------------- documents made to order


def fingerprint_owned_by(partitions: int, *owners: int, seed: int = 0) -> bytes:
    """Return a fingerprint whose block i falls to partition ``owners[i]``, of ``partitions``."""
    chance = random.Random(f"{partitions} {owners} {seed}")
    fingerprint = b""
    for block, wanted in enumerate(owners):
        while True:
            value = chance.randbytes(2)
            if (
                owner(
                    SCHEME.buckets(bytes(2 * block) + value + bytes(6 - 2 * block))[block],
                    partitions,
                )
                == wanted
            ):
                break
        fingerprint += value
    return fingerprint


def flipped(fingerprint: bytes, *bits: int) -> bytes:
    """Return the fingerprint with these bits changed, the first bit being 0."""
    number = int.from_bytes(fingerprint)
    for bit in bits:
        number ^= 1 << 63 - bit
    return number.to_bytes(8)


def moved(fingerprint: bytes, partitions: int, block: int, to: int) -> bytes:
    """Return the fingerprint with one bit of ``block`` changed so that it falls to ``to``."""
    for bit in range(16 * block, 16 * block + 16):
        near = flipped(fingerprint, bit)
        if owner(SCHEME.buckets(near)[block], partitions) == to:
            return near
    raise AssertionError(f"no bit of block {block} moves it to {to}: choose another seed")


def probe_of(
    offset: int,
    fingerprint: bytes,
    *,
    digest: bytes | None = None,
    undecidable: UndecidableReason | None = None,
) -> Probe:
    """Return the probe of the record at ``offset`` of the only raw partition."""
    return Probe(
        SourcePosition("raw", 0, offset),
        f"document {offset}",
        1_000 + offset,
        fingerprint,
        digest or offset.to_bytes(16),
        undecidable,
        RawRecord(None, b"body", offset),
    )


def undecidable(offset: int, digest: bytes) -> Probe:
    """Return the probe of a text without features."""
    return probe_of(offset, b"", digest=digest, undecidable=UndecidableReason.NO_FEATURES)


# ---------------------------------------------------------------- what shards do


class Bench:
    """Some shards on a table top: each message is passed by hand, its effects looked at."""

    def __init__(self, partitions: int, scheme: BlockScheme = SCHEME) -> None:
        self.placement = Placement(scheme, partitions)
        self.tables = [
            MemoryBlockTable(partial(owned_buckets, self.placement, p)) for p in range(partitions)
        ]
        self.shards = [Shard(p, self.placement, self.tables[p]) for p in range(partitions)]

    def visit(self, probe: Probe) -> list[Effect]:
        """Let a document come to its first partition."""
        first = first_partition(probe, self.placement)
        return self.shards[first].handle(RAW, probe.source.offset, Visit(probe))

    def deliver(self, sender: int, effects: list[Effect]) -> list[Effect]:
        """Pass on what shard ``sender`` sent, in order; return what that led to."""
        led_to: list[Effect] = []
        for effect in effects:
            if isinstance(effect, Send):
                receiver = self.shards[effect.partition]
                led_to += receiver.handle(shard_sender(sender), effect.number, effect.message)
        return led_to


def verdicts(effects: list[Effect]) -> list[tuple[int, Verdict]]:
    """Return the offsets and verdicts of the documents that were decided."""
    return [(e.probe.source.offset, e.verdict) for e in effects if isinstance(e, Emit)]


def messages(effects: list[Effect]) -> list[tuple[int, Message]]:
    """Return what was sent, with the receiving partition."""
    return [(e.partition, e.message) for e in effects if isinstance(e, Send)]


def originals(effects: list[Effect]) -> dict[int, int]:
    """Return the original of each duplicate that was decided, both by offset."""
    return {
        offset: verdict.original.offset
        for offset, verdict in verdicts(effects)
        if isinstance(verdict, DuplicateOf)
    }


def changes(effects: list[Effect]) -> list[PutEntry | PutPending | PutParked]:
    """Return what is to be remembered."""
    return [
        e.change
        for e in effects
        if isinstance(e, Remember) and isinstance(e.change, PutEntry | PutPending | PutParked)
    ]


A = fingerprint_owned_by(1, 0, 0, 0, 0)


# ---------------------------------------------------------------- one partition


def test_first_of_its_kind_is_unique_at_once() -> None:
    """Given an empty shard that owns all buckets, when a document comes, then it is unique, leaves
    an entry, and neither waits nor sends anything.
    """
    bench = Bench(1)

    effects = bench.visit(probe_of(0, A))

    assert verdicts(effects) == [(0, Unique())]
    entry = Entry(SourcePosition("raw", 0, 0), "document 0", 1_000, A, bytes(16))
    assert changes(effects) == [PutEntry(0, entry)]
    assert messages(effects) == []
    assert (bench.shards[0].pending, bench.shards[0].parked) == (0, 0)


def test_duplicate_names_its_original() -> None:
    """Given a unique document, when a near one comes, then the verdict names the first by id,
    position and time, and says how near it is, by which block, and that the content differs.
    """
    bench = Bench(1)
    bench.visit(probe_of(0, A))

    effects = bench.visit(probe_of(1, flipped(A, 0, 20)))

    expected = DuplicateOf(
        original_id="document 0",
        original=SourcePosition("raw", 0, 0),
        original_event_time_ms=1_000,
        distance=2,
        block=2,
        method=Method.NEAR,
    )
    assert effects == [Emit(probe_of(1, flipped(A, 0, 20)), expected)]


def test_equal_content_is_an_exact_duplicate() -> None:
    """Given a unique document, when one with the same content digest comes, then it is exact."""
    bench = Bench(1)
    bench.visit(probe_of(0, A, digest=b"same" * 4))

    [(_, verdict)] = verdicts(bench.visit(probe_of(1, A, digest=b"same" * 4)))

    assert isinstance(verdict, DuplicateOf)
    assert (verdict.method, verdict.distance, verdict.block) == (Method.EXACT, 0, 0)


@pytest.mark.parametrize(("differing", "is_duplicate"), [(0, True), (3, True), (4, False)])
def test_distance_is_inclusive(differing: int, is_duplicate: bool) -> None:
    """Given a distance of 3, then 3 differing bits are near and 4 are not, in one shared block."""
    bench = Bench(1)
    bench.visit(probe_of(0, A))

    effects = bench.visit(probe_of(1, flipped(A, *range(differing))))

    assert (originals(effects) == {1: 0}) is is_duplicate


def test_near_documents_that_share_no_block_do_not_meet() -> None:
    """Given a distance as large as the block count, when the differing bits touch every block,
    then both are unique: beyond the guarantee, buckets decide who meets.
    """
    bench = Bench(1, BlockScheme(64, 4, 4))
    bench.visit(probe_of(0, A))

    effects = bench.visit(probe_of(1, flipped(A, 0, 16, 32, 48)))

    assert verdicts(effects) == [(1, Unique())]


def test_nearest_original_wins_and_of_equals_the_earliest() -> None:
    """Given three uniques around a document, at distances 3, 2 and 2, when it comes, then it
    repeats the first of those at 2.
    """
    bench = Bench(1)
    bench.visit(probe_of(0, flipped(A, 0, 1, 2)))
    bench.visit(probe_of(1, flipped(A, 16, 17)))
    bench.visit(probe_of(2, flipped(A, 32, 33)))

    effects = bench.visit(probe_of(3, A))

    assert originals(effects) == {3: 1}


def test_a_duplicate_leaves_nothing_behind() -> None:
    """Given a chain in which each is near the one before and no other, then the second repeats the
    first, and the third, near a duplicate only, is unique: there are no chains of duplicates.
    """
    bench = Bench(1)
    bench.visit(probe_of(0, A))
    second = bench.visit(probe_of(1, flipped(A, 0, 1)))

    third = bench.visit(probe_of(2, flipped(A, 0, 1, 2, 3)))

    assert originals(second) == {1: 0}
    assert changes(second) == []
    assert verdicts(third) == [(2, Unique())]


def test_undecidable_documents_meet_by_content_alone() -> None:
    """Given texts without features, then those of one content are repeats of the first, another
    content is new, and a document with a fingerprint never meets them, whatever its digest.
    """
    bench = Bench(1)

    first = bench.visit(undecidable(0, b"0" * 16))
    again = bench.visit(undecidable(1, b"0" * 16))
    other = bench.visit(undecidable(2, b"1" * 16))
    decidable = bench.visit(probe_of(3, A, digest=b"0" * 16))

    assert verdicts(first) == [(0, Undecidable(UndecidableReason.NO_FEATURES))]
    [(_, repeat)] = verdicts(again)
    assert isinstance(repeat, DuplicateOf)
    assert repeat.original.offset == 0
    assert (repeat.distance, repeat.block, repeat.method) == (0, None, Method.EXACT)
    assert verdicts(other) == [(2, Undecidable(UndecidableReason.NO_FEATURES))]
    assert verdicts(decidable) == [(3, Unique())]


def test_unreadable_record_becomes_one_dead_letter() -> None:
    """Given a record that cannot be read, when it is delivered twice, then it is put out once."""
    shard = Bench(1).shards[0]
    rejection = Rejection(
        SourcePosition("raw", 0, 7), RawRecord(None, b"{", 0), RejectionReason.NOT_JSON, "at 1"
    )

    effects = [shard.handle(RAW, 7, Refuse(rejection)) for _ in range(2)]

    assert effects == [[EmitDeadLetter(rejection)], []]


# ---------------------------------------------------------------- more partitions


def test_document_visits_its_partitions_in_increasing_order() -> None:
    """Given a document with buckets in partitions 0, 1 and 3 of 4, then it leaves a pending entry
    in each but the last, where it is unique; and confirms go back to those that it passed.
    """
    bench = Bench(4)
    fingerprint = fingerprint_owned_by(4, 3, 1, 0, 1)
    probe = probe_of(0, fingerprint)

    at_0 = bench.visit(probe)
    at_1 = bench.deliver(0, at_0)
    at_3 = bench.deliver(1, at_1)

    assert messages(at_0) == [(1, Visit(probe, (0,)))]
    assert messages(at_1) == [(3, Visit(probe, (0, 1)))]
    assert messages(at_3) == [(0, Confirm(probe.source)), (1, Confirm(probe.source))]
    assert (verdicts(at_0), verdicts(at_1)) == ([], [])
    assert verdicts(at_3) == [(0, Unique())]
    assert [shard.pending for shard in bench.shards] == [1, 1, 0, 0]
    bench.deliver(3, at_3)
    assert [shard.pending for shard in bench.shards] == [0, 0, 0, 0]
    assert [len(table) for table in bench.tables] == [1, 1, 0, 1]


def test_confirm_turns_the_pending_entry_into_one_that_is_met() -> None:
    """Given a pending entry, when the confirm comes, then it is remembered as gone and as entry,
    and the next near document is a duplicate at its first partition.
    """
    bench = Bench(2)
    fingerprint = fingerprint_owned_by(2, 0, 1, 0, 1)
    at_1 = bench.deliver(0, bench.visit(probe_of(0, fingerprint)))

    settled = bench.deliver(1, at_1)

    source = SourcePosition("raw", 0, 0)
    entry = Entry(source, "document 0", 1_000, fingerprint, bytes(16))
    assert changes(settled) == [PutPending(source, None), PutEntry(0, entry)]
    effects = bench.visit(probe_of(1, flipped(fingerprint, 63)))
    assert originals(effects) == {1: 0}
    assert messages(effects) == []


def test_duplicate_withdraws_what_it_left_on_its_way() -> None:
    """Given a unique whose only block in common with a later document is in partition 1, when that
    one has left a pending entry in 0 and meets it in 1, then it withdraws the entry.
    """
    bench = Bench(2)
    fingerprint = fingerprint_owned_by(2, 1, 1, 1, 1)
    bench.visit(probe_of(0, fingerprint))
    later = moved(fingerprint, 2, block=0, to=0)

    at_0 = bench.visit(probe_of(1, later))
    at_1 = bench.deliver(0, at_0)
    settled = bench.deliver(1, at_1)

    source = SourcePosition("raw", 0, 1)
    assert originals(at_1) == {1: 0}
    assert messages(at_1) == [(0, Withdraw(source))]
    assert changes(settled) == [PutPending(source, None)]
    assert (bench.shards[0].pending, len(bench.tables[0])) == (0, 0)


def test_the_original_is_the_nearest_of_the_first_partition_that_has_one() -> None:
    """Given a unique at distance 3 that meets a document in partition 0, and one at distance 1 that
    meets it in 1 alone, then it repeats the first: which documents are unique does not depend on
    the partitions, but which of several originals a duplicate names does.
    """
    bench = Bench(2)
    fingerprint = fingerprint_owned_by(2, 0, 1, 1, 1)
    farther, nearer = flipped(fingerprint, 17, 33, 49), moved(fingerprint, 2, block=0, to=1)
    at_0 = bench.visit(probe_of(0, farther))
    bench.deliver(1, bench.deliver(0, at_0))
    assert verdicts(bench.visit(probe_of(1, nearer))) == [(1, Unique())]

    assert originals(bench.visit(probe_of(2, fingerprint))) == {2: 0}


# ---------------------------------------------------------------- waiting


TWO = fingerprint_owned_by(2, 0, 0, 1, 1)
"""A fingerprint that visits partition 0, then partition 1."""


def test_document_parks_behind_a_near_pending_one() -> None:
    """Given a document on its way, when a near one comes, then it waits, whole, and is not decided,
    indexed or sent on before the first is settled.
    """
    bench = Bench(2)
    bench.visit(probe_of(0, TWO))
    second = probe_of(1, flipped(TWO, 0))

    effects = bench.visit(second)

    behind = SourcePosition("raw", 0, 0)
    assert effects == [Remember(PutParked(0, behind, Visit(second)))]
    assert (bench.shards[0].pending, bench.shards[0].parked) == (1, 1)


def test_parked_document_repeats_the_one_it_waited_for() -> None:
    """Given a document parked behind another, when that one is confirmed, then it is a duplicate
    of it, and its ticket ends.
    """
    bench = Bench(2)
    first = bench.visit(probe_of(0, TWO))
    bench.visit(probe_of(1, flipped(TWO, 0)))

    settled = bench.deliver(1, bench.deliver(0, first))

    assert originals(settled) == {1: 0}
    assert PutParked(0, SourcePosition("raw", 0, 0), None) in changes(settled)
    assert bench.shards[0].parked == 0


def test_parked_document_goes_on_when_the_other_is_withdrawn() -> None:
    """Given a document parked behind one that turns out a duplicate of something the first is not
    near, when the withdraw comes, then it goes on, and is unique in the end.
    """
    bench = Bench(2)
    fingerprint = fingerprint_owned_by(2, 1, 1, 1, 1)
    bench.visit(probe_of(0, fingerprint))
    second = moved(fingerprint, 2, block=0, to=0)
    on_its_way = bench.visit(probe_of(1, second))
    third = flipped(second, 17, 33, 49)  # 4 bits from the first, 3 from the second
    [parked] = changes(bench.visit(probe_of(2, third)))
    assert parked == PutParked(0, SourcePosition("raw", 0, 1), Visit(probe_of(2, third)))

    withdrawn = bench.deliver(1, bench.deliver(0, on_its_way))
    decided = bench.deliver(0, withdrawn)

    assert messages(withdrawn) == [(1, Visit(probe_of(2, third), (0,)))]
    assert verdicts(decided) == [(2, Unique())]


def test_a_confirmed_near_document_decides_at_once() -> None:
    """Given a confirmed and a pending document, both near, the pending one nearer, when a document
    comes, then it is a duplicate of the confirmed one, and does not wait.
    """
    bench = Bench(2)
    at_0 = bench.visit(probe_of(0, TWO))
    bench.deliver(1, bench.deliver(0, at_0))
    pending = flipped(TWO, 16, 17, 32, 33)
    bench.visit(probe_of(1, pending))
    assert bench.shards[0].pending == 1

    effects = bench.visit(probe_of(2, flipped(pending, 16)))

    assert originals(effects) == {2: 0}
    assert bench.shards[0].parked == 0


def test_of_pending_documents_the_nearest_is_waited_for() -> None:
    """Given pending documents at distances 3, 2 and 2, when a document comes, then it waits for
    one at 2, the first of them by source, which a recovery cannot change.
    """
    bench = Bench(2, BlockScheme(64, 4, 3))
    for offset, bits in ((0, (0, 1, 2)), (1, (16, 17)), (2, (0, 18))):
        assert messages(bench.visit(probe_of(offset, flipped(TWO, *bits)))), "all go on"

    effects = bench.visit(probe_of(3, TWO))

    [parked] = changes(effects)
    assert isinstance(parked, PutParked)
    assert parked.behind == SourcePosition("raw", 0, 1)


def test_those_who_wake_look_again_in_the_order_of_their_tickets() -> None:
    """Given two documents, near each other, parked behind a third, when that is withdrawn, then
    the first of them goes on and the second parks again, behind it, under the ticket it had.
    """
    bench = Bench(2)
    fingerprint = fingerprint_owned_by(2, 1, 1, 1, 1)
    bench.visit(probe_of(0, fingerprint))
    second = moved(fingerprint, 2, block=0, to=0)
    on_its_way = bench.visit(probe_of(1, second))
    third = probe_of(2, flipped(second, 17, 33, 49))
    fourth = probe_of(3, flipped(second, 17, 33, 50))
    bench.visit(third)
    bench.visit(fourth)
    assert bench.shards[0].parked == 2

    withdrawn = bench.deliver(1, bench.deliver(0, on_its_way))

    assert messages(withdrawn) == [(1, Visit(third, (0,)))]
    assert PutParked(1, third.source, Visit(fourth)) in changes(withdrawn)
    assert originals(bench.deliver(1, bench.deliver(0, withdrawn))) == {3: 2}


def test_a_document_may_park_further_on() -> None:
    """Given a document near one that is pending in partition 1 of 3 alone, then it passes 0, parks
    in 1, and when the other is confirmed, withdraws from 0.
    """
    bench = Bench(3)
    fingerprint = fingerprint_owned_by(3, 1, 1, 2, 2)
    at_1 = bench.visit(probe_of(0, fingerprint))
    later = moved(fingerprint, 3, block=3, to=0)
    at_0 = bench.visit(probe_of(1, later))

    parked = bench.deliver(0, at_0)
    confirmed = bench.deliver(2, bench.deliver(1, at_1))

    assert isinstance(changes(parked)[0], PutParked)
    assert originals(confirmed) == {1: 0}
    assert messages(confirmed) == [(0, Withdraw(SourcePosition("raw", 0, 1)))]


# ---------------------------------------------------------------- numbers


def test_a_message_is_handled_once() -> None:
    """Given a message, when its number or a lower one of this sender comes again, then nothing
    happens; another sender's numbers are its own, and numbers may skip.
    """
    bench = Bench(1)
    shard = bench.shards[0]
    far = fingerprint_owned_by(1, 0, 0, 0, 0, seed=1)

    assert shard.handle(RAW, 5, Visit(probe_of(5, A)))
    assert shard.handle(RAW, 5, Visit(probe_of(5, A))) == []
    assert shard.handle(RAW, 4, Visit(probe_of(4, far))) == []
    assert shard.handle(raw_sender("raw", 1), 4, Visit(probe_of(4, far)))
    assert shard.handle(RAW, 9, Visit(probe_of(9, far)))


def test_numbers_count_for_each_receiver() -> None:
    """Given documents that go from partition 0 to 1 and to 2, then the numbers sent to each rise
    by one from 0, each for itself.
    """
    bench = Bench(3)
    ways = [(0, 0, 1, 1), (0, 0, 2, 2), (0, 0, 1, 1)]
    fingerprints = [fingerprint_owned_by(3, *way, seed=n) for n, way in enumerate(ways)]

    sent = [
        (effect.partition, effect.number)
        for offset, fingerprint in enumerate(fingerprints)
        for effect in bench.visit(probe_of(offset, fingerprint))
        if isinstance(effect, Send)
    ]

    assert sent == [(1, 0), (2, 0), (1, 1)]


def test_packet_is_handled_in_order() -> None:
    """Given a packet of two near documents, then the second is a duplicate of the first, though
    nothing was committed between: what is staged is met.
    """
    shard = Bench(1).shards[0]

    effects = shard.receive(
        Packet(RAW, -1, ((0, Visit(probe_of(0, A))), (1, Visit(probe_of(1, A)))))
    )

    assert originals(effects) == {1: 0}


def test_packet_after_a_lost_one_is_refused() -> None:
    """Given a sender whose packet follows one that never came, then the shard says so, instead of
    going on without the lost messages.
    """
    shard = Bench(1).shards[0]
    shard.receive(Packet(RAW, -1, ((3, Visit(probe_of(3, A))),)))

    with pytest.raises(ProtocolError, match=r"received raw/raw/0 up to number 3.*follows number 8"):
        shard.receive(Packet(RAW, 8, ((9, Visit(probe_of(9, A))),)))


def test_packet_delivered_again_has_no_effect() -> None:
    """Given a packet, when it comes again, or again within a longer one, then only what is new in
    it is handled.
    """
    shard = Bench(1).shards[0]
    far = fingerprint_owned_by(1, 0, 0, 0, 0, seed=1)
    first = (0, Visit(probe_of(0, A)))
    shard.receive(Packet(RAW, -1, (first,)))

    assert shard.receive(Packet(RAW, -1, (first,))) == []
    longer = shard.receive(Packet(RAW, -1, (first, (1, Visit(probe_of(1, far))))))
    assert verdicts(longer) == [(1, Unique())]


# ---------------------------------------------------------------- what must not be


@pytest.mark.parametrize("message", [Confirm, Withdraw])
def test_settling_what_is_not_pending_is_refused(
    message: type[Confirm | Withdraw],
) -> None:
    """Given a confirm or withdraw of an arrival that left nothing here, then it is an error that
    names both: no correct sender sends it.
    """
    shard = Bench(2).shards[1]

    with pytest.raises(ProtocolError, match="partition 1 has no pending entry of raw/0@4"):
        shard.handle(shard_sender(0), 0, message(SourcePosition("raw", 0, 4)))


def test_visit_to_a_partition_without_a_bucket_is_refused() -> None:
    """Given a document none of whose buckets is here (the sender counts other partitions), then it
    is an error that says where they are.
    """
    bench = Bench(4)
    fingerprint = fingerprint_owned_by(4, 0, 1, 1, 3)

    with pytest.raises(ProtocolError, match=r"visits partition 2.*they are with \[0, 1, 3\]"):
        bench.shards[2].handle(RAW, 0, Visit(probe_of(0, fingerprint)))


@pytest.mark.parametrize("partition", [-1, 2])
def test_partition_must_be_one_of_them(partition: int) -> None:
    """Given two partitions, then there is no shard −1 or 2."""
    bench = Bench(2)

    with pytest.raises(UsageError, match=f"partition {partition} is not one of 2"):
        Shard(partition, bench.placement, bench.tables[0])


# ---------------------------------------------------------------- recovery


def conversation() -> list[tuple[str, int, Message]]:
    """Return messages to shard 0 of 2 that make it leave, park, confirm, wake and withdraw."""
    bench = Bench(2)
    apart = fingerprint_owned_by(2, 0, 0, 1, 1, seed=1)
    one = fingerprint_owned_by(2, 0, 0, 0, 0)
    back = shard_sender(1)
    visits = [
        probe_of(0, TWO),
        probe_of(1, flipped(TWO, 0)),
        probe_of(2, apart),
        probe_of(3, flipped(apart, 20)),
        probe_of(4, flipped(apart, 21)),
        probe_of(5, one),
        probe_of(6, flipped(one, 1)),
        undecidable(7, b"a" * 16),
        probe_of(8, flipped(TWO, 1)),
    ]
    mine = [probe for probe in visits if first_partition(probe, bench.placement) == 0]
    assert len(mine) >= 8
    return [
        *((RAW, probe.source.offset, Visit(probe)) for probe in mine),
        (back, 0, Confirm(SourcePosition("raw", 0, 0))),
        (back, 1, Withdraw(SourcePosition("raw", 0, 2))),
        (back, 2, Withdraw(SourcePosition("raw", 0, 3))),
        (RAW, 9, Visit(probe_of(9, flipped(TWO, 2)))),
        (back, 3, Confirm(SourcePosition("raw", 0, 4))),
    ]


@pytest.mark.parametrize("cut", range(len(conversation()) + 1))
def test_shard_opened_from_its_changes_goes_on_as_before(cut: int) -> None:
    """Given a shard that has handled some messages, when another is opened from what it wanted
    remembered, then it does with the rest exactly what the first would have done.
    """
    heard = conversation()
    bench = Bench(2)
    told = [bench.shards[0].handle(*message) for message in heard]

    first, again = Bench(2), Bench(2)
    remembered = [
        effect.change
        for message in heard[:cut]
        for effect in first.shards[0].handle(*message)
        if isinstance(effect, Remember)
    ]
    table = again.tables[0]
    table.commit([*remembered, first.shards[0].progress(cut)])
    opened = Shard(0, again.placement, table)

    assert (opened.pending, opened.parked) == (first.shards[0].pending, first.shards[0].parked)
    assert [opened.handle(*message) for message in heard] == [[] for _ in heard[:cut]] + told[cut:]
    assert opened.progress(99) == bench.shards[0].progress(99)


def test_conversation_ends_at_rest() -> None:
    """Given the whole conversation above, then it parks, wakes and re-parks, and leaves nothing."""
    shard = Bench(2).shards[0]

    effects = [effect for message in conversation() for effect in shard.handle(*message)]

    tickets = [change.ticket for change in changes(effects) if isinstance(change, PutParked)]
    assert len(tickets) > 2 * len(set(tickets)), "some document parks twice under one ticket"
    assert (shard.pending, shard.parked) == (0, 0)
