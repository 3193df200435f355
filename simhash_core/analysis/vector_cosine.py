"""The vector space model: texts as vectors of term frequencies, compared by their cosine.

The baseline that SimHash is set beside (Wang, Wu and Li, 2016): cos(a, b) = Σ aᵢbᵢ / (|a|·|b|). It
needs both texts whole, so it compares pairs and finds none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping


def vector_cosine(a: Mapping[str, float], b: Mapping[str, float]) -> float:
    """Return the cosine of two vectors, each by term; 0 where one of them is zero.

    Between 0 and 1 where no weight is negative.
    """
    norms = _norm(a) * _norm(b)
    if not norms:
        return 0.0
    if len(b) < len(a):
        a, b = b, a
    inner = math.fsum(weight * b[term] for term, weight in a.items() if term in b)
    return max(-1.0, min(1.0, inner / norms))


def _norm(vector: Mapping[str, float]) -> float:
    return math.hypot(*vector.values())
