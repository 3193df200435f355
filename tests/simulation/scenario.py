"""Draws a scenario from a seed: documents, partitions, workers, and how often things happen.

The rules for the shell are here as well: a mutant breaks one of them.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from simhash_core.fingerprints.blocks import BlockScheme
from simhash_core.text.verification import Verifier
from simhash_core.window import Window
from tests.simulation.documents import (
    SCHEMES,
    SHINGLES,
    TOY,
    Families,
    SimulatedDocument,
    with_mean,
    with_triples,
)


class Fault(StrEnum):
    CRASH = "a worker crashes and restarts"
    ZOMBIE = "a worker is replaced and lives on"
    MOVE = "a partition moves"
    LEADER_MOVES = "the leading partition moves"
    REVOKE_ALL = "a worker loses everything"
    SESSION = "a worker begins a session again"
    SEND_AGAIN = "a worker sends again for nothing"
    ZOMBIE_ENDS = "a zombie ends"
    ZOMBIE_RETURNS = "a zombie joins again"
    STANDSTILL = "a worker stands still"


@dataclass(frozen=True, slots=True)
class Rules:
    """Rules for the shell; True: the rule is kept."""

    commits_are_fenced: bool = True
    entries_with_outputs: bool = True
    progress_with_outputs: bool = True
    initial_progress: bool = True
    """A new shard commits a progress before it sends anything."""
    trims_when_all_reported: bool = True
    """The log is trimmed only when all raw partitions have reported what they need."""
    trims_to_lowest: bool = True
    reads_reports_from_before: bool = True
    first_progress_has_clock: bool = True
    """The first progress of a shard has the watermark at the offset where it begins to read."""
    standbys_write_before_they_report: bool = True
    lost_shards_are_dropped: bool = True
    """A worker drops a shard that others had since, even if it owns the shard again."""
    lost_reports_are_sent_again: bool = True
    reports_again: bool = True
    """Undecided bundles are reported again, because an acknowledged report may be lost."""


KEPT: Final = Rules()


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexScenario:
    """The documents of one run, and the index that compares them.

    ``window``, ``replaces``: as in ``Nearness``. ``partitions``: the records of each raw partition;
    None is a record that is no document. ``memtable``, ``forgotten``, ``compared``: low limits of
    the core.
    """

    seed: int
    scheme: BlockScheme
    verifier: Verifier | None
    window: Window | None
    replaces: bool
    partitions: list[list[SimulatedDocument | None]]
    queries: list[SimulatedDocument] = field(default_factory=list)
    memtable: int
    forgotten: int
    compared: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario(IndexScenario):
    """One run of the protocol; ``standbys``: each shard has one.

    ``later``: the records of the topic that is created under the same name when the first is
    drained; empty: no topic is created. ``born``: which partitions exist at the beginning.
    ``doubled``, ``refused``, ``lost``: the probability of each for an append. ``late``: the
    probability that a broker does not respond at once. ``reordered``: the probability that an
    append overtakes others. ``vanishing``: the probability that a report is acknowledged, but never
    read. ``bundle``: the maximum number of documents in a bundle. ``arriving``, ``produced``: how
    often a late append arrives, and how often raw records are produced. ``reading``: how often
    workers read the log; 1: as often as the seed draws. ``beginning``: how soon a session begins
    with new shards; 1: in some steps. ``older``: the probability that a life that begins during
    chaos is of the release before; 1: there is no other release. ``kept``: the
    probability that a life keeps a shard that it lost as a standby.
    """

    later: list[list[SimulatedDocument | None]]
    born: list[bool]
    workers: int
    faults: dict[Fault, float]
    fault_limit: int
    fault_rate: float
    doubled: float
    refused: float
    lost: float
    late: float
    arriving: float
    reordered: float
    produced: float
    steps: int
    batch: int
    bundle: int
    report_limit: int
    decide_limit: int
    ready_limit: int
    standbys: bool
    vanishing: float
    reading: float = 1.0
    beginning: float = 1.0
    older: float = 1.0
    kept: float = 0.0
    rules: Rules = KEPT


RATES: Final = (0.3, 1.0, 3.0)
"""How often an action or a fault happens, compared with the others."""


def draw_scenario(seed: int) -> Scenario:
    rng = random.Random(seed)
    scheme = with_triples(seed, rng.choice(SCHEMES))
    verifier = rng.choice([None, None, TOY, TOY if scheme.bands else SHINGLES])
    families = Families(rng, scheme, verifier)
    partitions = rng.randint(1, 5)
    born = [partition == 0 or rng.random() < 0.6 for partition in range(partitions)]
    records = draw_records(rng, families, partitions, rng.randint(4, 40))
    later = []
    if rng.random() < 0.12:
        later = draw_records(rng, families, partitions, rng.randint(4, 20))
    quiet = rng.random() < 0.1
    chance = (0.0, 0.0, 0.05, 0.15)
    return Scenario(
        seed=seed,
        scheme=scheme,
        verifier=with_mean(seed, scheme, verifier),
        partitions=records,
        later=later,
        born=born,
        queries=[families.ask() for _ in range(rng.choice([0, 0, 2, 5]))],
        workers=rng.randint(1, 3),
        faults={fault: rng.choice((0.0, *RATES)) for fault in Fault},
        fault_limit=0 if quiet else rng.choice([4, 15, 40]),
        fault_rate=rng.choice([0.003, 0.01, 0.04]),
        doubled=rng.choice(chance),
        refused=rng.choice(chance),
        lost=rng.choice(chance),
        arriving=rng.choice([0.05, 0.15, 0.4]),
        late=rng.choice([0.2, 0.6, 0.9]),
        reordered=rng.choice([0.0, 0.2, 0.6]),
        produced=rng.choice([0.02, 0.1]),
        steps=rng.choice([400, 1_500, 4_000]),
        batch=rng.choice([1, 3, 6]),
        bundle=rng.choice([1, 4, 20]),
        report_limit=rng.choice([1, 3, 100]),
        decide_limit=rng.choice([1, 3, 100]),
        ready_limit=rng.choice([1, 3, 100]),
        memtable=rng.choice([4, 4, 16, 512]),
        forgotten=rng.choice([2, 1024]),
        compared=rng.choice([2, 1024]),
        window=_window(rng),
        replaces=rng.random() < 0.3,
        standbys=rng.random() < 0.5,
        vanishing=rng.choice(chance),
        # These are drawn separately, so that all other values of a seed stay the same.
        older=random.Random(~seed).choice([0.0, 0.3, 0.6, 0.6, 1.0]),
        kept=random.Random(f"kept {seed}").choice([0.0, 0.5, 1.0]),
    )


def _window(rng: random.Random) -> Window | None:
    if rng.random() < 0.5:
        return None
    return Window(rng.choice([0, 40, 150, 400]), rng.choice([0, 60, 300]))


def draw_records(
    rng: random.Random, families: Families, partitions: int, count: int
) -> list[list[SimulatedDocument | None]]:
    records: list[list[SimulatedDocument | None]] = [[] for _ in range(partitions)]
    nothing = rng.choice([0.0, 0.1, 0.4])
    for _ in range(count):
        document = None if rng.random() < nothing else families.draw()
        rng.choice(records).append(document)
    return records
