"""Detection quality beside the peers: ``python -m benchmarks.quality --data DIRECTORY``.

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
from rich.console import Console

from benchmarks.contender_process import ContenderError
from benchmarks.peers.environment import PeersUnavailableError
from benchmarks.quality.contest import PEER_THRESHOLDS, SIMHASH_SETS, contest
from benchmarks.quality.experiments import experiments
from benchmarks.quality.page import BEGIN, Figures, markdown, with_figures
from benchmarks.quality.sentences import sentence_figures
from benchmarks.quality.sets import DIRECTORY_VARIABLE, REAL_DOCUMENTS, SENTENCES, sets_in
from benchmarks.report import STANDARD_OUTPUT, add_json_option, machine, write_json
from simhash_core.errors import FirstseenError
from simhash_core.text.fingerprinter import Fingerprinter
from simhash_core.text.profiles import DEFAULT_PROFILE, PROFILES, profile_named

ROUNDS: Final = 3
PARTS: Final = ("contest", "experiments", "sentences")


def run(directory: Path, options: argparse.Namespace, console: Console) -> Figures:
    """Measure what the directory has; raises ``ContenderError`` and ``PeersUnavailableError``."""
    profiles = [DEFAULT_PROFILE, *(name for name in PROFILES if name != DEFAULT_PROFILE)]
    sets = sets_in(directory)
    sentences = directory / SENTENCES
    contests, outcomes = [], []

    def note(text: str) -> None:
        console.print(f"{text} …", markup=False)

    before = machine()
    if "contest" in options.only:
        for each in sets:
            peers = [] if options.without_peers else list(PEER_THRESHOLDS)
            if each.name not in SIMHASH_SETS and "simhash" in peers:
                peers.remove("simhash")
            contests.append(contest(each, profiles, peers, options.rounds, note))
    if "experiments" in options.only:
        for each in sets:
            if each.name == REAL_DOCUMENTS:
                outcomes = experiments(
                    each, DEFAULT_PROFILE, with_peers=not options.without_peers, note=note
                )
    measured_sentences = []
    if "sentences" in options.only and sentences.exists():
        note("sentences")
        measured_sentences = sentence_figures(sentences, profiles)
    return Figures(
        machine=before,
        profiles=profiles,
        indexes=[Fingerprinter(profile_named(name)).identity for name in profiles],
        contests=contests,
        experiments=outcomes,
        sentences=measured_sentences,
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure as the command line says."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.quality", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument(
        "--data",
        type=Path,
        default=Path(given) if (given := os.environ.get(DIRECTORY_VARIABLE)) else None,
        help=f"the directory of the labelled sets; else the variable {DIRECTORY_VARIABLE}",
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="turns of each (%(default)s)")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, metavar="PART")
    parser.add_argument(
        "--without-peers", action="store_true", help="do not install and run other libraries"
    )
    parser.add_argument(
        "--update", type=Path, metavar="PAGE", help="write the figures into this page"
    )
    parser.add_argument(
        "--figures", type=Path, metavar="FILE", help="do not measure: take what --json has written"
    )
    add_json_option(parser)
    options = parser.parse_args(arguments)
    if options.rounds < 1:
        parser.error("--rounds must be 1 or more")
    if options.update and BEGIN not in options.update.read_text("utf-8"):
        parser.error(f"{options.update} lacks the line {BEGIN}")
    figures = (
        msgspec.json.decode(options.figures.read_bytes(), type=Figures)
        if options.figures
        else _measured(parser, options)
    )
    print(markdown(figures), file=sys.stderr if options.json == STANDARD_OUTPUT else sys.stdout)
    write_json(figures, options.json)
    if options.update:
        options.update.write_text(with_figures(options.update.read_text("utf-8"), figures), "utf-8")


def _measured(parser: argparse.ArgumentParser, options: argparse.Namespace) -> Figures:
    if options.data is None or not options.data.is_dir():
        where = "" if options.data is None else f" at {options.data}"
        parser.error(
            f"there are no labelled sets{where}: name their directory with --data or "
            f"{DIRECTORY_VARIABLE} (make bench-quality DATA=…; docs/quality.md says what it has)"
        )
    if not sets_in(options.data):
        parser.error(f"{options.data} has no NAME/documents.jsonl.gz with a pairs.tsv beside it")
    try:
        return run(options.data, options, Console(stderr=True, highlight=False))
    except (ContenderError, FirstseenError, PeersUnavailableError) as error:
        raise SystemExit(str(error)) from error


if __name__ == "__main__":
    main()
