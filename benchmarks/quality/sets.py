"""The sets of labelled text that quality is measured on; none is part of this repository.

A set is a directory ``NAME`` with ``documents.jsonl.gz`` and ``pairs.tsv``, as
``firstseen evaluate`` takes them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

DIRECTORY_VARIABLE: Final = "QUALITY_DATA"

SENTENCES: Final = Path("sentences_zh", "pairs.jsonl.gz")
"""Pairs of short sentences, a JSON object a line: ``text``, ``text2``."""

REAL_DOCUMENTS: Final = "revisions_zh"
"""The set whose documents are edited for the experiments of the papers."""

SCORES: Final = {"revisions_zh": "f1", "licences_en": "caught"}
"""What decides which threshold of a peer is its best; of a set that is not here, ``f1``.

In licences_en a group is the identity of a licence, not closeness: pairs say little there.
"""

FALSE_DUPLICATES_MAX: Final = 0.02
"""The share of false duplicates that a threshold may have to be anybody's best."""


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
