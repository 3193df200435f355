"""What must hold at the end of a run, checked by brute force over all documents.

The numbers are those of the design: separation, grounding, conservation, stability, one answer.
"""

from __future__ import annotations

from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from simhash_core.distance import distance_bits
from simhash_core.documents import SourcePosition
from simhash_core.effects import Emit, EmitDeadLetter
from simhash_core.memory_table import MemoryBlockTable
from simhash_core.placement import Placement
from simhash_core.probes import Probe, Refuse, Visit, shard_sender
from simhash_core.shard import Shard, owned_buckets
from simhash_core.verdicts import DuplicateOf, Method, Undecidable, Unique, Verdict
from tests.simulation.broker import Output
from tests.simulation.scenario import Delivery
from tests.simulation.sketches import CONFIRMATION

if TYPE_CHECKING:
    from tests.simulation.shard_owner import ShardOwner


class ViolationError(Exception):
    """An invariant does not hold; ``invariant`` is its name."""

    def __init__(self, invariant: str, what: str) -> None:
        """Keep the name apart, for shrinking to the same fault."""
        self.invariant = invariant
        super().__init__(f"{invariant}: {what}")


class Finished(NamedTuple):
    """A run at rest."""

    placement: Placement
    delivery: Delivery
    arrivals: list[list[Visit | Refuse]]
    outputs: list[Output]
    owners: list[ShardOwner]


class Answer(NamedTuple):
    """The decided documents. ``turns``: when the first output of each was committed."""

    probes: dict[SourcePosition, Probe]
    verdicts: dict[SourcePosition, Verdict]
    turns: dict[SourcePosition, int]

    def uniques(self) -> list[Probe]:
        """Return the documents that are on ``unique``, in the order in which they got there."""
        found = [
            source
            for source, verdict in self.verdicts.items()
            if not isinstance(verdict, DuplicateOf)
        ]
        return [self.probes[source] for source in sorted(found, key=self.turns.__getitem__)]

    def duplicates(self) -> list[tuple[Probe, DuplicateOf]]:
        """Return the duplicates with their verdicts."""
        return [
            (self.probes[source], verdict)
            for source, verdict in self.verdicts.items()
            if isinstance(verdict, DuplicateOf)
        ]


def check(run: Finished) -> Answer:
    """Raise ``ViolationError`` where an invariant does not hold."""
    check_rest(run)
    answer = check_conservation(run)
    check_separation(answer, run.placement)
    check_grounding(answer, run)
    check_one_answer(answer, run.placement)
    check_tables(answer, run)
    return answer


def meet(a: Probe, b: Probe, placement: Placement) -> bool:
    """Whether two documents are near and share a bucket, of blocks or of content."""
    if not a.fingerprint or not b.fingerprint:
        return a.fingerprint == b.fingerprint and a.content_digest == b.content_digest
    distance = distance_bits(a.fingerprint, b.fingerprint)
    if distance > placement.scheme.distance or agreement(distance, a, b) is None:
        return False
    return bool(placement.scheme.shared_blocks(a.fingerprint, b.fingerprint))


def agreement(distance: int, a: Probe, b: Probe) -> float | None:
    """How far the sketches of two documents agree, None if too little; 1 for equal content."""
    if a.content_digest == b.content_digest:
        return 1.0
    return CONFIRMATION.agreement(distance, a.sketch, b.sketch)


def check_rest(run: Finished) -> None:
    """Nothing waits, nothing is pending: no deadlock, and nothing forgotten."""
    for owner in run.owners:
        shard = owner.shard
        if shard.parked or shard.pending or shard._parked or shard._pending._by_bucket:
            raise ViolationError(
                "rest",
                f"{owner} has {shard.pending} pending, {shard.parked} parked behind "
                f"{[str(source) for source in shard._parked]}",
            )
        left = owner.table.in_flight()
        if left.pending or left.parked:
            raise ViolationError("rest", f"the table of {owner} has {left} in flight")


def check_conservation(run: Finished) -> Answer:
    """3 and 4: each raw record has one committed output, or, without transactions, equal ones."""
    raw = {_source(message): message for arrivals in run.arrivals for message in arrivals}
    first = _first_outputs(run)
    if first.keys() != raw.keys():
        raise ViolationError(
            "conservation", f"lost: {[str(source) for source in raw.keys() - first.keys()]}"
        )
    answer = Answer({}, {}, {})
    for source, output in first.items():
        message = raw[source]
        match output.effect:
            case EmitDeadLetter(rejection):
                if not isinstance(message, Refuse) or message.rejection != rejection:
                    raise ViolationError("conservation", f"{source} became another dead letter")
            case Emit(probe, verdict):
                if not isinstance(message, Visit) or message.probe != probe:
                    raise ViolationError("conservation", f"{source} was changed on its way")
                answer.probes[source] = probe
                answer.verdicts[source] = verdict
                answer.turns[source] = output.turn
    return answer


def _source(message: Visit | Refuse) -> SourcePosition:
    return message.probe.source if isinstance(message, Visit) else message.rejection.source


def _first_outputs(run: Finished) -> dict[SourcePosition, Output]:
    first: dict[SourcePosition, Output] = {}
    for output in run.outputs:
        before = first.setdefault(output.source, output)
        if before is output:
            continue
        if run.delivery is Delivery.EXACTLY_ONCE:
            raise ViolationError("conservation", f"{output.source} is put out twice")
        if before.effect != output.effect:
            raise ViolationError(
                "stability", f"{before.effect} is put out, and after a crash {output.effect}"
            )
    return first


def check_separation(answer: Answer, placement: Placement) -> None:
    """1: no two uniques are near and share a bucket."""
    uniques = answer.uniques()
    by_bucket: dict[bytes, list[Probe]] = {}
    for probe in uniques:
        way = placement.by_partition(probe.fingerprint, probe.content_digest)
        for bucket in chain.from_iterable(way.values()):
            by_bucket.setdefault(bucket, []).append(probe)
    for together in by_bucket.values():
        for index, a in enumerate(together):
            for b in together[:index]:
                if meet(a, b, placement):
                    raise ViolationError(
                        "separation", f"{a.source} and {b.source} are near, and both unique"
                    )


def check_grounding(answer: Answer, run: Finished) -> None:
    """2: each duplicate names a document that is on ``unique``, near, and was there before it."""
    scheme = run.placement.scheme
    for probe, verdict in answer.duplicates():
        original = answer.probes.get(verdict.original)
        if original is None or isinstance(answer.verdicts[verdict.original], DuplicateOf):
            raise ViolationError(
                "grounding", f"{probe.source} repeats {verdict.original}, which is not unique"
            )
        if not meet(probe, original, run.placement):
            raise ViolationError(
                "grounding", f"{probe.source} repeats {original.source}, which is not near"
            )
        same = probe.content_digest == original.content_digest
        block = None
        if probe.fingerprint:
            block = scheme.shared_blocks(probe.fingerprint, original.fingerprint)[0]
        distance = distance_bits(probe.fingerprint, original.fingerprint)
        expected = DuplicateOf(
            original.document_id,
            original.source,
            original.event_time_ms,
            distance,
            block,
            Method.EXACT if same else Method.NEAR,
            None if same else agreement(distance, probe, original),
        )
        if verdict != expected:
            raise ViolationError("grounding", f"{probe.source}: {verdict}, but {expected} is true")
        # Without transactions the record of a duplicate can be seen a moment before its original.
        late = answer.turns[original.source] > answer.turns[probe.source]
        if late and run.delivery is Delivery.EXACTLY_ONCE:
            raise ViolationError(
                "grounding", f"{probe.source} was out before its original {original.source}"
            )


def check_one_answer(answer: Answer, placement: Placement) -> None:
    """5: one shard that takes the uniques first, then the duplicates, says the same of each.

    The same uniques, and of each duplicate that it is one. *Which* original a duplicate names is
    not part of this: it is the nearest that it meets in the first partition where it meets any,
    and there need not be an order in which one shard names the same for all.
    """
    alone = Placement(placement.scheme, 1)
    table = MemoryBlockTable(partial(owned_buckets, alone, 0))
    shard = Shard(0, alone, table, CONFIRMATION)
    documents = answer.uniques() + [probe for probe, _ in answer.duplicates()]
    for number, probe in enumerate(documents):
        for effect in shard.handle("one order", number, Visit(probe)):
            if not isinstance(effect, Emit):
                continue
            verdict = answer.verdicts[probe.source]
            if isinstance(verdict, Unique | Undecidable):
                agrees = effect.verdict == verdict
            else:
                agrees = isinstance(effect.verdict, DuplicateOf)
            if not agrees:
                raise ViolationError(
                    "one answer",
                    f"{probe.source} was {verdict}; one shard alone says {effect.verdict}",
                )


def check_tables(answer: Answer, run: Finished) -> None:
    """At rest each shard holds the uniques with a bucket there, and has received all that was sent.

    And what its changelog alone gives back is what it holds.
    """
    expected: dict[int, set[SourcePosition]] = {owner.partition: set() for owner in run.owners}
    for probe in answer.uniques():
        way = run.placement.by_partition(probe.fingerprint, probe.content_digest)
        for partition in way:
            expected[partition].add(probe.source)
    progress = [owner.table.in_flight().progress for owner in run.owners]
    for owner in run.owners:
        mine = progress[owner.partition]
        table = owner.table
        held = _held(table, mine.next_order)
        if len(table) != len(held) or sorted(held) != sorted(expected[owner.partition]):
            raise ViolationError("tables", f"{owner} holds {held}")
        for sender, theirs in enumerate(progress):
            sent = theirs.sent.get(owner.partition, 0)
            if mine.received.get(shard_sender(sender), -1) != sent - 1:
                raise ViolationError("tables", f"{owner} has not received all of shard {sender}")
        recovered = owner.recovered_from_changelog()
        if recovered.in_flight() != table.in_flight() or len(recovered) != len(table):
            raise ViolationError("tables", f"the changelog of {owner} gives another state")
        if _held(recovered, mine.next_order) != held:
            raise ViolationError("tables", f"the changelog of {owner} gives other entries")


def _held(table: MemoryBlockTable, next_order: int) -> list[SourcePosition]:
    """Return the documents of a table in the order of their confirmation."""
    try:
        return [table.entry(order).source for order in range(next_order)]
    except KeyError as error:
        raise ViolationError("tables", f"no entry {error} of {next_order}") from error
