"""Ranges of different lengths, gone through in one step."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def spread(
    starts: NDArray[np.intp], lengths: NDArray[np.intp]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return each place of some ranges: the number of its range, and the place."""
    of = np.repeat(np.arange(len(starts)), lengths)
    # Where a range begins, less the number of places before it.
    at = np.repeat(starts - np.cumsum(lengths) + lengths, lengths)
    at += np.arange(len(at))
    return of, at
