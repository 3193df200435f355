"""All benchmarks, one after the other: ``python -m benchmarks``. Each can be run alone as well.

python -m benchmarks [--only fingerprints worker recovery] [--json FILE]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from rich.table import Table

from benchmarks import fingerprints, recovery, worker
from benchmarks.command import add_without_peers, errors_told, new_parser, say
from benchmarks.report import show, write_json
from benchmarks.texts import CHARACTERS, generated_documents
from simhash_core.text.profiles import PROFILES

_RECOVERED: Final = 100_000

Measured = tuple[object, Iterable[Table]]


def _fingerprints(options: argparse.Namespace) -> Measured:
    texts = generated_documents(fingerprints.DOCUMENTS, CHARACTERS)
    with_peers = not options.without_peers
    figures = fingerprints.run(texts, fingerprints.ROUNDS, "generated", with_peers=with_peers)
    return figures, fingerprints.tables(figures)


def _worker(_options: argparse.Namespace) -> Measured:
    texts = generated_documents(worker.DOCUMENTS, CHARACTERS)
    figures = worker.run(texts, worker.ROUNDS, "generated")
    return figures, worker.tables(figures)


def _recovery(_options: argparse.Namespace) -> Measured:
    report = recovery.run(list(PROFILES), [_RECOVERED], None, None)
    return report, recovery.tables(report)


BENCHMARKS: Final[Mapping[str, Callable[[argparse.Namespace], Measured]]] = {
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
    figures: dict[str, object] = {}
    with errors_told():
        for name in options.only:
            say(f"{name} …")
            figures[name], tables = BENCHMARKS[name](options)
            show(tables, options.json)
    write_json(figures, options.json)


if __name__ == "__main__":
    main()
