"""A plain loop: pass on the texts that are the first of their kind.

It decides 500 texts in one call, about ten times as fast as ``add`` for each of them.

python examples/plain_loop.py < lines.txt
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from itertools import islice

from firstseen import Deduplicator, DuplicateOf

TOGETHER = 500


def first_of_their_kind(texts: Iterable[str], seen: Deduplicator) -> Iterator[str]:
    """Yield the texts that repeat no earlier text; print the others to standard error."""
    waiting = iter(texts)
    while batch := list(islice(waiting, TOGETHER)):
        for text, verdict in zip(batch, seen.add_batch(batch), strict=True):
            if isinstance(verdict, DuplicateOf):
                print(f"repeats number {verdict.original_id}: {text[:40]}", file=sys.stderr)
            else:
                yield text


def main() -> None:
    """Filter standard input; what was seen stays in the directory ``seen``."""
    with Deduplicator(state="seen") as seen:
        for text in first_of_their_kind(map(str.strip, sys.stdin), seen):
            print(text)


if __name__ == "__main__":
    main()
