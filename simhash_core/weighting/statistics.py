"""What a weighting may look at: the distinct terms of a batch, column by column."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class TermStatistics(NamedTuple):
    """One row a distinct term of a document, the documents of a batch one after the other.

    ``counts``: occurrences in the document, float64 (terms,). ``idf``: inverse document
    frequency from the idf model, float64 (terms,). ``bounds``: document ``i`` has the terms from
    ``bounds[i]`` up to ``bounds[i + 1]``, int64 (documents + 1,); a document may have none.
    """

    counts: NDArray[np.float64]
    idf: NDArray[np.float64]
    bounds: NDArray[np.int64]
