"""What an index of a given size will cost and find, computed before there is any data.

**Candidates.** Random fingerprints fill the buckets of a block evenly: N documents leave N /
2^block_bits in each, and a look-up compares one bucket for each block (Manku et al. 2007). Real
texts are not random, so this is a lower bound.

**Recall by similarity.** Each bit of two SimHashes differs with probability angle / π (Charikar
2002), so the distance of a pair at a given cosine is binomial. The recall is the sum over the
distances up to the threshold of the probability of the distance, times the probability that such a
pair shares a block. The Jaccard similarity of character 5-grams is converted to a cosine under an
assumption: edits change single characters and are spread evenly. Then a share s = 2J / (1 + J) of
the n-grams is left, and s^(2/5) of the words of two characters; this is the cosine. Real edits come
in runs, which leave more words whole, so real recall is higher; ``firstseen evaluate`` measures it.

**Bands.** A bin of the sketches of two texts is equal with probability J, and they share a band if
all its bins are equal, at any distance. Bands may have bins in common, so the probability to share
one or more is sampled (a standard error of 0.001). Random documents share a band only if two keys
are equal by accident.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import acos, comb, pi
from typing import Final

import numpy as np
from numpy.typing import NDArray

from simhash_core.analysis.exact_similarity import GRAM_CHARACTERS
from simhash_core.fingerprints.bands import Bands
from simhash_core.fingerprints.blocks import BlockScheme
from simhash_core.fingerprints.feature_hashes import splitmix64

_WORD_CHARACTERS: Final = 2
_DISTANCE_STEPS: Final = 8
_PAIRS_DRAWN: Final = 100_000


def recall_by_distance(scheme: BlockScheme) -> dict[int, float]:
    """Return the recall of blocks at up to nine distances from 0 to the threshold."""
    if not scheme.blocks:
        return {}
    steps = max(1, min(_DISTANCE_STEPS, scheme.distance))
    distances = [round(scheme.distance * step / steps) for step in range(steps + 1)]
    return {distance: scheme.expected_recall(distance) for distance in distances}


def recall_by_jaccard(scheme: BlockScheme, jaccards: Sequence[float]) -> dict[float, float]:
    """Return the recall of pairs by the Jaccard of their character 5-grams, 0 to 1."""
    meeting = [
        scheme.expected_recall(distance) if scheme.blocks else 0.0
        for distance in range(scheme.distance + 1)
    ]
    needed = _jaccards_needed(scheme.sketch_bands)
    recalls = {}
    for jaccard in jaccards:
        of_bands = float(np.mean(needed <= jaccard))
        of_any = [1 - (1 - chance) * (1 - of_bands) for chance in meeting]
        recalls[jaccard] = _recall_at(scheme.bits, of_any, cosine_of_jaccard(jaccard))
    return recalls


@lru_cache(maxsize=16)
def _jaccards_needed(bands: Bands) -> NDArray[np.float64]:
    """Return for each of many pairs the least Jaccard with which it would share a band."""
    if not bands.number:
        return np.full(1, np.inf)
    columns = int(bands.members.max()) + 1
    numbers = np.arange(1, _PAIRS_DRAWN * columns + 1, dtype=np.uint64)
    bins = splitmix64(np.zeros(1, dtype=np.uint64), numbers).reshape(-1, columns) / 2.0**64
    needed = np.full(_PAIRS_DRAWN, np.inf)
    for members in bands.members:
        np.minimum(needed, bins[:, members].max(axis=1), out=needed)
    return needed


def cosine_of_jaccard(jaccard: float) -> float:
    """Return the cosine of two texts' words from the Jaccard of their 5-grams (see the module)."""
    left = 2 * jaccard / (1 + jaccard)
    return float(left ** (_WORD_CHARACTERS / GRAM_CHARACTERS))


def _recall_at(bits: int, meeting: Sequence[float], cosine: float) -> float:
    """Sum over the distances within the threshold; ``meeting`` has the chances to share a block."""
    differs = acos(min(1.0, max(-1.0, cosine))) / pi
    return sum(
        comb(bits, distance) * differs**distance * (1 - differs) ** (bits - distance) * chance
        for distance, chance in enumerate(meeting)
    )
