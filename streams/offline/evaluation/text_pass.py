"""The pass over the texts after the verdicts: each duplicate beside the original that it names.

An original stands before its duplicates in the file, so its text is held from its line to that of
its last duplicate and no longer; nobody else's text is held.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from simhash_core.analysis.exact_jaccard import exact_jaccard
from simhash_core.documents import Document

Named = tuple[int, int]
"""A duplicate and the original that it names, by their numbers."""


def named_by(originals: Sequence[int]) -> list[Named]:
    """Return each duplicate with its original."""
    return [(number, original) for number, original in enumerate(originals) if original != number]


def exact_jaccards(
    documents: Iterable[Document],
    named: Iterable[Named],
    watch: Callable[[int], None] | None = None,
) -> dict[Named, float]:
    """Return the exact Jaccard of the texts of each of ``named``, going through all documents once.

    ``named`` may be of several passes. ``watch`` is called with how many documents are done.
    """
    of_duplicate: dict[int, set[int]] = defaultdict(set)
    last_duplicate: dict[int, int] = {}
    for duplicate, original in named:
        of_duplicate[duplicate].add(original)
        last_duplicate[original] = max(duplicate, last_duplicate.get(original, duplicate))
    waiting: dict[int, str] = {}
    jaccards: dict[Named, float] = {}
    for number, document in enumerate(documents):
        for original in of_duplicate.get(number, ()):
            jaccards[number, original] = exact_jaccard(waiting[original], document.text)
            if last_duplicate[original] == number:
                del waiting[original]
        if number in last_duplicate:
            waiting[number] = document.text
        if watch is not None:
            watch(number + 1)
    return jaccards


def of_pass(jaccards: Mapping[Named, float], originals: Sequence[int]) -> dict[int, float]:
    """Return those of one pass, by the duplicate."""
    return {duplicate: jaccards[duplicate, original] for duplicate, original in named_by(originals)}
