"""Runs many seeds of whole workers, in chunks for several processes."""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator
from typing import Final

from tests.worker_simulation.scenario import draw_worker_scenario
from tests.worker_simulation.world import WorkerRuns, simulate

_CHUNK: Final = 10


def chunks(start: int, seeds: int) -> Iterator[range]:
    for first in range(start, start + seeds, _CHUNK):
        yield range(first, min(first + _CHUNK, start + seeds))


def prepare() -> None:
    """Prepare a process for many seeds: loaded objects stay, and asyncio logs nothing."""
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    gc.collect()
    gc.freeze()


def run_seeds(seeds: range) -> WorkerRuns:
    """Run seeds, and continue after a failure."""
    total = WorkerRuns()
    for seed in seeds:
        try:
            total = total.joined(simulate(draw_worker_scenario(seed)))
        except Exception as error:  # noqa: BLE001 - whatever fails is what is looked for
            why = f"{type(error).__name__}: {error}"
            total = total.joined(WorkerRuns(1, failures=((seed, why),)))
    return total


def run_story(seed: int) -> tuple[list[str], str | None]:
    story: list[str] = []
    try:
        simulate(draw_worker_scenario(seed), story)
    except Exception as error:  # noqa: BLE001 - whatever fails is what is looked for
        return story, f"{type(error).__name__}: {error}"
    return story, None
