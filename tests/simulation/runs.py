"""Many seeds, in chunks that processes share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from tests.simulation.scenario import draw_scenario
from tests.simulation.world import simulate

_CHUNK: Final = 50


@dataclass(frozen=True, slots=True)
class Runs:
    """What came of some seeds; ``failure``: the first that fails, and why."""

    seeds: int = 0
    documents: int = 0
    packets: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    failure: tuple[int, str] | None = None

    def joined(self, other: Runs) -> Runs:
        """Return both together; ``other`` comes later."""
        return Runs(
            self.seeds + other.seeds,
            self.documents + other.documents,
            self.packets + other.packets,
            self.faults + other.faults,
            self.failure or other.failure,
        )


def chunks(start: int, seeds: int) -> Iterator[range]:
    for first in range(start, start + seeds, _CHUNK):
        yield range(first, min(first + _CHUNK, start + seeds))


def run_seeds(seeds: range) -> Runs:
    """Run some seeds, until one fails."""
    total = Runs()
    for seed in seeds:
        try:
            summary = simulate(draw_scenario(seed))
        except Exception as error:  # noqa: BLE001 - whatever fails is what is looked for
            why = f"{type(error).__name__}: {error}"
            return total.joined(Runs(1, failure=(seed, why)))
        total = total.joined(Runs(1, summary.documents, summary.packets, summary.faults))
    return total
