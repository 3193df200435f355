"""Runs all benchmarks, one after the other; each can also be run alone.

python -m benchmarks [--only fingerprints worker recovery] [--json FILE]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from benchmarks import fingerprints, recovery, worker
from benchmarks.command import add_without_peers, errors_reported, new_parser, say
from benchmarks.report import Figures, show, tables_of, write_json
from benchmarks.texts import CHARACTERS, generated_documents
from simhash_core.text.profiles import PROFILES

_RECOVERED: Final = 100_000


def _fingerprints(options: argparse.Namespace) -> Figures:
    texts = generated_documents(fingerprints.DOCUMENTS, CHARACTERS)
    with_peers = not options.without_peers
    return fingerprints.run(texts, fingerprints.ROUNDS, "generated", with_peers=with_peers)


def _worker(_options: argparse.Namespace) -> Figures:
    texts = generated_documents(worker.DOCUMENTS, CHARACTERS)
    return worker.run(texts, worker.ROUNDS, "generated")


def _recovery(_options: argparse.Namespace) -> Figures:
    return recovery.run(list(PROFILES), [_RECOVERED], None)


BENCHMARKS: Final[Mapping[str, Callable[[argparse.Namespace], Figures]]] = {
    "fingerprints": _fingerprints,
    "worker": _worker,
    "recovery": _recovery,
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = new_parser("benchmarks", __doc__)
    parser.add_argument(
        "--only", nargs="+", choices=list(BENCHMARKS), default=list(BENCHMARKS), metavar="NAME"
    )
    add_without_peers(parser)
    options = parser.parse_args(arguments)
    figures: dict[str, Figures] = {}
    with errors_reported():
        for name in options.only:
            say(f"{name} …")
            figures[name] = BENCHMARKS[name](options)
            show(tables_of(figures[name], name), options.json)
    write_json(figures, options.json)


if __name__ == "__main__":
    main()
