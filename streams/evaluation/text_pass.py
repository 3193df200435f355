"""The pass over the texts after the verdicts: each duplicate beside the original that it names.

An original stands before its duplicates in the file, so its text is held from its line to that of
its last duplicate and no longer; nobody else's text is held.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

from simhash_core.documents import Document
from simhash_core.exact_jaccard import exact_jaccard


class TextPass(NamedTuple):
    """``jaccards``: of each duplicate with its original. ``kept``: documents asked for."""

    jaccards: dict[int, float]
    kept: dict[int, Document]


def compare_with_originals(
    documents: Iterable[Document],
    originals: Sequence[int],
    keep: Collection[int] = (),
    watch: Callable[[int], None] | None = None,
) -> TextPass:
    """Go through the documents in their order; ``watch`` is told how many are done."""
    last_duplicate = {
        original: number for number, original in enumerate(originals) if original != number
    }
    waiting: dict[int, str] = {}
    jaccards: dict[int, float] = {}
    kept: dict[int, Document] = {}
    for number, document in enumerate(documents):
        original = originals[number]
        if number in last_duplicate:
            waiting[number] = document.text
        if original != number:
            jaccards[number] = exact_jaccard(waiting[original], document.text)
            if last_duplicate[original] == number:
                del waiting[original]
        if number in keep:
            kept[number] = document
        if watch is not None:
            watch(number + 1)
    return TextPass(jaccards, kept)
