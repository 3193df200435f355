"""Whole workers keep their rules in the simulator, and the simulator notices each broken rule."""

from __future__ import annotations

import itertools
import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

import pytest

from tests.simulate import MUTANTS as ALL_MUTANTS
from tests.simulate import report_caught
from tests.simulation.documents import DRAWN_MS, START_MS, SimulatedDocument
from tests.simulation.mutant import FIRST_SEEDS
from tests.simulation.mutants import MUTANTS as PROTOCOL_MUTANTS
from tests.simulation.simulator import Runs, prepare
from tests.worker_simulation.loop import EPOCH_SECONDS
from tests.worker_simulation.mutants import MUTANTS
from tests.worker_simulation.scenario import WorkerScenario, draw_worker_scenario
from tests.worker_simulation.world import WHOLE_WORKERS, simulate

SEEDS = 40
COUNTED_SEED = 33
ARCHIVES = 6
A_HUNDRED = 100
STANDBY_READ_LOST_COMMIT = 306_044
"""All brokers lose power, and with it a commit that a standby has read; then it is to succeed."""
SESSION_AFTER_LOSS = 304_894
"""All brokers lose power when a session begins, which reads what is left of the log; lost records
had made entries of the index expire."""
STANDBY_OF_LOST_PROGRESS = 331_186
"""At least once, the changelog lacks the group's last progress, and a standby is to succeed."""
REMOVAL_BEFORE_ITS_DOCUMENT = 376_287
"""An owner commits the removal of an entry before the document of that entry, and then keeps the
shard as a standby. The next owner commits the document with its entry, and removes it later."""
COMMIT_LONGER_THAN_A_REVOCATION = 378_545
"""A commit takes longer than its worker may wait with a revocation. The worker then has to release
more, and so keeps its epoch (protocol ``consumer``): the coordinator takes the commit's offsets."""
REPORT_TO_A_NEW_TOPIC = 379_805
"""A report comes late, to a topic of reports that was created again. Its producer's next one is out
of order there, and nobody knows which reports the topic has."""
OFFSET_LOST_WHILE_OPENING = 383_762
"""A worker that opens a shard knows the group's offset when all brokers lose power, and with it the
last commit; then it reads the changelog."""
PROCESSES = 2
PARTS = 6
"""The number of parts of the mutants; each part has a time limit of its own."""


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessPoolExecutor]:
    """Yield processes with a fixed hash seed, so that sets have the same order and seeds repeat."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONHASHSEED", "0")
        spawn = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(PROCESSES, mp_context=spawn, initializer=prepare) as pool:
            yield pool


@pytest.mark.slow
def test_whole_workers_hold(pool: ProcessPoolExecutor) -> None:
    total = Runs()
    for runs in pool.map(WHOLE_WORKERS.run_seeds, WHOLE_WORKERS.chunks(0, SEEDS)):
        total = total.joined(runs)

    assert not total.failures
    assert total.seeds == SEEDS
    assert total.counts["records"] > 10 * SEEDS


@pytest.mark.parametrize(
    "seed",
    [
        STANDBY_READ_LOST_COMMIT,
        SESSION_AFTER_LOSS,
        STANDBY_OF_LOST_PROGRESS,
        REMOVAL_BEFORE_ITS_DOCUMENT,
        COMMIT_LONGER_THAN_A_REVOCATION,
        REPORT_TO_A_NEW_TOPIC,
        OFFSET_LOST_WHILE_OPENING,
    ],
)
def test_a_fault_that_a_seed_found_stays_mended(pool: ProcessPoolExecutor, seed: int) -> None:
    (runs,) = pool.map(WHOLE_WORKERS.run_seeds, [range(seed, seed + 1)])

    assert not runs.failures


def archive_of(seed: int) -> WorkerScenario:
    """Return a scenario in which two workers read an archive, and no document may be late."""
    archive = next(each for each in MUTANTS if "does not wait for others" in each.name)
    scenario: WorkerScenario = archive.scenario(seed)
    return scenario


def test_no_document_of_an_archive_is_late() -> None:
    """Workers begin at different times, and partitions have different numbers of records."""
    for seed in range(ARCHIVES):
        simulate(archive_of(seed))


def test_documents_of_today_wait_for_the_archive_of_another_worker() -> None:
    """One partition has an archive, and the other one only documents of the last moments."""
    for seed in range(2):
        scenario = archive_of(seed)
        archived, today = (each[:A_HUNDRED] for each in scenario.partitions[:2])
        time_ms = START_MS + (int(EPOCH_SECONDS) - 1) * DRAWN_MS
        today = [each and each._replace(time_ms=time_ms) for each in today]
        simulate(replace(scenario, partitions=[archived, today], born=2))


def test_few_documents_of_an_archive_wait_for_many_of_another_worker() -> None:
    """One partition has a document for each two seconds, and the other one for each 40."""
    for seed in range(2):
        scenario = archive_of(seed)
        partitions: list[list[SimulatedDocument | None]] = []
        for drawn, seconds, count in zip(scenario.partitions[:2], (2, 40), (400, 20), strict=True):
            documents = [each for each in drawn if each and not each.is_delete][:count]
            times_ms = itertools.count(START_MS, seconds * DRAWN_MS)
            partitions.append(
                [each._replace(time_ms=t) for each, t in zip(documents, times_ms, strict=False)]
            )
        simulate(replace(scenario, partitions=partitions, born=2))


def test_a_seed_repeats() -> None:
    """The second run has the same story although caches are full; this seed counts its steps."""
    stories: list[list[str]] = [[], []]
    for story in stories:
        simulate(draw_worker_scenario(COUNTED_SEED), story)

    assert draw_worker_scenario(COUNTED_SEED).counted
    assert stories[0] == stories[1]


def test_mutants_have_different_names() -> None:
    assert len(ALL_MUTANTS) == len(MUTANTS) + len(PROTOCOL_MUTANTS)
    assert FIRST_SEEDS.keys() <= ALL_MUTANTS.keys()


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", range(PARTS))
def test_mutants_are_caught(pool: ProcessPoolExecutor, part: int) -> None:
    names = [each.name for each in MUTANTS[part::PARTS]]
    caught = pool.map(report_caught, names)

    assert [name for name, is_caught in zip(names, caught, strict=True) if not is_caught] == []
