"""Training an idf model: document frequencies of terms, counted in bounded memory.

Counts are exact while the distinct terms fit. When they do not fit, the rarest terms are dropped,
as in lossy counting (Manku & Motwani 2002): all terms up to the count that frees a quarter of the
room. A term that comes back starts at 0, so its frequency may be too low by the sum of these counts
(``undercount``).

    idf = ln(1 + documents / document frequency)

So even a term that is in every document has a weight, and every document has a fingerprint.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np

from simhash_core.errors import UsageError
from simhash_core.text.idf import TERMS_MAX, IdfHeader
from simhash_core.text.normalization import NORMALIZATION
from simhash_core.text.segmentation import is_feature

DECIMALS: Final = 4

_KEPT_SHARE: Final = 0.75


class TrainedIdf(NamedTuple):
    header: IdfHeader
    table: dict[str, float]


class DocumentFrequencies:
    """Counts in how many documents each term occurs, for at most ``terms_max`` terms."""

    def __init__(self, terms_max: int) -> None:
        """Raises ``UsageError`` for an invalid bound."""
        if not 1 <= terms_max <= TERMS_MAX:
            raise UsageError(f"terms_max is {terms_max}: it must be from 1 to {TERMS_MAX}")
        self._terms_max = terms_max
        self._counts: dict[str, int] = {}
        self.documents = 0
        self.undercount = 0

    def __len__(self) -> int:
        return len(self._counts)

    def add(self, terms: Iterable[str]) -> None:
        counts = self._counts
        for term in set(terms):
            counts[term] = counts.get(term, 0) + 1
        self.documents += 1
        if len(counts) > self._terms_max:
            self._forget()

    def model(self, name: str, segmenter: str, least: int) -> TrainedIdf:
        """Raises ``UsageError`` if no term is in ``least`` documents or more."""
        kept = {
            term: count
            for term, count in self._counts.items()
            if count >= least and is_feature(term)
        }
        if not kept:
            raise UsageError(
                f"no term is in {least} documents or more of {self.documents}: "
                "give more documents, or a lower --least"
            )
        header = IdfHeader(
            name=name,
            segmenter=segmenter,
            normalization=NORMALIZATION,
            documents=self.documents,
            least=least,
            undercount=self.undercount,
            terms=len(kept),
            unknown=self._idf(min(kept.values())),
        )
        return TrainedIdf(header, {term: self._idf(count) for term, count in kept.items()})

    def _idf(self, frequency: int) -> float:
        return round(math.log(1 + self.documents / frequency), DECIMALS)

    def _forget(self) -> None:
        counts = np.fromiter(self._counts.values(), dtype=np.int64, count=len(self._counts))
        excess = len(counts) - int(self._terms_max * _KEPT_SHARE)
        lowest = int(np.partition(counts, excess - 1)[excess - 1])
        self._counts = {term: count for term, count in self._counts.items() if count > lowest}
        self.undercount += lowest
