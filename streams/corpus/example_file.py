"""Writes ``examples/documents.jsonl``: generated documents to try Firstseen with, from one seed.

::

    python -m streams.corpus.example_file > examples/documents.jsonl
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Final

from streams.corpus.corpus import generate
from streams.corpus.generated import EditKind

EXAMPLE_SEED: Final = 20
EXAMPLE_LINES: Final = 300
_NO_LINE: Final = frozenset({EditKind.NULL_RECORD, EditKind.INVALID_UTF8})
"""Records that a text file cannot hold, or that editors refuse to open."""


def example_lines() -> Iterator[bytes]:
    left = EXAMPLE_LINES
    for record in generate(EXAMPLE_SEED, 2 * EXAMPLE_LINES):
        if left and record.value is not None and record.kind not in _NO_LINE:
            content = record.value.decode()
            if content.isprintable():
                left -= 1
                yield record.value + b"\n"


def main() -> None:
    sys.stdout.buffer.writelines(example_lines())


if __name__ == "__main__":
    main()
