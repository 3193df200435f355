"""Weightings: how much each distinct term of a document counts, by name.

A weighting is a pure function from ``TermStatistics`` to one weight a term. Weights are relative:
a fingerprint stays the same when all of them are multiplied by one number. Only sums, products,
quotients and square roots are used, which IEEE 754 rounds the same on every machine, so a
document has one fingerprint wherever it is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from simhash_core.errors import UnknownNameError
from simhash_core.weighting import tf, tfidf, tfidf_sublinear
from simhash_core.weighting.statistics import TermStatistics

Weighting = Callable[[TermStatistics], NDArray[np.float64]]

_BY_NAME: Final[Mapping[str, Weighting]] = {
    "tf": tf.weights,
    "tfidf": tfidf.weights,
    "tfidf-sublinear": tfidf_sublinear.weights,
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
