"""Many seeds of whole workers, in chunks that processes share."""

from __future__ import annotations

import gc
import logging
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from tests.worker_simulation.scenario import draw_worker_scenario
from tests.worker_simulation.world import simulate

_CHUNK: Final = 10


@dataclass(frozen=True, slots=True)
class WorkerRuns:
    """What came of some seeds; ``failures``: those that do not hold, and why."""

    seeds: int = 0
    documents: int = 0
    packets: int = 0
    lives: int = 0
    seconds: float = 0.0
    longest_step: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)
    failures: tuple[tuple[int, str], ...] = ()

    def joined(self, other: WorkerRuns) -> WorkerRuns:
        return WorkerRuns(
            self.seeds + other.seeds,
            self.documents + other.documents,
            self.packets + other.packets,
            self.lives + other.lives,
            self.seconds + other.seconds,
            max(self.longest_step, other.longest_step),
            self.faults + other.faults,
            self.failures + other.failures,
        )


def chunks(start: int, seeds: int) -> Iterator[range]:
    for first in range(start, start + seeds, _CHUNK):
        yield range(first, min(first + _CHUNK, start + seeds))


def prepare() -> None:
    """Let a process run many seeds: what is loaded stays, and asyncio says nothing."""
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    gc.collect()
    gc.freeze()


def run_seeds(seeds: range) -> WorkerRuns:
    """Run some seeds, those that fail included."""
    total = WorkerRuns()
    for seed in seeds:
        try:
            summary = simulate(draw_worker_scenario(seed))
        except Exception as error:  # noqa: BLE001 - whatever fails is what is looked for
            why = f"{type(error).__name__}: {error}"
            total = total.joined(WorkerRuns(1, failures=((seed, why),)))
            continue
        total = total.joined(
            WorkerRuns(
                1,
                summary.documents,
                summary.packets,
                summary.lives,
                summary.seconds,
                summary.longest_step,
                summary.faults,
            )
        )
    return total


def run_story(seed: int) -> tuple[list[str], str | None]:
    story: list[str] = []
    try:
        simulate(draw_worker_scenario(seed), story)
    except Exception as error:  # noqa: BLE001 - whatever fails is what is looked for
        return story, f"{type(error).__name__}: {error}"
    return story, None
