"""Weightings: how much each distinct term of a document counts, by name.

A weighting is a pure function from ``TermStatistics`` to one weight a term. Weights are relative:
a fingerprint stays the same when all of them are multiplied by one number. Only sums, products,
quotients and square roots are used, which IEEE 754 rounds the same on every machine, so a
document has one fingerprint wherever it is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simhash_core.errors import UnknownNameError
from simhash_core.text.term_traits import TraitsOf, lengths_of, traits_of
from simhash_core.text.weighting import tf, tfidf, tfidf_length, tfidf_roles, tfidf_sublinear
from simhash_core.text.weighting.statistics import TermStatistics


class Weighting(NamedTuple):
    """``weights`` gives one weight a term, and the others say what it looks at.

    ``traits_of``: what gives the traits of terms, None where it needs none. ``titles``: whether it
    needs to know which terms stand in the title.
    """

    weights: Callable[[TermStatistics], NDArray[np.float64]]
    traits_of: TraitsOf | None = None
    titles: bool = False


_BY_NAME: Final[Mapping[str, Weighting]] = {
    "tf": Weighting(tf.weights),
    "tfidf": Weighting(tfidf.weights),
    "tfidf-sublinear": Weighting(tfidf_sublinear.weights),
    "tfidf-length": Weighting(tfidf_length.weights, lengths_of),
    "tfidf-roles": Weighting(tfidf_roles.weights, traits_of, titles=True),
}
WEIGHTINGS: Final = tuple(_BY_NAME)

__all__ = ["WEIGHTINGS", "TermStatistics", "Weighting", "weighting_named"]


def weighting_named(name: str) -> Weighting:
    """Return the weighting called ``name``.

    Raises ``UnknownNameError`` for a name that is not in ``WEIGHTINGS``.
    """
    if name not in _BY_NAME:
        raise UnknownNameError("weighting", name, WEIGHTINGS)
    return _BY_NAME[name]
