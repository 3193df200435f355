"""All benchmarks, one after the other: ``python -m benchmarks``. Each can be run alone as well.

python -m benchmarks [--only fingerprints worker recovery] [--json FILE]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from typing import Final

from rich.console import Console

from benchmarks import fingerprints, recovery, worker
from benchmarks.contender_process import ContenderError
from benchmarks.peers.environment import PeersUnavailableError
from benchmarks.report import STANDARD_OUTPUT, add_json_option, show, write_json
from benchmarks.texts import CHARACTERS, generated_documents
from benchmarks.worker import IncompleteRunError
from simhash_core.errors import FirstseenError
from simhash_core.text.profiles import PROFILES

_RECOVERED: Final = 100_000


def _fingerprints(options: argparse.Namespace) -> object:
    texts = generated_documents(fingerprints.DOCUMENTS, CHARACTERS)
    figures = fingerprints.run(
        texts, fingerprints.ROUNDS, "generated", with_peers=not options.without_peers
    )
    show(fingerprints.tables(figures))
    return figures


def _worker(_options: argparse.Namespace) -> object:
    texts = generated_documents(worker.DOCUMENTS, CHARACTERS)
    figures = worker.run(texts, worker.ROUNDS, "generated")
    show(worker.tables(figures))
    return figures


def _recovery(_options: argparse.Namespace) -> object:
    report = recovery.run(list(PROFILES), [_RECOVERED], None, None)
    show(recovery.tables(report))
    return report


BENCHMARKS: Final[Mapping[str, Callable[[argparse.Namespace], object]]] = {
    "fingerprints": _fingerprints,
    "worker": _worker,
    "recovery": _recovery,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument(
        "--only", nargs="+", choices=list(BENCHMARKS), default=list(BENCHMARKS), metavar="NAME"
    )
    parser.add_argument(
        "--without-peers", action="store_true", help="do not install and run other libraries"
    )
    add_json_option(parser)
    options = parser.parse_args(arguments)
    notes = Console(stderr=True, highlight=False)
    figures: dict[str, object] = {}
    try:
        # Standard output may be for the JSON, and then has to have that alone.
        with redirect_stdout(sys.stderr if options.json == STANDARD_OUTPUT else sys.stdout):
            for name in options.only:
                notes.print(f"{name} …")
                figures[name] = BENCHMARKS[name](options)
    except (
        ContenderError,
        FirstseenError,
        IncompleteRunError,
        PeersUnavailableError,
    ) as error:
        raise SystemExit(str(error)) from error
    write_json(figures, options.json)


if __name__ == "__main__":
    main()
