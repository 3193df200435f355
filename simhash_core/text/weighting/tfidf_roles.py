"""tf-idf by the roles that a term plays: part of speech, length, cue, title.

The "improved TF-IDF SimHash" of the 2020s, which weighs terms as its authors' tagger (ICTCLAS)
finds them: nouns and verbs carry a sentence, long terms say more than short ones, cue terms ("综上
所述", "总之", "但是", …) and terms of the title count five times.

*Reading of lost formulas.* The copy that we have lost the images. Ours:

- the factors are multiplied on tf-idf;
- a noun or verb counts twice, every other part of speech once: "subject and predicate" carry the
  meaning, and no number is legible;
- the length is normalised between the shortest and the longest term of the document, (len − min) /
  (max − min), and four characters and more are favoured "but not in proportion": the factor is
  1 + the square root of it, which rises fast at first and slowly later; 1 where all lengths are
  equal.

Terms that stand in the title alone are no features: the title weighs what the text says. So two
documents with one text and two titles have different fingerprints by this weighting.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from simhash_core.text.weighting.statistics import TermStatistics

MAIN_FACTOR: Final = 2.0
CUE_FACTOR: Final = 5.0
TITLE_FACTOR: Final = 5.0


def weights(terms: TermStatistics) -> NDArray[np.float64]:
    """Return tf-idf of each term times its four factors, float64 (terms,)."""
    traits = terms.traits
    result: NDArray[np.float64] = terms.counts * terms.idf
    result *= 1.0 + np.sqrt(_normalised(traits.lengths, terms.bounds))
    result *= np.where(traits.is_main, MAIN_FACTOR, 1.0)
    result *= np.where(traits.is_cue, CUE_FACTOR, 1.0)
    result *= np.where(terms.in_title, TITLE_FACTOR, 1.0)
    return result


def _normalised(lengths: NDArray[np.float64], bounds: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return each length as a share of the way from the document's shortest to its longest."""
    sizes = np.diff(bounds)
    starts, sizes = bounds[:-1][sizes > 0], sizes[sizes > 0]
    if not sizes.size:
        return lengths
    least = np.minimum.reduceat(lengths, starts)
    span = np.maximum.reduceat(lengths, starts) - least
    span[span == 0] = 1.0  # all lengths are equal: each is 0 above the least
    normalised: NDArray[np.float64] = lengths - np.repeat(least, sizes)
    normalised /= np.repeat(span, sizes)
    return normalised
