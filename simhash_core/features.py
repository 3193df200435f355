"""From normalised texts to weighted features, a batch at a time.

The features of a batch stand in flat columns, one document after the other, because a numpy call
costs as much as the arithmetic of one document.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simhash_core.lexicon import NOT_A_FEATURE, Lexicon
from simhash_core.segmentation import Segmenter, is_feature
from simhash_core.weighting import TermStatistics, Weighting


class FeatureBatch(NamedTuple):
    """The distinct features of some texts.

    ``rows``: lexicon rows, int64 (features,). ``weights``: float64 (features,). Text ``i`` has the
    features from ``bounds[i]`` up to ``bounds[i + 1]``; bounds: int64 (texts + 1,).
    """

    rows: NDArray[np.int64]
    weights: NDArray[np.float64]
    bounds: NDArray[np.int64]


def extract(
    texts: Sequence[str], segmenter: Segmenter, lexicon: Lexicon, weighting: Weighting
) -> FeatureBatch:
    """Segment normalised texts, count their terms and weigh them."""
    counted = [Counter(segmenter.cut(text)) for text in texts]
    sizes = np.fromiter(map(len, counted), dtype=np.int64, count=len(counted))
    size = int(sizes.sum())
    rows = lexicon.rows(chain.from_iterable(counted), size)
    values = chain.from_iterable(counter.values() for counter in counted)
    counts = np.fromiter(values, dtype=np.float64, count=size)
    kept = rows != NOT_A_FEATURE
    kept_before = np.concatenate(([0], np.cumsum(kept)))
    bounds = kept_before[np.concatenate(([0], np.cumsum(sizes)))]
    rows, counts = rows[kept], counts[kept]
    weights = weighting(TermStatistics(counts, lexicon.idf[rows], bounds))
    return FeatureBatch(rows, weights, bounds)


def terms(text: str, segmenter: Segmenter) -> list[str]:
    """Return the distinct terms that are features, in the order of ``extract``'s weights."""
    return [term for term in Counter(segmenter.cut(text)) if is_feature(term)]
