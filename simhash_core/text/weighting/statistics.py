"""What a weighting may look at: the distinct terms of a batch, column by column."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simhash_core.text.term_traits import TermTraits, no_traits

_NO_TRAITS: Final = no_traits(0)
_NO_TITLES: Final = np.zeros(0, dtype=np.bool_)


class TermStatistics(NamedTuple):
    """One row a distinct term of a document, the documents of a batch one after the other.

    ``counts``: occurrences in the document, float64 (terms,). ``idf``: inverse document
    frequency from the idf model, float64 (terms,). ``bounds``: document ``i`` has the terms from
    ``bounds[i]`` up to ``bounds[i + 1]``, int64 (documents + 1,); a document may have none.

    The others are there for weightings that say so (``Weighting``), else empty.
    ``traits``: of each term, (terms,) in each column. ``in_title``: whether the document's title
    has the term as well, bool (terms,).
    """

    counts: NDArray[np.float64]
    idf: NDArray[np.float64]
    bounds: NDArray[np.int64]
    traits: TermTraits = _NO_TRAITS
    in_title: NDArray[np.bool_] = _NO_TITLES
