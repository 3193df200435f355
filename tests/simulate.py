"""``make simulate``: check the protocol and whole workers under random faults.

Two simulators: of the protocol alone (``tests/simulation``), and of whole workers on a simulated
Kafka (``tests/worker_simulation``). ``SEED=7`` tells the story of one seed of the protocol,
``WORKER_SEED=7`` of one of whole workers. ``ARGS=--mutants`` also runs every broken rule until it
is caught, ``ARGS="--mutant NAME"`` one of them. ``ARGS="--json -"`` runs all of that, and ends with
one line, one JSON object. ``ARGS="--first-seeds 10"`` prints ``first_seeds.toml``: for each mutant
the quickest of the seeds that can be tried in ten seconds.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from typing import Final

from tests.simulation.mutants import MUTANTS as PROTOCOL_MUTANTS
from tests.simulation.simulator import Runs, Simulator, described, prepare
from tests.simulation.world import PROTOCOL
from tests.worker_simulation.mutants import MUTANTS as WORKER_MUTANTS
from tests.worker_simulation.world import WHOLE_WORKERS

PROGRESS_SECONDS: Final = 10.0
SHOWN_FAILURES: Final = 10
MUTANTS: Final = {each.name: each for each in (*PROTOCOL_MUTANTS, *WORKER_MUTANTS)}


def main() -> int:
    """Run the simulations that the arguments select; return 1 after a violation."""
    parser = argparse.ArgumentParser(prog="make simulate", description=__doc__)
    parser.add_argument(
        "--seed", type=int, help="replay this seed of the protocol, and print its story"
    )
    parser.add_argument(
        "--worker-seed", type=int, help="replay this seed of whole workers, and print its story"
    )
    parser.add_argument("--seeds", type=int, default=2_000, help="seeds of the protocol (2000)")
    parser.add_argument(
        "--worker-seeds", type=int, default=200, help="seeds of whole workers (200)"
    )
    parser.add_argument("--start", type=int, default=0, help="the first seed (0)")
    parser.add_argument("--mutants", action="store_true", help="also run all mutants")
    parser.add_argument("--mutant", choices=[*MUTANTS], metavar="NAME")
    parser.add_argument("--first-seeds", type=float, metavar="SECONDS")
    parser.add_argument(
        "--json", choices=["-"], help="also run all mutants; print a JSON object at the end"
    )
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    chosen = parser.parse_args()
    if chosen.mutant is not None:
        return 0 if report_caught(chosen.mutant) else 1
    if chosen.seed is not None:
        return replay(PROTOCOL, chosen.seed)
    if chosen.worker_seed is not None:
        return replay(WHOLE_WORKERS, chosen.worker_seed)
    if chosen.first_seeds is not None:
        return print_first_seeds(chosen.first_seeds, chosen.processes)
    names = [*MUTANTS] if chosen.mutants or chosen.json else []
    with ProcessPoolExecutor(chosen.processes, initializer=prepare) as pool:
        protocol = run_seeds(pool, PROTOCOL, chosen.start, chosen.seeds, "SEED")
        workers = run_seeds(pool, WHOLE_WORKERS, chosen.start, chosen.worker_seeds, "WORKER_SEED")
        caught = sum(pool.map(report_caught, names))
    violations = len(protocol.failures) + len(workers.failures)
    if names:
        print(f"{caught} of {len(names)} mutants caught")
    if chosen.json:
        summary = {
            "protocol_seeds": chosen.seeds,
            "worker_seeds": chosen.worker_seeds,
            "violations": violations,
            "mutants": len(names),
            "mutants_caught": caught,
        }
        print(json.dumps(summary))
    return 0 if not violations and caught == len(names) else 1


def replay(simulator: Simulator, seed: int) -> int:
    """Run one seed, and print its story."""
    story: list[str] = []
    failure = simulator.failure(simulator.draw(seed), story)
    print("\n".join(story))
    print(f"seed {seed} holds" if failure is None else f"VIOLATED  {described(failure)}")
    return 0 if failure is None else 1


def run_seeds(
    pool: ProcessPoolExecutor, simulator: Simulator, start: int, seeds: int, argument: str
) -> Runs:
    """Run seeds, print progress and results, and return these."""
    began = shown_at = time.monotonic()
    total = Runs()
    for runs in pool.map(simulator.run_seeds, simulator.chunks(start, seeds)):
        total = total.joined(runs)
        for seed, why in runs.failures[:SHOWN_FAILURES]:
            print(f"seed {seed} of {simulator.name} fails: {why}")
            print(f"replay: make simulate {argument}={seed}", flush=True)
        if time.monotonic() - shown_at > PROGRESS_SECONDS:
            shown_at = time.monotonic()
            print(f"  {total.seeds} of {seeds} seeds of {simulator.name}", file=sys.stderr)
    took = time.monotonic() - began
    counts = ", ".join(f"{count} {name}" for name, count in total.counts.items())
    print(f"{simulator.name}: {total.seeds - len(total.failures)} of {seeds} seeds hold: {counts}")
    if total.longest_step:
        print(f"longest counted step {total.longest_step * 1000:.1f} ms")
    print(
        f"{took:.1f} s, {3600 * seeds / max(took, 1e-9):.0f} seeds per hour; "
        f"{total.faults.total()} faults:"
    )
    for fault, count in total.faults.most_common():
        print(f"{count:9} {fault}")
    return total


def report_caught(name: str) -> bool:
    """Run a mutant of either simulator until it is caught, and print by which seed."""
    caught = MUTANTS[name].first_caught()
    if caught is None:
        print(f"NOT CAUGHT by {len(MUTANTS[name].seeds)} seeds: {name}", flush=True)
        return False
    seed, failure = caught
    print(f"{seed:6}  {name}: {described(failure)[:100]}", flush=True)
    return True


def print_first_seeds(seconds: float, processes: int) -> int:
    with ProcessPoolExecutor(processes, initializer=prepare) as pool:
        found = pool.map(quickest_seed, MUTANTS, itertools.repeat(seconds))
        for name, seed in zip(MUTANTS, found, strict=True):
            print(f'"{name}" = {seed}', flush=True)
    return 0


def quickest_seed(name: str, seconds: float) -> int:
    seed = MUTANTS[name].quickest(seconds)
    if seed is None:
        raise LookupError(f"{name}: no seed catches this mutant")
    return seed


def _reproducible() -> None:
    """Begin again with a fixed order of sets, so that each seed repeats in any process."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.environ["PYTHONHASHSEED"] = "0"
        arguments = ["-m", "tests.simulate", *sys.argv[1:]]
        os.execv(sys.executable, [sys.executable, *arguments])  # noqa: S606 - this program again


if __name__ == "__main__":
    _reproducible()
    sys.exit(main())
