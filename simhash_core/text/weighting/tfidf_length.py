"""tf-idf × term length: terms of the usual length of a technical term count for up to twice.

Wang & Wang 2019 (improved SimHash for large-scale document deduplication): the lengths of 10,000
CSSCI terms, in characters, fit the normal distribution N(4.51, 2.207²) with R² 0.9499, and

    w(x) = tf · idf · (1 + len(x)),    len(x) = exp(−(x − 4.51)² / (2 · 2.207²)).

*Reading of a lost formula.* The copy that we have lost the image of len(x); the text says that it
is the fitted curve "normalised", and values near 1 for four and five characters. We read it as the
density divided by its greatest value, so that it is 1 at the mean.

The paper divides tf by the length of the document; a fingerprint does not see a common divisor,
so occurrences serve.
"""

from __future__ import annotations

from decimal import Decimal, localcontext
from typing import Final

import numpy as np
from numpy.typing import NDArray

from simhash_core.text.weighting.statistics import TermStatistics

MEAN: Final = Decimal("4.51")
DEVIATION: Final = Decimal("2.207")

_PLACES: Final = Decimal("1e-12")
_LONGEST: Final = 24
"""Beyond, the curve is below half of a last place: 0."""


def length_relevance(characters: int) -> Decimal:
    """Return len(x), to twelve decimal places: 1 at the mean, towards 0 on both sides."""
    with localcontext() as context:
        context.prec = 40
        return (-((characters - MEAN) ** 2) / (2 * DEVIATION**2)).exp().quantize(_PLACES)


# Decimal arithmetic is exact to the last place on every machine; a libm's exp need not be.
_RELEVANCE: Final = np.array([float(length_relevance(x)) for x in range(_LONGEST + 1)] + [0.0])


def weights(terms: TermStatistics) -> NDArray[np.float64]:
    """Return occurrences × idf × (1 + length relevance) of each term, float64 (terms,)."""
    lengths = np.minimum(terms.traits.lengths, _LONGEST + 1).astype(np.int64)
    return terms.counts * terms.idf * (1.0 + _RELEVANCE[lengths])
