"""From normalised texts to weighted features, a batch at a time.

The terms, then the features of a batch stand in flat columns, one document after the other,
because a numpy call costs as much as the arithmetic of one document.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simhash_core.lexicon import Lexicon
from simhash_core.segmentation import Segmenter, is_feature
from simhash_core.term_codes import SEPARATOR, encode
from simhash_core.weighting import TermStatistics, Weighting


class Terms(NamedTuple):
    """The terms of some texts in order, repeats included.

    ``joined``: those of each text that has any, with separators between. ``sizes``: how many
    there are in each text, int64 (texts,).
    """

    joined: list[str]
    sizes: NDArray[np.int64]


class TermCounts(NamedTuple):
    """The distinct terms of some texts that are features.

    ``rows``: lexicon rows, int64 (features,), ascending within a text. ``counts``: occurrences,
    float64 (features,). Text ``i`` has those from ``bounds[i]`` up to ``bounds[i + 1]``; bounds:
    int64 (texts + 1,).
    """

    rows: NDArray[np.int64]
    counts: NDArray[np.float64]
    bounds: NDArray[np.int64]


class FeatureBatch(NamedTuple):
    """The features of some texts: ``rows`` and ``bounds`` as of ``TermCounts``.

    ``weights``: float64 (features,).
    """

    rows: NDArray[np.int64]
    weights: NDArray[np.float64]
    bounds: NDArray[np.int64]


def extract(
    texts: Sequence[str], segmenter: Segmenter, lexicon: Lexicon, weighting: Weighting
) -> FeatureBatch:
    """Segment normalised texts, count their terms and weigh them."""
    joined, sizes = segment(texts, segmenter)
    return weigh(count(lexicon.rows(encode(joined)), sizes, lexicon), lexicon, weighting)


def segment(texts: Sequence[str], segmenter: Segmenter) -> Terms:
    """Segment normalised texts."""
    joined: list[str] = []
    sizes: list[int] = []
    for text in texts:
        cut = segmenter.cut(text)
        sizes.append(len(cut))
        if cut:
            joined.append(SEPARATOR.join(cut))
    return Terms(joined, np.array(sizes, dtype=np.int64))


def count(rows: NDArray[np.int64], sizes: NDArray[np.int64], lexicon: Lexicon) -> TermCounts:
    """Count how often each feature occurs in each text; the rows are those of its terms."""
    # Text and row as one number: sorted, equal features of a text stand side by side. Half the
    # width takes half the time, and nearly always does.
    row_bits = len(lexicon.idf).bit_length()
    texts = np.arange(len(sizes) + 1) << row_bits
    pairs = np.repeat(texts[:-1], sizes) | rows
    if texts[-1] <= np.iinfo(np.int32).max:
        pairs = pairs.astype(np.int32)
    pairs.sort()
    is_first = np.ones(len(pairs), dtype=np.bool_)
    np.not_equal(pairs[1:], pairs[:-1], out=is_first[1:])
    starts = np.flatnonzero(is_first)
    counts = np.diff(starts, append=len(pairs))
    pairs = pairs[starts]
    distinct = (pairs & ((1 << row_bits) - 1)).astype(np.int64)
    kept = lexicon.is_feature[distinct]
    bounds = np.searchsorted(pairs[kept], texts)
    return TermCounts(distinct[kept], counts[kept].astype(np.float64), bounds)


def weigh(counted: TermCounts, lexicon: Lexicon, weighting: Weighting) -> FeatureBatch:
    """Give each feature its weight."""
    rows, counts, bounds = counted
    weights = weighting(TermStatistics(counts, lexicon.idf[rows], bounds))
    return FeatureBatch(rows, weights, bounds)


def terms(text: str, segmenter: Segmenter) -> list[str]:
    """Return the distinct terms of a normalised text that are features, in order."""
    return [term for term in dict.fromkeys(segmenter.cut(text)) if is_feature(term)]
