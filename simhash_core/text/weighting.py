"""Weightings: how much each distinct term of a document counts, by name.

A weighting is a pure function from ``TermStatistics`` to one weight for each term. Weights are
relative: multiplying all of them leaves a fingerprint unchanged. They use only sums, products,
quotients and square roots, which IEEE 754 rounds the same everywhere, so a document has the same
fingerprint on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal, localcontext
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simhash_core.errors import UnknownNameError
from simhash_core.text.term_traits import TermTraits, TraitsOf, lengths_of, no_traits, traits_of

# ---- The statistics of a batch's distinct terms, as columns.


_NO_TRAITS: Final = no_traits(0)
_NO_TITLES: Final = np.zeros(0, dtype=np.bool_)


class TermStatistics(NamedTuple):
    """The distinct terms of documents; document ``i`` has bounds[i] up to bounds[i + 1]."""

    counts: NDArray[np.float64]  # occurrences in the document
    idf: NDArray[np.float64]
    bounds: NDArray[np.int64]  # (documents + 1,)
    # Empty unless the ``Weighting`` needs them:
    traits: TermTraits = _NO_TRAITS
    in_title: NDArray[np.bool_] = _NO_TITLES  # whether the title has the term too


# ---- Term frequency: the number of occurrences (Manku et al. 2007; the Java write-up).


def tf(terms: TermStatistics) -> NDArray[np.float64]:
    return terms.counts


# ---- tf-idf: rare terms count more (the base of Wang & Wang 2019).
#
# The paper divides tf by the length of the document; a common divisor does not change a
# fingerprint, so occurrences are enough.


def tfidf(terms: TermStatistics) -> NDArray[np.float64]:
    return terms.counts * terms.idf


# ---- tf^0.75 · idf: a frequent term must not speak for the whole document.
#
# Measured on human revisions of Chinese articles, 256 bits: precision .995 at recall .925, where
# linear tf-idf has .884 at .923.


def tfidf_sublinear(terms: TermStatistics) -> NDArray[np.float64]:
    # x^0.75 as √x · √√x: square roots are rounded the same everywhere, a general power is not.
    root = np.sqrt(terms.counts)
    return root * np.sqrt(root) * terms.idf


# ---- tf-idf × term length: terms of the usual length of a technical term count up to twice.
#
# Wang & Wang 2019 (improved SimHash for large-scale document deduplication): the lengths of
# 10,000 CSSCI terms, in characters, fit the normal distribution N(4.51, 2.207²) with R² 0.9499, and
#
#     w(x) = tf · idf · (1 + len(x)),    len(x) = exp(−(x − 4.51)² / (2 · 2.207²)).
#
# *Reading of a lost formula.* Our copy lost the image of len(x). The text says that it is the
# fitted curve "normalised", with values near 1 for four and five characters. So we take the
# density divided by its maximum, which is 1 at the mean. Occurrences stand for tf, as above.


MEAN: Final = Decimal("4.51")
DEVIATION: Final = Decimal("2.207")

_PLACES: Final = Decimal("1e-12")
_LONGEST: Final = 24  # beyond, the curve is below half of a last place: 0


def length_relevance(characters: int) -> Decimal:
    """Return len(x), to twelve decimal places."""
    with localcontext() as context:
        context.prec = 40
        return (-((characters - MEAN) ** 2) / (2 * DEVIATION**2)).exp().quantize(_PLACES)


# Decimal arithmetic is exact to the last place on every machine; a libm's exp may not be.
_RELEVANCE: Final = np.array([float(length_relevance(x)) for x in range(_LONGEST + 1)] + [0.0])


def tfidf_length(terms: TermStatistics) -> NDArray[np.float64]:
    lengths = np.minimum(terms.traits.lengths, _LONGEST + 1).astype(np.int64)
    return terms.counts * terms.idf * (1.0 + _RELEVANCE[lengths])


# ---- tf-idf by the roles of a term: part of speech, length, cue, title.
#
# The "improved TF-IDF SimHash" of the 2020s weighs terms by what its authors' tagger (ICTCLAS)
# finds: nouns and verbs carry a sentence, long terms say more than short ones, cue terms
# ("综上所述", "总之", "但是", …) and terms of the title count five times.
#
# *Reading of lost formulas.* Our copy lost the images. Ours:
#
# - the factors are multiplied on tf-idf;
# - a noun or verb counts twice, every other part of speech once: "subject and predicate" carry the
#   meaning, and no number is legible;
# - the length is normalised between the shortest and longest term of the document, (len − min) /
#   (max − min); four characters and more are favoured "but not in proportion", so the factor is 1 +
#   its square root, which rises fast at first; it is 1 if all lengths are equal.
#
# Terms of the title alone are no features: the title weighs what the text says. So two documents
# with one text and two titles have different fingerprints by this weighting.


MAIN_FACTOR: Final = 2.0
CUE_FACTOR: Final = 5.0
TITLE_FACTOR: Final = 5.0


def tfidf_roles(terms: TermStatistics) -> NDArray[np.float64]:
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


class Weighting(NamedTuple):
    weights: Callable[[TermStatistics], NDArray[np.float64]]
    traits_of: TraitsOf | None = None  # None: not needed
    titles: bool = False  # it needs to know which terms are in the title


_BY_NAME: Final[Mapping[str, Weighting]] = {
    "tf": Weighting(tf),
    "tfidf": Weighting(tfidf),
    "tfidf-sublinear": Weighting(tfidf_sublinear),
    "tfidf-length": Weighting(tfidf_length, lengths_of),
    "tfidf-roles": Weighting(tfidf_roles, traits_of, titles=True),
}
WEIGHTINGS: Final = tuple(_BY_NAME)


def weighting_named(name: str) -> Weighting:
    """Raises ``UnknownNameError``."""
    if name not in _BY_NAME:
        raise UnknownNameError("weighting", name, WEIGHTINGS)
    return _BY_NAME[name]
