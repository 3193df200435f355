"""The sets of labelled text for measuring quality; none is part of this repository.

A set is a directory ``NAME`` with ``documents.jsonl.gz`` and ``pairs.tsv``, in the form that
``firstseen evaluate`` reads.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

DIRECTORY_VARIABLE: Final = "QUALITY_DATA"

SENTENCES: Final = Path("sentences_zh", "pairs.jsonl.gz")
"""Pairs of short sentences: one JSON object per line, with ``text``, ``text2`` and ``label``."""

REAL_DOCUMENTS: Final = "revisions_zh"
"""The set whose documents are edited for the experiments of the papers."""

SCORES: Final = {"revisions_zh": "f1", "licences_en": "caught"}
"""The figure of each set that decides which threshold of a peer is its best; others: ``f1``.

In licences_en a group is the identity of a licence, not similarity, so pairs are not decisive.
"""

FALSE_DUPLICATES_MAX: Final = 0.02
"""The highest share of false duplicates that the best threshold of a contender may have."""


class LabelledSet(NamedTuple):
    name: str
    documents: Path
    pairs: Path

    @property
    def score(self) -> str:
        return SCORES.get(self.name, "f1")


def sets_in(directory: Path) -> list[LabelledSet]:
    paths = [(path, path.with_name("pairs.tsv")) for path in directory.glob("*/documents.jsonl.gz")]
    return [
        LabelledSet(path.parent.name, path, pairs)
        for path, pairs in sorted(paths)
        if pairs.exists()
    ]
