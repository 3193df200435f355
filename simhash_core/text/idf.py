"""The idf model: how rare each term is.

It is trained offline and fixed: an idf that moved under a running index would move every
fingerprint with it. The default is jieba's own table (270,000 Chinese terms) with English function
words added.
"""

from __future__ import annotations

import hashlib
import statistics
from collections.abc import Mapping, Sequence
from functools import cache
from math import inf, nan
from typing import NamedTuple, NoReturn

from simhash_core.errors import UsageError
from simhash_core.text.function_words import FUNCTION_WORD_IDF, VERSION
from simhash_core.text.jieba_files import read_jieba_file
from simhash_core.text.normal_forms import normalize_terms


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
    data = read_jieba_file("analyse/idf.txt")
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
    text = data.decode("utf-8")
    fields = text.split()  # all lines at once, as a table has some 100,000
    terms, numbers = fields[::2], fields[1::2]
    regular = "\n".join(map(" ".join, zip(terms, numbers, strict=False)))
    try:
        values = list(map(float, numbers))
    except ValueError:
        values = [nan]
    if regular != text.rstrip("\n") or not all(0.0 <= value < inf for value in values):
        _name_first_fault(name, text.splitlines())
    # Of terms with one normal form the last counts.
    table = dict(zip(normalize_terms(terms), values, strict=True))
    if not table:
        raise UsageError(f"idf model {name} has no terms")
    digest = hashlib.blake2b(data, digest_size=6).hexdigest()
    return IdfModel(f"{name}-{digest}", table, statistics.median(table.values()))


def _name_first_fault(name: str, lines: Sequence[str]) -> NoReturn:
    for number, line in enumerate(lines, start=1):
        term, _, value = line.partition(" ")
        try:
            faulty = not term or not 0.0 <= float(value) < inf or value != value.strip()
        except ValueError:
            faulty = True
        if faulty:
            raise UsageError(f"idf model {name}, line {number}: expected 'term idf', got {line!r}")
    raise UsageError(f"idf model {name}: lines are not separated by line feeds alone")
