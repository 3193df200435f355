"""``Deduplicator``: one text a call beside 500 a call, with a state on disk.

Both ways take turns, 500 texts each, so that a busy machine is busy for both. Times are CPU µs a
text; the ratio is of the turns of one round. The first 500 texts fill the lexicon.

    python -m benchmarks.single_texts [--rounds N] [--json FILE]
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Final

from benchmarks.command import add_rounds, new_parser
from benchmarks.report import Figures, Spread, machine, publish, ratios, table_of
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
    begun = time.process_time()
    add(texts)
    return (time.process_time() - begun) / len(texts) * 1e6


def main(arguments: Sequence[str] | None = None) -> None:
    parser = new_parser("benchmarks.single_texts", __doc__)
    add_rounds(parser, ROUNDS)
    options = parser.parse_args(arguments)
    figures = [
        run(profile, characters, options.rounds)
        for profile in PROFILES
        for characters in CHARACTERS
    ]
    columns = {
        "profile": "{profile}",
        "characters": "{characters}",
        "add, µs": "{single_us:.0f}",
        f"add_batch({BATCH}), µs": "{batch_us:.0f}",
        "ratio": "{ratio:.1f}",
    }
    table = table_of("CPU µs a text", figures, columns)
    publish({"machine": machine(), "figures": figures}, [table], options.json)


if __name__ == "__main__":
    main()
