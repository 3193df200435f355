"""tf-idf: rare terms count for more (the base of Wang & Wang 2019).

The paper divides tf by the length of the document; a fingerprint does not see a common divisor,
so occurrences serve.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simhash_core.text.weighting.statistics import TermStatistics


def weights(terms: TermStatistics) -> NDArray[np.float64]:
    """Return occurrences times idf of each term, float64 (terms,)."""
    return terms.counts * terms.idf
