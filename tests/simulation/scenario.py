"""Scenarios: the documents, the block scheme, the partitions and the faults that a seed stands for.

Fingerprints are made, not computed from text: clusters whose members differ by a few bits from one
another, with block values drawn from a small vocabulary, so that near documents abound, documents
of different clusters share buckets, and nearness is not transitive.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from random import Random
from typing import Final

from simhash_core.blocks import BlockScheme
from simhash_core.documents import RawRecord, SourcePosition
from simhash_core.placement import Placement
from simhash_core.probes import Probe, Refuse, Visit
from simhash_core.rejections import Rejection, RejectionReason
from simhash_core.verdicts import UndecidableReason
from tests.simulation.sketches import VALUES

RAW_TOPIC: Final = "raw"

SCHEMES: Final = (
    BlockScheme(64, 4, 3),
    BlockScheme(64, 16, 4),
    BlockScheme(64, 8, 10),  # beyond the block count: near documents need not meet
    BlockScheme(64, 16, 18),
    BlockScheme(64, 2, 1),
    BlockScheme(128, 16, 12),
)


class Delivery(StrEnum):
    """How the batch of a shard is committed."""

    EXACTLY_ONCE = "exactly_once"
    AT_LEAST_ONCE = "at_least_once"


class Fault(StrEnum):
    """What can go wrong."""

    CRASH_SHARD = "a shard crashes"
    CRASH_WORKER = "a worker crashes, with all its shards"
    LOSE_DISK = "a worker crashes and its disk is lost"
    MOVE_SHARD = "a shard moves to another worker"
    ZOMBIE_SHARD = "a shard moves, and its old owner goes on"
    ABORT = "a transaction is aborted"
    CRASH_AGENT = "a fingerprint agent crashes"
    ZOMBIE_AGENT = "a raw partition moves, and its old agent goes on"
    COMPACT = "changelogs are compacted"


# Without transactions nothing fences an old owner, and nothing can be aborted.
UNFENCED_FAULTS: Final = frozenset(Fault) - {Fault.ZOMBIE_SHARD, Fault.ABORT}


@dataclass(frozen=True, slots=True)
class RawDocument:
    """One raw record and what a fingerprint agent reads in it.

    ``fingerprint`` is empty for one that is undecidable, and for one that is not ``readable``.
    ``gap``: offsets that are left out before it, as markers and compaction leave them out.
    """

    name: str
    raw_partition: int
    gap: int
    fingerprint: bytes
    content_digest: bytes
    readable: bool = True
    sketch: bytes = b""


@dataclass(frozen=True, slots=True)
class Scenario:
    """All that decides a run.

    ``faults_most``: how many faults there are at most; ``batch_most``: packets to a transaction,
    and raw records to a step of a fingerprint agent.
    """

    schedule_seed: int
    placement: Placement
    raw_partitions: int
    workers: int
    delivery: Delivery
    documents: tuple[RawDocument, ...]
    faults: frozenset[Fault]
    faults_most: int
    batch_most: int

    def arrivals(self) -> list[list[Visit | Refuse]]:
        """Return the first message of each raw record, by raw partition, offsets ascending."""
        arrivals: list[list[Visit | Refuse]] = [[] for _ in range(self.raw_partitions)]
        next_offset = [0] * self.raw_partitions
        for document in self.documents:
            partition = document.raw_partition
            offset = next_offset[partition] + document.gap
            next_offset[partition] = offset + 1
            source = SourcePosition(RAW_TOPIC, partition, offset)
            arrivals[partition].append(_first_message(document, source))
        return arrivals


def _first_message(document: RawDocument, source: SourcePosition) -> Visit | Refuse:
    record = RawRecord(document.name.encode(), document.content_digest, 1_000 + source.offset)
    if not document.readable:
        return Refuse(Rejection(source, record, RejectionReason.NOT_JSON, "as the scenario says"))
    undecidable = None if document.fingerprint else UndecidableReason.NO_FEATURES
    return Visit(
        Probe(
            source,
            document.name,
            2_000 + source.offset,
            document.fingerprint,
            document.content_digest,
            undecidable,
            record,
            document.sketch,
        )
    )


def draw_scenario(seed: int) -> Scenario:
    """Return the scenario of a seed; most are small, a few have hundreds of documents."""
    chance = Random(f"scenario/{seed}")
    scheme = chance.choice(SCHEMES)
    raw_partitions = chance.randint(1, 4)
    delivery = Delivery.AT_LEAST_ONCE if chance.random() < 0.25 else Delivery.EXACTLY_ONCE
    possible = frozenset(Fault) if delivery is Delivery.EXACTLY_ONCE else UNFENCED_FAULTS
    return Scenario(
        schedule_seed=seed,
        placement=Placement(scheme, chance.choice((1, 2, 2, 3, 3, 4, 5, 8, 16))),
        raw_partitions=raw_partitions,
        workers=chance.randint(1, 4),
        delivery=delivery,
        documents=_sketched(seed, draw_documents(chance, scheme, _size(chance), raw_partitions)),
        faults=frozenset(fault for fault in sorted(possible) if chance.random() < 0.7),
        faults_most=chance.choice((0, 2, 5, 10, 20)),
        batch_most=chance.choice((1, 2, 4, 8, 16)),
    )


def _sketched(seed: int, documents: tuple[RawDocument, ...]) -> tuple[RawDocument, ...]:
    """Give the documents of every other seed sketches; equal content has equal ones."""
    if seed % 2:
        return documents
    sketches: dict[bytes, bytes] = {}
    chance = Random(f"sketches/{seed}")
    return tuple(
        replace(
            document,
            sketch=sketches.setdefault(document.content_digest, bytes((chance.randrange(VALUES),)))
            if document.fingerprint
            else b"",
        )
        for document in documents
    )


def fault_free(scenario: Scenario) -> Scenario:
    """Return the same scenario without faults."""
    return replace(scenario, faults=frozenset(), faults_most=0)


def _size(chance: Random) -> int:
    roll = chance.random()
    if roll < 0.90:
        return chance.randint(2, 40)
    if roll < 0.99:
        return chance.randint(40, 120)
    return chance.randint(200, 400)


def draw_documents(
    chance: Random, scheme: BlockScheme, size: int, raw_partitions: int = 1
) -> tuple[RawDocument, ...]:
    """Return ``size`` documents in clusters of one to a dozen, in random order."""
    vocabulary = [
        [chance.getrandbits(scheme.block_bits) for _ in range(chance.choice((1, 2, 3, 50)))]
        for _ in range(scheme.blocks)
    ]
    odd = chance.choice((0.0, 0.1, 0.3))
    contents: list[tuple[bytes, bytes, bool]] = []
    while len(contents) < size:
        if chance.random() < odd:
            contents += _odd_cluster(chance)
        else:
            contents += _cluster(chance, scheme, vocabulary)
    del contents[size:]
    chance.shuffle(contents)
    return tuple(
        RawDocument(
            name=f"d{index}",
            raw_partition=chance.randrange(raw_partitions),
            gap=chance.choice((0, 0, 0, 0, 1, 3)),
            fingerprint=fingerprint,
            content_digest=digest,
            readable=readable,
        )
        for index, (fingerprint, digest, readable) in enumerate(contents)
    )


def _cluster(
    chance: Random, scheme: BlockScheme, vocabulary: list[list[int]]
) -> list[tuple[bytes, bytes, bool]]:
    first = 0
    for values in vocabulary:
        first = first << scheme.block_bits | chance.choice(values)
    first <<= scheme.bits - scheme.blocks * scheme.block_bits
    numbers = [first]
    for _ in range(chance.choice((0, 1, 1, 2, 3, 5, 11))):
        number = chance.choice((first, numbers[-1]))  # a star, or a chain that drifts away
        for _ in range(chance.randint(0, scheme.distance + 1)):
            number ^= 1 << chance.randrange(scheme.bits)
        numbers.append(number)
    fingerprints = [number.to_bytes(scheme.bits // 8, "big") for number in numbers]
    return [(fingerprint, fingerprint[:8] * 2, True) for fingerprint in fingerprints]


def _odd_cluster(chance: Random) -> list[tuple[bytes, bytes, bool]]:
    """Return texts that cannot be near-matched, or a record that cannot be read."""
    digest = chance.randbytes(16)
    if chance.random() < 0.3:
        return [(b"", digest, False)]
    return [(b"", digest, True)] * chance.choice((1, 1, 2, 4))
