"""What is saved because nothing is computed twice, and what that costs where nothing comes twice.

Documents pass through a fingerprinter that remembers and one that does not, batch by batch in
turns, so that a busy machine is busy for both. Measured are distinct documents, and a stream of
which a share copies earlier ones with a few spots edited. The first quarter fills lexicon and
memos, and is not counted. What counts is the processor's time.

    python -m benchmarks.memos [--documents FILE --first-of=-v] [--json FILE]
"""

from __future__ import annotations

import argparse
import gzip
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec
from rich.table import Table

from benchmarks.contenders.firstseen import BATCH
from benchmarks.report import Machine, Spread, add_json_option, machine, new_table, publish
from benchmarks.texts import CHARACTERS, generated_documents, with_copies
from simhash_core.documents import Content
from simhash_core.text.fingerprinter import Fingerprinter
from simhash_core.text.profiles import PROFILES, profile_named

DOCUMENTS: Final = 4_000
ROUNDS: Final = 9
COPIES: Final = 0.7
COST_GOAL: Final = 1.03
COPIES_GOAL: Final = 2 / 3

_MICROSECONDS: Final = 1e6
_NOT_COUNTED: Final = 0.25


class Stream(msgspec.Struct, frozen=True):
    """One kind of stream: CPU µs a document, and the ratio of the two round by round."""

    name: str
    documents: int
    without_us: Spread
    with_us: Spread
    ratio: Spread
    goal: float


class Figures(msgspec.Struct, frozen=True):
    """All that is measured here."""

    machine: Machine
    profile: str
    source: str
    rounds: int
    streams: list[Stream]


def run(texts: Sequence[str], profile: str, source: str, rounds: int) -> Figures:
    """Measure distinct texts, and as many of which a share are copies."""
    before = machine()
    streams = [
        _measured("distinct", texts, profile, rounds, COST_GOAL),
        _measured(
            f"{COPIES:.0%} edited copies", with_copies(texts, COPIES), profile, rounds, COPIES_GOAL
        ),
    ]
    return Figures(before, profile, source, rounds, streams)


def _measured(name: str, texts: Sequence[str], profile: str, rounds: int, goal: float) -> Stream:
    taken = [_round(texts, profile, swapped=bool(number % 2)) for number in range(rounds)]
    without, with_memos = zip(*taken, strict=True)
    return Stream(
        name,
        len(texts),
        Spread.of(without),
        Spread.of(with_memos),
        Spread.of(b / a for a, b in taken),
        goal,
    )


def _round(texts: Sequence[str], profile: str, *, swapped: bool) -> tuple[float, float]:
    """Return CPU µs a document without memos and with them."""
    makers = [Fingerprinter(profile_named(profile), remember=each) for each in (False, True)]
    order = (1, 0) if swapped else (0, 1)
    seconds, counted = [0.0, 0.0], 0
    for start in range(0, len(texts), BATCH):
        batch = [Content(text) for text in texts[start : start + BATCH]]
        counts = start >= len(texts) * _NOT_COUNTED
        counted += len(batch) * counts
        for each in order:
            begun = time.thread_time()
            makers[each].fingerprint_batch(batch)
            seconds[each] += (time.thread_time() - begun) * counts
    without, with_memos = (each / counted * _MICROSECONDS for each in seconds)
    return without, with_memos


def tables(figures: Figures) -> Iterator[Table]:
    """Show the figures."""
    title = f"Memos, {figures.profile}, {figures.source}, {figures.rounds} rounds"
    table = new_table(
        title, "", "documents", "CPU µs without", "CPU µs with", "with / without", "goal"
    )
    for each in figures.streams:
        table.add_row(
            each.name,
            f"{each.documents:,}",
            each.without_us.shown(),
            each.with_us.shown(),
            each.ratio.shown(2),
            f"≤ {each.goal:.2f}",
        )
    yield table


def _first_versions(path: Path, mark: str, characters: int) -> Iterator[str]:
    """Read the texts of a file of documents with ids, one version of each."""
    seen: set[str] = set()
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            document = json.loads(line)
            name = document["id"].rpartition(mark)[0] if mark else document["id"]
            if name not in seen:
                seen.add(name)
                yield document["text"][: characters or None]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark as the command line says."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.memos", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--profile", choices=list(PROFILES), default="wide")
    parser.add_argument("--count", type=int, default=DOCUMENTS, help="documents (%(default)s)")
    parser.add_argument(
        "--characters", type=int, default=CHARACTERS, help="of each, 0 for all (%(default)s)"
    )
    parser.add_argument(
        "--documents",
        type=Path,
        metavar="FILE",
        help='packed JSON lines with "id" and "text", instead of generated ones',
    )
    parser.add_argument(
        "--first-of",
        metavar="MARK",
        default="",
        help="ids that are equal up to the last MARK are versions of one text: take the first",
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="(%(default)s)")
    add_json_option(parser)
    options = parser.parse_args(arguments)
    if options.rounds < 1 or options.count <= BATCH:
        parser.error(f"--rounds must be 1 or more, --count more than {BATCH}")
    if options.documents is None:
        source, texts = "generated", generated_documents(options.count, options.characters)
    else:
        source = options.documents.name
        texts = list(_first_versions(options.documents, options.first_of, options.characters))
        texts = texts[: options.count]
    figures = run(texts, options.profile, source, options.rounds)
    publish(figures, tables(figures), options.json)


if __name__ == "__main__":
    main()
