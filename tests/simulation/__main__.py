"""``make simulate``: run seeds until one fails; ``make simulate SEED=7`` tells what happens in one.

``make simulate SEEDS=100000`` is for the night. ``ARGS="--mutant 'the log is trimmed too far'"``
runs a broken protocol, ``ARGS=--mutants`` all of them, each until it is caught.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Final

from tests.simulation.mutant import Mutant, failure_of, first_caught
from tests.simulation.mutants import MUTANTS
from tests.simulation.narration import describe
from tests.simulation.runs import Runs, chunks, run_seeds

UNBROKEN: Final = Mutant("none")
MUTANT_SEEDS: Final = 3_000
PROGRESS_SECONDS: Final = 10.0


def main() -> int:
    """Run what the arguments say; 1 where an invariant does not hold."""
    parser = argparse.ArgumentParser(prog="make simulate", description=__doc__)
    parser.add_argument("--seed", type=int, help="replay this one, with its story")
    parser.add_argument("--seeds", type=int, default=2_000, help="how many to run (2000)")
    parser.add_argument("--start", type=int, default=0, help="the first of them (0)")
    parser.add_argument("--mutant", choices=[each.name for each in MUTANTS], metavar="NAME")
    parser.add_argument("--mutants", action="store_true", help="run all mutants")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    chosen = parser.parse_args()
    if chosen.mutants:
        return run_mutants()
    mutant = next((each for each in MUTANTS if each.name == chosen.mutant), UNBROKEN)
    if chosen.seed is not None:
        return replay(chosen.seed, mutant)
    if mutant is not UNBROKEN:
        return 0 if tell_caught(mutant, range(chosen.start, chosen.start + chosen.seeds)) else 1
    return run(chosen.start, chosen.seeds, chosen.processes)


def replay(seed: int, mutant: Mutant) -> int:
    """Run one seed, and tell its story."""
    story = describe(mutant.scenario(seed))
    failure = failure_of(mutant, seed, story)
    print("\n".join(story))
    if failure is None:
        print(f"seed {seed} holds")
        return 0
    print(f"VIOLATED  {type(failure).__name__}: {failure}")
    return 1


def run(start: int, seeds: int, processes: int) -> int:
    """Run seeds until one fails."""
    began = spoke = time.monotonic()
    total = Runs()
    faults: Counter[str] = Counter()
    with ProcessPoolExecutor(processes) as pool:
        for runs in pool.map(run_seeds, chunks(start, seeds)):
            total, faults = total.joined(runs), faults + runs.faults
            if total.failure is not None:
                pool.shutdown(cancel_futures=True)
                seed, why = total.failure
                print(f"seed {seed} fails: {why}\nreplay: make simulate SEED={seed}")
                return 1
            if time.monotonic() - spoke > PROGRESS_SECONDS:
                spoke = time.monotonic()
                print(f"  {total.seeds} of {seeds} seeds", file=sys.stderr)
    took = time.monotonic() - began
    print(f"{seeds} seeds hold: {total.documents} records, {total.packets} packets")
    print(f"{took:.1f} s, {seeds / max(took, 1e-9):.0f} seeds a second; {faults.total()} faults:")
    for fault, count in faults.most_common():
        print(f"{count:9} {fault}")
    return 0


def run_mutants() -> int:
    """Run each mutant until it is caught."""
    missed = [each.name for each in MUTANTS if not tell_caught(each, range(MUTANT_SEEDS))]
    print(f"{len(MUTANTS) - len(missed)} of {len(MUTANTS)} mutants caught")
    return 1 if missed else 0


def tell_caught(mutant: Mutant, seeds: range) -> bool:
    """Run a mutant until it is caught, and tell by which seed."""
    caught = first_caught(mutant, _spoken(seeds))
    if caught is None:
        print(f"NOT CAUGHT by {len(seeds)} seeds: {mutant.name}", flush=True)
        return False
    seed, failure = caught
    print(f"{seed:6}  {mutant.name}: {type(failure).__name__}: {str(failure)[:80]}", flush=True)
    return True


def _spoken(seeds: range) -> Iterator[int]:
    spoke = time.monotonic()
    for seed in seeds:
        if time.monotonic() - spoke > PROGRESS_SECONDS:
            spoke = time.monotonic()
            print(f"  at seed {seed}", file=sys.stderr)
        yield seed


if __name__ == "__main__":
    sys.exit(main())
