"""What is saved because nothing is computed twice, and what that costs where nothing comes twice.

Documents pass through a fingerprinter that remembers and one that does not, batch by batch in
turns, so that a busy machine is busy for both. Measured are distinct documents, and a stream of
which a share copies earlier ones with a few spots edited. The first quarter fills lexicon and
memos, and is not counted. What counts is the processor's time.

    python -m benchmarks.memos [--documents FILE --first-of=-v] [--json FILE]
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rich.table import Table

from benchmarks.command import add_rounds, new_parser
from benchmarks.contenders import BATCH
from benchmarks.measures import Stopwatch
from benchmarks.report import Figures, Spread, machine, publish, ratios, table_of
from benchmarks.texts import CHARACTERS, generated_documents, json_lines, with_copies
from simhash_core.documents import Content
from simhash_core.text.fingerprinter import Fingerprinter
from simhash_core.text.profiles import PROFILES, profile_named

DOCUMENTS: Final = 4_000
ROUNDS: Final = 9
COPIES: Final = 0.7
COST_GOAL: Final = 1.03
COPIES_GOAL: Final = 2 / 3

_NOT_COUNTED: Final = 0.25


def run(texts: Sequence[str], profile: str, source: str, rounds: int) -> Figures:
    """Measure distinct texts, and as many of which a share are copies.

    Times are CPU µs a document; ``ratio`` is of the two round by round.
    """
    before = machine()
    copies = with_copies(texts, COPIES)
    streams = (("distinct", texts, COST_GOAL), (f"{COPIES:.0%} edited copies", copies, COPIES_GOAL))
    return {
        "machine": before,
        "profile": profile,
        "source": source,
        "rounds": rounds,
        "streams": [
            {"name": name, "documents": len(some), **_measured(some, profile, rounds), "goal": goal}
            for name, some, goal in streams
        ],
    }


def _measured(texts: Sequence[str], profile: str, rounds: int) -> dict[str, Spread]:
    taken = [_round(texts, profile, swapped=bool(number % 2)) for number in range(rounds)]
    without, with_memos = zip(*taken, strict=True)
    return {
        "without_us": Spread.of(without),
        "with_us": Spread.of(with_memos),
        "ratio": ratios(with_memos, without),
    }


def _round(texts: Sequence[str], profile: str, *, swapped: bool) -> tuple[float, float]:
    """Return CPU µs a document without memos and with them."""
    makers = [Fingerprinter(profile_named(profile), remember=each) for each in (False, True)]
    order = (1, 0) if swapped else (0, 1)
    spent: list[Stopwatch] = []
    counted = 0
    for start in range(0, len(texts), BATCH):
        batch = [Content(text) for text in texts[start : start + BATCH]]
        if not counted:  # what went before does not count
            spent = [Stopwatch(time.thread_time) for _ in makers]
        if start >= len(texts) * _NOT_COUNTED:
            counted += len(batch)
        for each in order:
            with spent[each]:
                makers[each].fingerprint_batch(batch)
    without, with_memos = (each.us_each(counted) for each in spent)
    return without, with_memos


def tables(figures: Figures) -> list[Table]:
    columns = {
        "": "{name}",
        "documents": "{documents:,}",
        "CPU µs without": "{without_us:,.0f}",
        "CPU µs with": "{with_us:,.0f}",
        "with / without": "{ratio:,.2f}",
        "goal": "≤ {goal:.2f}",
    }
    title = "Memos, {profile}, {source}, {rounds} rounds".format_map(figures)
    return [table_of(title, figures["streams"], columns)]


def _first_versions(path: Path, mark: str, characters: int) -> list[str]:
    """Read the texts of a file of documents with ids, one version of each."""
    texts: dict[str, str] = {}
    read = json_lines(path, "an id and a text", lambda line: (line["id"], line["text"]))
    for name, text in read:
        version_of = name.rpartition(mark)[0] if mark else name
        texts.setdefault(version_of, text[: characters or None])
    return list(texts.values())


def main(arguments: Sequence[str] | None = None) -> None:
    parser = new_parser("benchmarks.memos", __doc__)
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
    add_rounds(parser, ROUNDS)
    options = parser.parse_args(arguments)
    if options.count <= BATCH:
        parser.error(f"--count must be more than {BATCH}")
    if options.documents is None:
        source, texts = "generated", generated_documents(options.count, options.characters)
    else:
        source = options.documents.name
        texts = _first_versions(options.documents, options.first_of, options.characters)
    figures = run(texts[: options.count], options.profile, source, options.rounds)
    publish(figures, tables(figures), options.json)


if __name__ == "__main__":
    main()
