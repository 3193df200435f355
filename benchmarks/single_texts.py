"""``Deduplicator``: compares one text per call with 500 per call, with a state on disk.

Both ways take turns, 500 texts each. Times are CPU µs per text; a ratio compares the turns of one
round. The first 500 texts fill the lexicon.

    python -m benchmarks.single_texts [--rounds N] [--json FILE]
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import product
from timeit import timeit
from typing import Final

from benchmarks.command import add_number, new_parser
from benchmarks.report import Figures, Spread, machine, publish, ratios
from benchmarks.texts import generated_documents
from firstseen import Deduplicator

BATCH: Final = 500
ROUNDS: Final = 5
CHARACTERS: Final = (250, 500)
PROFILES: Final = ("wide", "classic", "quick")


def run(profile: str, characters: int, rounds: int) -> Figures:
    texts = generated_documents(BATCH * (2 * rounds + 1), characters)
    parts = [texts[first : first + BATCH] for first in range(0, len(texts), BATCH)]
    with tempfile.TemporaryDirectory() as directory, Deduplicator(profile, state=directory) as seen:
        seen.add_batch(parts.pop())
        turns = [
            (_cpu_us(lambda some: list(map(seen.add, some)), one), _cpu_us(seen.add_batch, many))
            for one, many in zip(parts[::2], parts[1::2], strict=True)
        ]
    single, batches = zip(*turns, strict=True)
    return {
        "profile": profile,
        "characters": characters,
        "single_us": Spread.of(single),
        "batch_us": Spread.of(batches),
        "ratio": ratios(single, batches),
    }


def _cpu_us(add: Callable[[list[str]], object], texts: list[str]) -> float:
    return timeit(lambda: add(texts), timer=time.process_time, number=1) / len(texts) * 1e6


def main(arguments: Sequence[str] | None = None) -> None:
    parser = new_parser("benchmarks.single_texts", __doc__)
    add_number(parser, "--rounds", ROUNDS, "rounds of each variant")
    options = parser.parse_args(arguments)
    sizes = product(PROFILES, CHARACTERS)
    figures = [run(profile, characters, options.rounds) for profile, characters in sizes]
    publish({"machine": machine(), "figures": figures}, options.json)


if __name__ == "__main__":
    main()
