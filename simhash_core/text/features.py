"""From normalised texts to weighted features, a batch at a time.

A batch is flat columns, one document after the other, because a numpy call costs as much as the
arithmetic of one document.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simhash_core.text.lexicon import Lexicon
from simhash_core.text.segmentation_cache import SegmentationCache
from simhash_core.text.weighting import TermStatistics, Weighting


class TermCounts(NamedTuple):
    """The distinct terms of texts that are features; text ``i`` has bounds[i] to bounds[i + 1]."""

    rows: NDArray[np.int64]  # of the lexicon, ascending within a text
    counts: NDArray[np.float64]  # occurrences
    bounds: NDArray[np.int64]  # (texts + 1,)


class FeatureBatch(NamedTuple):
    """The features of some texts; ``rows`` and ``bounds`` as in ``TermCounts``."""

    rows: NDArray[np.int64]
    weights: NDArray[np.float64]
    bounds: NDArray[np.int64]


def extract(
    texts: Sequence[str],
    cache: SegmentationCache,
    lexicon: Lexicon,
    weighting: Weighting,
    titles: Sequence[str] = (),
) -> FeatureBatch:
    """Segment normalised texts, count their terms and weigh them.

    ``titles`` are normalised, one for each text, for a weighting that needs them.
    """
    if not weighting.titles:
        rows, sizes = cache.rows(texts)
        return weigh(count(rows, sizes, lexicon), lexicon, weighting)
    # Rows are valid until the next call, so both are looked up at once.
    rows, sizes = cache.rows([*texts, *titles])
    of_texts = int(sizes[: len(texts)].sum())
    counted = count(rows[:of_texts], sizes[: len(texts)], lexicon)
    title_terms = count(rows[of_texts:], sizes[len(texts) :], lexicon)
    return weigh(counted, lexicon, weighting, _shared(counted, title_terms))


def count(rows: NDArray[np.int64], sizes: NDArray[np.int64], lexicon: Lexicon) -> TermCounts:
    """Count how often each feature occurs in each text; the rows are those of its terms."""
    # Text and row as one number: sorted, equal features of a text are side by side. 32 bits are
    # nearly always enough and take half the time.
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


def weigh(
    counted: TermCounts,
    lexicon: Lexicon,
    weighting: Weighting,
    in_title: NDArray[np.bool_] | None = None,
) -> FeatureBatch:
    """Weigh each feature; ``in_title`` is bool (features,), as in ``TermStatistics``."""
    rows, counts, bounds = counted
    statistics = TermStatistics(counts, lexicon.idf[rows], bounds)
    if weighting.traits_of is not None:
        statistics = statistics._replace(traits=lexicon.traits.take(rows))
    if in_title is not None:
        statistics = statistics._replace(in_title=in_title)
    return FeatureBatch(rows, weighting.weights(statistics), bounds)


def _shared(counted: TermCounts, others: TermCounts) -> NDArray[np.bool_]:
    """Return whether each feature is also one of the other text with the same index."""
    rows = max(int(part.rows.max(initial=0)) for part in (counted, others)) + 1
    keys, other_keys = (
        np.repeat(np.arange(len(part.bounds) - 1), np.diff(part.bounds)) * rows + part.rows
        for part in (counted, others)
    )
    return np.isin(keys, other_keys, assume_unique=True)
