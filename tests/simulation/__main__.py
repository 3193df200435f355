"""``make simulate``: run seeds until one fails, then shrink it and tell its story.

``make simulate SEED=7`` replays one seed; ``make simulate SEEDS=100000`` is for the night.
``ARGS="--mutant 'no confirm is sent'"`` runs a broken protocol; ``ARGS=--messages`` prints costs.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from typing import Final

from tests.simulation.cluster import simulate
from tests.simulation.invariants import ViolationError
from tests.simulation.message_costs import table
from tests.simulation.mutants import MUTANTS, Mutant
from tests.simulation.narration import describe_documents, describe_setting
from tests.simulation.scenario import Fault, draw_scenario
from tests.simulation.shrinking import Failure, shrink

UNBROKEN: Final = Mutant("none")
PROGRESS_SECONDS: Final = 10.0


def main() -> int:
    """Run what the arguments say; 1 where an invariant is broken."""
    parser = argparse.ArgumentParser(prog="make simulate", description=__doc__)
    parser.add_argument("--seed", type=int, help="replay this one, with its story")
    parser.add_argument("--seeds", type=int, default=1_000, help="how many to run (1000)")
    parser.add_argument("--start", type=int, default=0, help="the first of them (0)")
    parser.add_argument("--mutant", choices=[mutant.name for mutant in MUTANTS], metavar="NAME")
    parser.add_argument("--messages", action="store_true", help="print what the protocol costs")
    chosen = parser.parse_args()
    if chosen.messages:
        print("\n".join(table()))
        return 0
    mutant = next((mutant for mutant in MUTANTS if mutant.name == chosen.mutant), UNBROKEN)
    if chosen.seed is not None:
        return replay(chosen.seed, mutant)
    return run(chosen.start, chosen.seeds, mutant)


def replay(seed: int, mutant: Mutant) -> int:
    """Run one seed; tell its story, or that of a small one which fails like it."""
    scenario = mutant.change_scenario(draw_scenario(seed))
    story = [describe_setting(scenario), *describe_documents(scenario)]
    try:
        report = simulate(scenario, mutant.protocol(), story)
    except ViolationError as violation:
        return tell(seed, Failure(scenario, violation), mutant)
    print("\n".join(story))
    print(f"seed {seed} holds: {report.documents} documents, {report.faults.total()} faults")
    return 0


def run(start: int, seeds: int, mutant: Mutant) -> int:
    """Run seeds until one fails."""
    protocol = mutant.protocol()
    began = spoke = time.monotonic()
    documents = messages = 0
    faults: Counter[Fault] = Counter()
    for seed in range(start, start + seeds):
        scenario = mutant.change_scenario(draw_scenario(seed))
        try:
            report = simulate(scenario, protocol)
        except ViolationError as violation:
            return tell(seed, Failure(scenario, violation), mutant)
        documents += report.documents
        messages += report.messages.total()
        faults += report.faults
        if time.monotonic() - spoke > PROGRESS_SECONDS:
            spoke = time.monotonic()
            print(f"  {seed + 1 - start} of {seeds} seeds", file=sys.stderr)
    took = time.monotonic() - began
    print(f"{seeds} seeds hold: {documents} documents, {messages} messages between shards")
    print(f"{took:.1f} s, {seeds / max(took, 1e-9):.0f} seeds a second; {faults.total()} faults:")
    for fault, count in faults.most_common():
        print(f"{count:9} {fault}")
    return 0


def tell(seed: int, failure: Failure, mutant: Mutant) -> int:
    """Shrink a failure, and tell its story."""
    print(f"seed {seed} fails: {failure.violation}\nshrinking …", flush=True)
    protocol = mutant.protocol()
    small = shrink(failure, protocol).scenario
    story = [describe_setting(small), *describe_documents(small)]
    try:
        simulate(small, protocol, story)
    except ViolationError as violation:
        story.append(f"VIOLATED  {violation}")
    print("\n".join(story))
    option = f" ARGS=\"--mutant '{mutant.name}'\"" if mutant is not UNBROKEN else ""
    print(f"replay: make simulate SEED={seed}{option}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
