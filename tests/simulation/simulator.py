"""A simulator of any kind: runs seeds one by one, and adds up their results."""

from __future__ import annotations

import gc
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Runs:
    """The results of some seeds.

    ``counts``: how many records, packets and so on there were. ``longest_step``: seconds that an
    event loop was busy. ``failures``: the seeds that fail, and why.
    """

    seeds: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    longest_step: float = 0.0
    failures: tuple[tuple[int, str], ...] = ()

    def joined(self, other: Runs) -> Runs:
        return Runs(
            self.seeds + other.seeds,
            self.counts + other.counts,
            self.faults + other.faults,
            max(self.longest_step, other.longest_step),
            self.failures + other.failures,
        )


@dataclass(frozen=True, slots=True)
class Simulator:
    """Draws scenarios from seeds, and runs them.

    ``simulate`` fills a story and raises ``ViolationError``. ``one_release``: the changes to the
    scenario of a mutant, unless the mutant says otherwise. ``tries``: how many seeds may miss a
    mutant. ``chunk``: how many seeds a process gets at once.
    """

    name: str
    draw: Callable[[int], Any]
    simulate: Callable[[Any, list[str] | None], Runs]
    one_release: Mapping[str, Any]
    tries: int
    chunk: int

    def failure(self, scenario: object, story: list[str] | None = None) -> Exception | None:
        """Return what fails in a scenario: an invariant, or any error of the code itself."""
        try:
            self.simulate(scenario, story)
        except Exception as error:  # noqa: BLE001 - broken code fails in any way
            return error
        return None

    def chunks(self, start: int, seeds: int) -> Iterator[range]:
        for first in range(start, start + seeds, self.chunk):
            yield range(first, min(first + self.chunk, start + seeds))

    def run_seeds(self, seeds: range) -> Runs:
        """Run seeds, and continue after a failure."""
        total = Runs()
        for seed in seeds:
            try:
                runs = self.simulate(self.draw(seed), None)
            except Exception as error:  # noqa: BLE001 - whatever fails is what is looked for
                runs = Runs(1, failures=((seed, described(error)),))
            total = total.joined(runs)
        return total


def described(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def prepare() -> None:
    """Prepare a process for many seeds: loaded objects stay, and asyncio logs nothing."""
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    gc.collect()
    gc.freeze()
