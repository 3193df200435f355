"""Compares detection quality with the peers: ``python -m benchmarks.quality --data DIRECTORY``.

The directory has sets of labelled text (``benchmarks.quality.sets``). ``--update docs/quality.md``
writes the figures into the page.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from benchmarks import command
from benchmarks.command import STANDARD_OUTPUT, errors_reported, new_parser, say
from benchmarks.quality.contest import PEER_THRESHOLDS, SETS_OF_PEERS, contest
from benchmarks.quality.experiments import experiments
from benchmarks.quality.page import BEGIN, Figures, markdown, with_figures
from benchmarks.quality.sentences import sentence_figures
from benchmarks.quality.sets import DIRECTORY_VARIABLE, REAL_DOCUMENTS, SENTENCES, sets_in
from benchmarks.report import machine, write_json
from simhash_core.text.fingerprinter import Fingerprinter
from simhash_core.text.profiles import DEFAULT_PROFILE, PROFILES, profile_named

ROUNDS: Final = 3
PARTS: Final = ("contest", "experiments", "sentences")


def run(options: argparse.Namespace) -> Figures:
    """Measure everything; raise ``MeasurementError`` if a part fails."""
    profiles = [DEFAULT_PROFILE, *(name for name in PROFILES if name != DEFAULT_PROFILE)]
    before = machine()
    contests, outcomes, sentences = [], [], []
    for each in sets_in(options.data):
        if "contest" in options.only:
            thresholds = () if options.without_peers else PEER_THRESHOLDS
            peers = [
                name for name in thresholds if each.name in SETS_OF_PEERS.get(name, {each.name})
            ]
            contests.append(contest(each, profiles, peers, options.rounds))
        if "experiments" in options.only and each.name == REAL_DOCUMENTS:
            with_peers = not options.without_peers
            outcomes = experiments(each, DEFAULT_PROFILE, with_peers=with_peers)
    if "sentences" in options.only and (options.data / SENTENCES).exists():
        say("sentences …")
        sentences = sentence_figures(options.data / SENTENCES, profiles)
    return Figures(
        machine=before,
        profiles=profiles,
        indexes=[Fingerprinter(profile_named(name)).identity for name in profiles],
        contests=contests,
        experiments=outcomes,
        sentences=sentences,
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = new_parser("benchmarks.quality", __doc__)
    given = os.environ.get(DIRECTORY_VARIABLE)
    parser.add_argument(
        "--data",
        type=Path,
        default=Path(given) if given else None,
        help=f"the directory of the labelled sets; else the variable {DIRECTORY_VARIABLE}",
    )
    command.add_number(parser, "--rounds", ROUNDS, "turns of each")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, metavar="PART")
    command.add_without_peers(parser)
    parser.add_argument("--update", type=Path, metavar="PAGE", help="write the figures there")
    parser.add_argument("--figures", type=Path, metavar="FILE", help="show what --json has written")
    options = parser.parse_args(arguments)
    if options.update and BEGIN not in options.update.read_text("utf-8"):
        parser.error(f"{options.update} lacks the line {BEGIN}")
    if options.figures:
        figures = msgspec.json.decode(options.figures.read_bytes(), type=Figures)
    elif options.data is None or not sets_in(options.data):
        parser.error(
            f"there are no labelled sets (NAME/documents.jsonl.gz with a pairs.tsv beside it) at "
            f"{options.data}: name their directory with --data or {DIRECTORY_VARIABLE} "
            "(make bench-quality DATA=…; docs/quality.md says what it has)"
        )
    else:
        with errors_reported():
            figures = run(options)
    print(markdown(figures), file=sys.stderr if options.json == STANDARD_OUTPUT else sys.stdout)
    write_json(figures, options.json)
    if options.update:
        options.update.write_text(with_figures(options.update.read_text("utf-8"), figures), "utf-8")


if __name__ == "__main__":
    main()
