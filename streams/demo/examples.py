"""Examples of what came out: pairs of a copy and its original, and records that were refused."""

from __future__ import annotations

import heapq
from typing import Final, NamedTuple

from simhash_core.documents import Document
from streams.demo.text_memory import TextMemory
from streams.output.received_outputs import DeadLetterOutput, DuplicateOutput, ReceivedOutput

PAIRS_MAX: Final = 200
REFUSED_MAX: Final = 200


class Pair(NamedTuple):
    """A duplicate with both texts."""

    duplicate: DuplicateOutput
    original: Document
    copy: Document


class Refused(NamedTuple):
    """A record that is no document; ``where`` it came from is for people."""

    where: str
    reason: str
    detail: str


class Examples:
    """Keeps the duplicates that are furthest from their originals, and the first dead letters.

    The furthest are the ones to look at: with them a threshold is right or wrong.
    """

    def __init__(self, texts: TextMemory) -> None:
        self._texts = texts
        self._furthest: list[tuple[int, int, DuplicateOutput]] = []
        self._number = 0
        self._dead_letters: list[DeadLetterOutput] = []

    def note_output(self, output: ReceivedOutput) -> None:
        """Take in an output."""
        if isinstance(output, DuplicateOutput):
            # Of those equally far, the first stays.
            self._number += 1
            entry = (output.distance, -self._number, output)
            if len(self._furthest) < PAIRS_MAX:
                heapq.heappush(self._furthest, entry)
            else:
                heapq.heappushpop(self._furthest, entry)
        elif isinstance(output, DeadLetterOutput) and len(self._dead_letters) < REFUSED_MAX:
            self._dead_letters.append(output)

    def pairs(self) -> list[Pair]:
        """Return the pairs whose texts are at hand, the furthest apart first."""
        pairs = []
        for _distance, _number, duplicate in sorted(self._furthest, key=_rank):
            original = self._texts.document_of(duplicate.original)
            copy = self._texts.document_of(duplicate.source)
            if original is not None and copy is not None:
                pairs.append(Pair(duplicate, original, copy))
        return pairs

    def refused(self) -> list[Refused]:
        """Return the dead letters, in the order in which they came."""
        return [
            Refused(self._texts.where_from(each.source), each.reason, each.detail)
            for each in self._dead_letters
        ]


def _rank(entry: tuple[int, int, DuplicateOutput]) -> tuple[int, int]:
    return -entry[0], -entry[1]
