"""The invariants of the design, over thousands of random interleavings with faults.

``FIRSTSEEN_SIMULATION_SEEDS`` sets how many seeds run (2000); ``make simulate SEED=…`` replays one.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import Final

import pytest

from simhash_core.blocks import BlockScheme
from simhash_core.placement import Placement
from tests.simulation.cluster import simulate
from tests.simulation.invariants import ViolationError
from tests.simulation.message_costs import PARTITIONS, cost, expected_for_uniques
from tests.simulation.scenario import (
    UNFENCED_FAULTS,
    Delivery,
    Fault,
    RawDocument,
    Scenario,
    draw_scenario,
)
from tests.simulation.stage import Reached

SEEDS: Final = int(os.environ.get("FIRSTSEEN_SIMULATION_SEEDS") or 2_000)
LOTS: Final = 8


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("lot", range(LOTS))
def test_invariants_hold(lot: int) -> None:
    """Given random documents, partitions, delays and faults, when everything is at rest, then
    separation, grounding, conservation, stability and one answer hold, and nothing is left waiting.
    """
    for seed in range(lot, SEEDS, LOTS):
        try:
            simulate(draw_scenario(seed))
        except ViolationError as violation:
            pytest.fail(f"{violation}\nmake simulate SEED={seed} shrinks it and tells its story")


def test_seeds_reach_what_they_are_for() -> None:
    """Given a few hundred seeds, then each kind of fault has struck, in runs of either delivery,
    documents have parked and withdrawn, and shards were opened in each of the ways.
    """
    faults: Counter[Fault] = Counter()
    reached: Counter[Reached] = Counter()
    deliveries: Counter[Delivery] = Counter()
    for seed in range(300):
        scenario = draw_scenario(seed)
        report = simulate(scenario)
        faults += report.faults
        reached += report.reached
        deliveries[scenario.delivery] += 1

    assert min(faults[fault] for fault in Fault) >= 50, faults
    assert min(reached[event] for event in Reached) >= 3, reached
    assert min(deliveries[delivery] for delivery in Delivery) >= 50, deliveries


def test_a_seed_replays() -> None:
    """Given one seed, when it runs twice, then it tells the same story word for word."""
    stories: list[list[str]] = [[], []]

    for story in stories:
        simulate(draw_scenario(3), story=story)

    assert len(stories[0]) > 20
    assert stories[0] == stories[1]


def test_many_documents_through_many_shards() -> None:
    """Given 600 documents, 16 shards and 60 faults, then the invariants hold there too."""
    scenario = replace(
        draw_scenario(1),
        placement=Placement(BlockScheme(64, 16, 12), 16),
        documents=_documents_of_seeds(range(1_000, 1_100), BlockScheme(64, 16, 12), 600),
        raw_partitions=4,
        workers=4,
        delivery=Delivery.EXACTLY_ONCE,
        faults=frozenset(Fault),
        faults_most=60,
        batch_most=8,
    )

    report = simulate(scenario)

    assert report.documents == 600
    assert report.faults.total() == 60


def _documents_of_seeds(seeds: range, scheme: BlockScheme, size: int) -> tuple[RawDocument, ...]:
    drawn = [draw_scenario(seed) for seed in seeds]
    documents = [
        document
        for scenario in drawn
        if scenario.placement.scheme.bits == scheme.bits
        for document in scenario.documents
    ]
    return tuple(documents[:size])


def test_without_transactions_everything_but_repeats_holds() -> None:
    """Given no transactions, and crashes in the midst of what a batch publishes, then outputs may
    repeat, with the same content, and all else holds.
    """
    for seed in range(150):
        scenario = draw_scenario(seed)
        simulate(
            replace(
                scenario,
                delivery=Delivery.AT_LEAST_ONCE,
                faults=UNFENCED_FAULTS,
                faults_most=20,
            )
        )


@pytest.mark.parametrize("partitions", PARTITIONS)
def test_unique_documents_cost_what_the_formula_says(partitions: int) -> None:
    """Given unrelated documents, then the messages between shards are two for each partition
    beyond the first that a document visits: the visit, and the confirm that goes back.
    """
    visits, settling = cost(partitions, duplicates=0.0)

    assert visits == settling
    assert visits + settling == pytest.approx(expected_for_uniques(partitions), rel=0.03)


@pytest.mark.parametrize("partitions", PARTITIONS)
def test_duplicates_cost_less(partitions: int) -> None:
    """Given three quarters of duplicates, then a document costs less than half of a unique one,
    and each visit onward is settled by one message: a confirm or a withdraw.
    """
    visits, settling = cost(partitions, duplicates=0.75)

    assert visits == settling
    assert visits + settling <= expected_for_uniques(partitions) / 2


def test_scenario_offsets_have_gaps() -> None:
    """Given raw partitions with offsets left out, as markers leave them, then arrivals rise, and
    not always by one: numbers of first visits are offsets, and must not be counted on.
    """
    offsets = [
        message.probe.source.offset
        for arrivals in _with_gaps().arrivals()
        for message in arrivals
        if hasattr(message, "probe")
    ]

    assert offsets == sorted(offsets)
    assert any(later - earlier > 1 for earlier, later in pairwise(offsets))


def _with_gaps() -> Scenario:
    scenario = draw_scenario(0)
    documents = tuple(
        replace(document, raw_partition=0, gap=index % 3, readable=True)
        for index, document in enumerate(scenario.documents)
    )
    return replace(scenario, raw_partitions=1, documents=documents)
