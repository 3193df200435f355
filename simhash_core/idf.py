"""The idf model: how rare each term is.

It is trained offline and fixed: an idf that moved under a running index would move every
fingerprint with it. The default is jieba's own table (270,000 Chinese terms) with English function
words added.
"""

from __future__ import annotations

import hashlib
import statistics
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import NamedTuple

from simhash_core.errors import UsageError
from simhash_core.function_words import FUNCTION_WORD_IDF, VERSION
from simhash_core.normal_forms import normalize_batch


class IdfModel(NamedTuple):
    """Inverse document frequencies; ``unknown`` stands for a term that the table lacks.

    ``segmenter``: the name of what cut the texts that it was trained on, "" where any will do.
    """

    identity: str
    table: Mapping[str, float]
    unknown: float
    segmenter: str = ""

    def idf(self, term: str) -> float:
        """Return the inverse document frequency of ``term``, a natural logarithm."""
        return self.table.get(term, self.unknown)


@cache
def jieba_idf() -> IdfModel:
    """Return jieba's table, its terms normalised, with English function words added.

    Unknown terms get the median of jieba's table, as in jieba.
    """
    data = resources.files("jieba").joinpath("analyse/idf.txt").read_bytes()
    chinese = parse_idf("jieba", data)
    return IdfModel(
        f"{chinese.identity}+{VERSION}",
        {**FUNCTION_WORD_IDF, **chinese.table},
        chinese.unknown,
    )


def parse_idf(name: str, data: bytes) -> IdfModel:
    """Read a table of lines ``term idf``, UTF-8.

    The identity is ``name`` and a digest of the bytes. Raises ``UsageError`` naming the first
    line that cannot be read.
    """
    terms: list[str] = []
    values: list[float] = []
    for number, line in enumerate(data.decode("utf-8").splitlines(), start=1):
        term, _, value = line.strip().rpartition(" ")
        try:
            idf = float(value)
        except ValueError:
            idf = -1.0
        if not term or not 0.0 <= idf < float("inf"):
            raise UsageError(f"idf model {name}, line {number}: expected 'term idf', got {line!r}")
        terms.append(term)
        values.append(idf)
    # Of terms with one normal form the last counts.
    table = dict(zip(normalize_batch(terms), values, strict=True))
    if not table:
        raise UsageError(f"idf model {name} has no terms")
    digest = hashlib.blake2b(data, digest_size=6).hexdigest()
    return IdfModel(f"{name}-{digest}", table, statistics.median(table.values()))
