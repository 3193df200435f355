"""Many seeds, in chunks that processes share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tests.simulation.scenario import draw_scenario
from tests.simulation.world import Runs, simulate

_CHUNK: Final = 50


def chunks(start: int, seeds: int) -> Iterator[range]:
    for first in range(start, start + seeds, _CHUNK):
        yield range(first, min(first + _CHUNK, start + seeds))


def run_seeds(seeds: range) -> Runs:
    """Run some seeds, until one fails."""
    total = Runs()
    for seed in seeds:
        try:
            total = total.joined(simulate(draw_scenario(seed)))
        except Exception as error:  # noqa: BLE001 - whatever fails is what is looked for
            why = f"{type(error).__name__}: {error}"
            return total.joined(Runs(1, failure=(seed, why)))
    return total
