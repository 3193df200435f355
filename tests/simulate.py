"""``make simulate``: check the protocol and whole workers under random faults.

Two simulators: of the protocol alone (``tests/simulation``), and of whole workers on a simulated
Kafka (``tests/worker_simulation``). ``SEED=7`` tells the story of one seed of the protocol,
``WORKER_SEED=7`` of one of whole workers. ``ARGS=--mutants`` also runs every broken rule until it
is caught, ``ARGS="--mutant NAME"`` one of them. ``ARGS="--json -"`` runs all of that, and ends with
one line, one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Final

from tests.simulation import mutant as protocol_mutant
from tests.simulation import world as protocol
from tests.simulation.mutants import MUTANTS as PROTOCOL_MUTANTS
from tests.simulation.narration import describe
from tests.worker_simulation import mutant as worker_mutant
from tests.worker_simulation import runs as worker_runs
from tests.worker_simulation.mutants import MUTANTS as WORKER_MUTANTS
from tests.worker_simulation.scenario import draw_worker_scenario
from tests.worker_simulation.world import WorkerRuns

PROGRESS_SECONDS: Final = 10.0
SHOWN_FAILURES: Final = 10
_PROTOCOL: Final = {each.name: each for each in PROTOCOL_MUTANTS}
_WORKERS: Final = {each.name: each for each in WORKER_MUTANTS}


@dataclass(frozen=True, slots=True)
class Summary:
    """What ``--json`` prints."""

    protocol_seeds: int
    worker_seeds: int
    violations: int
    mutants: int
    mutants_caught: int

    @property
    def holds(self) -> bool:
        """Whether every seed held, and every mutant was caught."""
        return not self.violations and self.mutants == self.mutants_caught


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
    parser.add_argument("--mutant", choices=[*_PROTOCOL, *_WORKERS], metavar="NAME")
    parser.add_argument(
        "--json", choices=["-"], help="also run all mutants; print a JSON object at the end"
    )
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    chosen = parser.parse_args()
    if chosen.mutant is not None:
        return 0 if report_caught(chosen.mutant) else 1
    if chosen.seed is not None:
        return replay_protocol(chosen.seed)
    if chosen.worker_seed is not None:
        return replay_worker(chosen.worker_seed)
    with ProcessPoolExecutor(chosen.processes, initializer=worker_runs.prepare) as pool:
        violations = run_protocol(pool, chosen.start, chosen.seeds)
        violations += run_workers(pool, chosen.start, chosen.worker_seeds)
        names = [*_PROTOCOL, *_WORKERS] if chosen.mutants or chosen.json else []
        caught = list(pool.map(report_caught, names))
    summary = Summary(chosen.seeds, chosen.worker_seeds, violations, len(names), sum(caught))
    if names:
        print(f"{summary.mutants_caught} of {summary.mutants} mutants caught")
    if chosen.json:
        print(json.dumps({name: getattr(summary, name) for name in Summary.__slots__}))
    return 0 if summary.holds else 1


def replay_protocol(seed: int) -> int:
    """Run one seed of the protocol, and print its story."""
    unbroken = protocol_mutant.Mutant("none")
    story = describe(unbroken.scenario(seed))
    failure = protocol_mutant.failure_of(unbroken, seed, story)
    return _print_story(
        seed, story, None if failure is None else f"{type(failure).__name__}: {failure}"
    )


def replay_worker(seed: int) -> int:
    """Run one seed of whole workers, and print its story."""
    print(draw_worker_scenario(seed))
    return _print_story(seed, *worker_runs.run_story(seed))


def _print_story(seed: int, story: list[str], why: str | None) -> int:
    print("\n".join(story))
    print(f"seed {seed} holds" if why is None else f"VIOLATED  {why}")
    return 0 if why is None else 1


def run_protocol(pool: ProcessPoolExecutor, start: int, seeds: int) -> int:
    """Run seeds of the protocol until one fails, and print the results; return how many failed."""
    began = time.monotonic()
    total = protocol.Runs()
    faults: Counter[str] = Counter()
    show = _progress(f"of {seeds} seeds of the protocol")
    for runs in pool.map(protocol.run_seeds, protocol.chunks(start, seeds)):
        total, faults = total.joined(runs), faults + runs.faults
        if total.failure is not None:
            seed, why = total.failure
            print(f"seed {seed} of the protocol fails: {why}\nreplay: make simulate SEED={seed}")
            return 1
        show(total.seeds)
    print(f"protocol: {seeds} seeds hold: {total.documents} records, {total.packets} packets")
    _print_speed(began, total.seeds, faults)
    return 0


def run_workers(pool: ProcessPoolExecutor, start: int, seeds: int) -> int:
    """Run seeds of whole workers, and print the results; return how many failed."""
    began = time.monotonic()
    total = WorkerRuns()
    show = _progress(f"of {seeds} seeds of whole workers")
    for runs in pool.map(worker_runs.run_seeds, worker_runs.chunks(start, seeds)):
        total = total.joined(runs)
        for seed, why in runs.failures[:SHOWN_FAILURES]:
            print(f"seed {seed} of whole workers fails: {why}")
            print(f"replay: make simulate WORKER_SEED={seed}", flush=True)
        show(total.seeds)
    print(
        f"whole workers: {total.seeds - len(total.failures)} of {total.seeds} seeds hold: "
        f"{total.documents} records, {total.packets} packets, {total.lives} lives, "
        f"{total.seconds / 3600:.1f} h; longest counted step {total.longest_step * 1000:.1f} ms"
    )
    _print_speed(began, total.seeds, total.faults)
    return len(total.failures)


def _print_speed(began: float, seeds: int, faults: Counter[str]) -> None:
    took = time.monotonic() - began
    print(
        f"{took:.1f} s, {3600 * seeds / max(took, 1e-9):.0f} seeds per hour; "
        f"{faults.total()} faults:"
    )
    for fault, count in faults.most_common():
        print(f"{count:9} {fault}")


def report_caught(name: str) -> bool:
    """Run a mutant of either simulator until it is caught, and print by which seed."""
    if name in _PROTOCOL:
        seeds = _PROTOCOL[name].tried
        show = _progress(f"seeds: {name}")
        caught = protocol_mutant.first_caught(_PROTOCOL[name], _with_progress(seeds, show))
    else:
        seeds = range(_WORKERS[name].seeds)
        caught = worker_mutant.first_caught(_WORKERS[name])
    if caught is None:
        print(f"NOT CAUGHT by {len(seeds)} seeds: {name}", flush=True)
        return False
    seed, failure = caught
    print(f"{seed:6}  {name}: {type(failure).__name__}: {str(failure)[:80]}", flush=True)
    return True


def _with_progress(seeds: range, show: Callable[[int], None]) -> Iterator[int]:
    for seed in seeds:
        show(seed)
        yield seed


def _progress(of_what: str) -> Callable[[int], None]:
    """Return a function that prints progress, at most once in ``PROGRESS_SECONDS``."""
    printed_at = time.monotonic()

    def show(count: int) -> None:
        nonlocal printed_at
        if time.monotonic() - printed_at > PROGRESS_SECONDS:
            printed_at = time.monotonic()
            print(f"  {count} {of_what}", file=sys.stderr)

    return show


def _reproducible() -> None:
    """Begin again with a fixed order of sets, so that each seed repeats in any process."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.environ["PYTHONHASHSEED"] = "0"
        arguments = ["-m", "tests.simulate", *sys.argv[1:]]
        os.execv(sys.executable, [sys.executable, *arguments])  # noqa: S606 - this program again


if __name__ == "__main__":
    _reproducible()
    sys.exit(main())
