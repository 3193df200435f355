"""Term frequency: a term counts as often as it occurs (Manku et al. 2007; the Java write-up)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simhash_core.text.weighting.statistics import TermStatistics


def weights(terms: TermStatistics) -> NDArray[np.float64]:
    """Return the number of occurrences of each term, float64 (terms,)."""
    return terms.counts
