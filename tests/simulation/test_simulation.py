"""The protocol holds under random interleavings, and the scenarios are those that were intended."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor

import pytest

from tests.simulation.scenario import Fault, draw_scenario
from tests.simulation.simulator import Runs
from tests.simulation.world import PROTOCOL, simulate

SEEDS = 600
PROCESSES = 2


@pytest.mark.slow
def test_invariants_hold() -> None:
    total = Runs()
    spawn = multiprocessing.get_context("spawn")  # a fork would copy the threads of other tests
    with ProcessPoolExecutor(PROCESSES, mp_context=spawn) as pool:
        for runs in pool.map(PROTOCOL.run_seeds, PROTOCOL.chunks(0, SEEDS)):
            total = total.joined(runs)

    assert not total.failures
    assert total.seeds == SEEDS
    assert {*total.faults} == {*Fault}
    assert total.counts["records"] > 10 * SEEDS


def test_same_seed_is_same_story() -> None:
    stories: list[list[str]] = [[], []]
    for story in stories:
        simulate(draw_scenario(11), story=story)

    assert stories[0] == stories[1]
    assert len(stories[0]) > 20


def test_scenarios_have_what_is_hard() -> None:
    scenarios = [draw_scenario(seed) for seed in range(100)]
    documents = [
        [each for partition in scenario.partitions for each in partition if each is not None]
        for scenario in scenarios
    ]

    assert any(scenario.later for scenario in scenarios)
    assert any(not all(scenario.born) for scenario in scenarios)
    assert any(scenario.queries for scenario in scenarios)
    assert any(scenario.verifier for scenario in scenarios)
    assert any(not scenario.scheme.guaranteed for scenario in scenarios)
    assert any(scenario.scheme.bands for scenario in scenarios)
    assert any(scenario.window for scenario in scenarios)
    assert any(scenario.replaces for scenario in scenarios)
    assert any(scenario.standbys for scenario in scenarios)
    assert any(each.is_delete for drawn in documents for each in drawn)
    assert any(each.scope for drawn in documents for each in drawn)
    assert any(len({each.document_id for each in drawn}) < len(drawn) for drawn in documents)
    assert any(each.fingerprint is None for drawn in documents for each in drawn)
    assert any(len({each.digest for each in drawn}) < len(drawn) for drawn in documents)
