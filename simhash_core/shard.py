"""The shard: a pure state machine that decides documents, by ordered bucket locks.

Near-duplicates share no key, so no partitioning brings them together; but two documents that are
near *and* share a block share a bucket, and each bucket has one owner. A document visits the
partitions that own its buckets in increasing order, all its buckets of one partition in one step.
At a partition it meets

- a **confirmed** near document: it is a duplicate of that one (the nearest; of equals, the
  earliest), and withdraws the pending entries that it left;
- else a **pending** near document: it is parked until that one is confirmed or withdrawn, and
  then looks again;
- else nobody: it leaves a pending entry, and goes on.

Past its last partition it is unique, and confirms its entries.

*Why two near documents are never both unique.* They share a bucket; its owner handles them one
after the other. The second meets the first there: confirmed, pending, or withdrawn and so a
duplicate itself. A parked document has no entry yet, and looks again when it wakes.

*Why there is no deadlock.* A document is parked at partition p behind one that left its entry at p
and so has gone on beyond p. Along a chain of waits the partitions strictly rise.

*Why every duplicate names a unique.* Only confirmed entries are named, and an entry is confirmed
by the decision that puts its document on ``unique``.

With one partition a document is decided at its first visit and nothing is ever pending.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

import numpy as np

from simhash_core.block_table import BlockTable, Candidates
from simhash_core.blocks import Bucket
from simhash_core.candidates import within
from simhash_core.documents import SourcePosition
from simhash_core.effects import Effect, Emit, EmitDeadLetter, Remember, Send
from simhash_core.entries import Entry, Progress, PutEntry, PutParked, PutPending
from simhash_core.errors import ProtocolError, UsageError
from simhash_core.neighbours import Look, Neighbour, nearest_orders
from simhash_core.pending import PendingEntries
from simhash_core.placement import Placement
from simhash_core.probes import Confirm, Message, Packet, Probe, Refuse, Visit, Withdraw
from simhash_core.verdicts import DuplicateOf, Method, Undecidable, Unique
from simhash_core.verification import Confirmation


class Shard:
    """The part of the index that one partition owns.

    ``handle`` changes the state at once and returns what is to be done, in order. The caller makes
    the ``Remember`` effects last together with ``progress()``, or drops this object and opens the
    shard again from what lasted.
    """

    def __init__(
        self,
        partition: int,
        placement: Placement,
        table: BlockTable,
        confirmation: Confirmation | None = None,
    ) -> None:
        """Take up the committed state of ``table``; without ``confirmation`` distance decides."""
        if not 0 <= partition < placement.partitions:
            raise UsageError(f"partition {partition} is not one of {placement.partitions}")
        self.partition = partition
        self._placement = placement
        self._distance = placement.scheme.distance
        self._table = table
        self._confirmation = confirmation
        self._pending = PendingEntries(self.buckets_of, self.agreement)
        state = table.in_flight()
        for entry in state.pending.values():
            self._pending.add(entry)
        self._parked: dict[SourcePosition, list[PutParked]] = {}
        for ticket in sorted(state.parked):
            parked = state.parked[ticket]
            self._parked.setdefault(parked.behind, []).append(parked)
        self._received = dict(state.progress.received)
        self._sent = dict(state.progress.sent)
        self._next_order = state.progress.next_order
        self._next_ticket = state.progress.next_ticket
        self.candidates_met = 0

    def agreement(self, distance: int, probe: Probe, entry: Entry) -> float | None:
        """Return how far a document within the distance agrees with an entry, None if too little.

        1 for equal content, and where an index confirms no candidates.
        """
        if self._confirmation is None or probe.content_digest == entry.content_digest:
            return 1.0
        return self._confirmation.agreement(distance, probe.sketch, entry.sketch)

    def buckets_of(self, entry: Entry) -> list[Bucket]:
        """Return the buckets of an entry that this shard owns."""
        return owned_buckets(self._placement, self.partition, entry)

    @property
    def parked(self) -> int:
        """The number of documents that wait here."""
        return sum(map(len, self._parked.values()))

    @property
    def pending(self) -> int:
        """The number of pending entries here."""
        return len(self._pending)

    def progress(self, offset: int) -> Progress:
        """Return how far the shard has come when ``offset`` is the next one of its partition."""
        return Progress(
            offset, dict(self._received), dict(self._sent), self._next_order, self._next_ticket
        )

    def expect(self, messages: Iterable[Message]) -> None:
        """Prepare for messages that are about to be handled, in this order.

        It changes their cost and nothing else: documents that come together are looked up together.
        """
        probes = [message.probe for message in messages if isinstance(message, Visit)]
        self._placement.prepare(probe.fingerprint for probe in probes)
        ways = (self._placement.by_partition(p.fingerprint, p.content_digest) for p in probes)
        self._table.prefetch(way.get(self.partition, ()) for way in ways)

    def receive(self, packet: Packet) -> list[Effect]:
        """Handle the messages of a packet, in order.

        Raises ``ProtocolError`` when messages of this sender were lost on the way.
        """
        received = self._received.get(packet.sender, -1)
        if packet.after > received:
            raise ProtocolError(
                f"partition {self.partition} has received {packet.sender} up to number {received}, "
                f"but this packet follows number {packet.after}: records between them were skipped"
            )
        effects: list[Effect] = []
        for number, message in packet.messages:
            effects += self.handle(packet.sender, number, message)
        return effects

    def handle(self, sender: str, number: int, message: Message) -> list[Effect]:
        """Handle one message; without effect when this number of this sender has been passed.

        Raises ``ProtocolError`` for a message that no correct sender can have sent.
        """
        if number <= self._received.get(sender, -1):
            return []
        self._received[sender] = number
        effects: list[Effect] = []
        match message:
            case Visit():
                self._visit(message, effects)
            case Confirm(source):
                self._settle(source, effects, confirmed=True)
            case Withdraw(source):
                self._settle(source, effects, confirmed=False)
            case Refuse(rejection):
                effects.append(EmitDeadLetter(rejection))
        return effects

    def _visit(self, visit: Visit, effects: list[Effect], ticket: PutParked | None = None) -> None:
        """Decide a document here, send it on, or park it; ``ticket`` if it was parked before."""
        probe = visit.probe
        route = self._placement.by_partition(probe.fingerprint, probe.content_digest)
        buckets = route.get(self.partition)
        if buckets is None:
            raise ProtocolError(
                f"document {probe.source} visits partition {self.partition}, which owns none of "
                f"its buckets; they are with {sorted(route)}"
            )
        candidates = self._table.candidates(buckets)
        self.candidates_met += len(candidates.orders)
        verdict = self._meets_confirmed(probe, candidates)
        if verdict is None:
            blocker = self._pending.nearest(probe, buckets, self._distance)
            if blocker is not None:
                self._park(visit, blocker, effects, ticket)
                return
        if ticket is not None:
            effects.append(Remember(PutParked(ticket.ticket, ticket.behind, None)))
        if verdict is not None:
            effects.append(Emit(probe, verdict))
            self._send_all(visit.passed, Withdraw(probe.source), effects)
            return
        following = next((p for p in route if p > self.partition), None)
        entry = _entry(probe)
        if following is None:
            self._confirm(entry, effects)
            kind = Unique() if probe.undecidable is None else Undecidable(probe.undecidable)
            effects.append(Emit(probe, kind))
            self._send_all(visit.passed, Confirm(probe.source), effects)
        else:
            self._pending.add(entry)
            effects.append(Remember(PutPending(entry.source, entry)))
            onward = Visit(probe, (*visit.passed, self.partition))
            self._send_all((following,), onward, effects)

    def look(self, probe: Probe, buckets: Sequence[Bucket], most: int) -> Look:
        """Say what a visit of ``probe``, of which ``buckets`` are here, would meet; change nothing.

        The ``most`` nearest candidates go along, near or not.
        """
        by_bucket = [self._table.candidates([bucket]) for bucket in buckets]
        found = [each for each in by_bucket if len(each.orders)]
        duplicate, nearest = None, []
        if found:
            met = Candidates(*map(np.concatenate, zip(*found, strict=True)))
            duplicate = self._meets_confirmed(probe, met)
            nearest = nearest_orders(probe.fingerprint, met, most, len(buckets))
        behind = None
        if duplicate is None:
            behind = self._pending.nearest(probe, buckets, self._distance)
        return Look(
            duplicate,
            behind,
            [self._neighbour(probe, self._table.entry(order), far) for far, order in nearest],
            candidates=sum(len(each.orders) for each in found),
            fullest_bucket=max((len(each.orders) for each in found), default=0),
        )

    def _neighbour(self, probe: Probe, entry: Entry, distance: int) -> Neighbour:
        near = distance <= self._distance and self.agreement(distance, probe, entry) is not None
        same = probe.content_digest == entry.content_digest
        agreement = None
        if self._confirmation is not None and not same:
            verification = self._confirmation.verification
            agreement = verification.agreement(distance, probe.sketch, entry.sketch)
        return Neighbour(entry, distance, agreement, near, self._first_shared(probe, entry))

    def _first_shared(self, probe: Probe, entry: Entry) -> int | None:
        """Return the first block that both have, None for texts without fingerprints."""
        if not probe.fingerprint:
            return None
        return self._placement.scheme.shared_blocks(probe.fingerprint, entry.fingerprint)[0]

    def _meets_confirmed(self, probe: Probe, candidates: Candidates) -> DuplicateOf | None:
        for distance, order in within(probe.fingerprint, candidates, self._distance):
            original = self._table.entry(order)
            agreement = self.agreement(distance, probe, original)
            if agreement is not None:
                return self._duplicate(probe, original, distance, agreement)
        return None

    def _duplicate(
        self, probe: Probe, original: Entry, distance: int, agreement: float
    ) -> DuplicateOf:
        same = probe.content_digest == original.content_digest
        return DuplicateOf(
            original_id=original.document_id,
            original=original.source,
            original_event_time_ms=original.event_time_ms,
            distance=distance,
            block=self._first_shared(probe, original),
            method=Method.EXACT if same else Method.NEAR,
            agreement=None if same or self._confirmation is None else agreement,
        )

    def _park(
        self,
        visit: Visit,
        behind: SourcePosition,
        effects: list[Effect],
        ticket: PutParked | None,
    ) -> None:
        """Let a document wait; one that waited before keeps its ticket, and with it its turn."""
        if ticket is None:
            number = self._next_ticket
            self._next_ticket += 1
        else:
            number = ticket.ticket
        parked = PutParked(number, behind, visit)
        self._parked.setdefault(behind, []).append(parked)
        effects.append(Remember(parked))

    def _settle(self, source: SourcePosition, effects: list[Effect], *, confirmed: bool) -> None:
        """Turn a pending entry into a confirmed one, or into none; wake those parked behind it."""
        try:
            entry = self._pending.take(source)
        except KeyError:
            raise ProtocolError(
                f"partition {self.partition} has no pending entry of {source} to settle"
            ) from None
        effects.append(Remember(PutPending(source, None)))
        if confirmed:
            self._confirm(entry, effects)
        # A document that wakes may park again, but never behind this one: it is pending no more.
        waking = deque(sorted(self._parked.pop(source, ()), key=lambda parked: parked.ticket))
        while waking:
            parked = waking.popleft()
            if parked.visit is not None:
                self._visit(parked.visit, effects, parked)

    def _confirm(self, entry: Entry, effects: list[Effect]) -> None:
        change = PutEntry(self._next_order, entry)
        self._next_order += 1
        self._table.stage(change)
        effects.append(Remember(change))

    def _send_all(
        self, partitions: tuple[int, ...], message: Message, effects: list[Effect]
    ) -> None:
        for partition in partitions:
            number = self._sent.get(partition, 0)
            self._sent[partition] = number + 1
            effects.append(Send(partition, number, message))


def owned_buckets(placement: Placement, partition: int, entry: Entry) -> list[Bucket]:
    """Return the buckets of an entry that ``partition`` owns and so indexes."""
    route = placement.by_partition(entry.fingerprint, entry.content_digest)
    return route.get(partition, [])


def first_partition(probe: Probe, placement: Placement) -> int:
    """Return the partition that a document visits first."""
    return next(iter(placement.by_partition(probe.fingerprint, probe.content_digest)))


def _entry(probe: Probe) -> Entry:
    return Entry(
        probe.source,
        probe.document_id,
        probe.event_time_ms,
        probe.fingerprint,
        probe.content_digest,
        probe.sketch,
    )
