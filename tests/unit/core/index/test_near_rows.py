"""Documents compared each with each: the pairs are those of a comparison one by one."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from simhash_core.fingerprints.blocks import BlockScheme
from simhash_core.index.pairs import NearRows, near_earlier_rows, near_rows
from simhash_core.index.prints import Prints, shared_buckets
from simhash_core.text.profiles import profile_named

SIZES = ((0, 0), (0, 3), (3, 0), (1, 1), (2, 200), (64, 64), (65, 7), (150, 130))


def made(scheme: BlockScheme, documents: int, seed: int) -> Prints:
    """Fingerprints near a few centres, at about the distance of the scheme; keys that may agree."""
    random = np.random.default_rng(seed)
    centres = np.random.default_rng(0).integers(0, 2**64, (5, scheme.bits // 64), dtype=np.uint64)
    flipped = np.zeros((documents, scheme.bits), dtype=np.uint8)
    for row in flipped:
        row[random.permutation(scheme.bits)[: random.integers(scheme.distance + 1)]] = 1
    noise = np.packbits(flipped, axis=1, bitorder="little").view(np.uint64)
    keys = random.integers(0, 4, (documents, scheme.bands), dtype=np.uint32)
    times = np.zeros(documents, dtype=np.int64)
    return Prints(centres[random.integers(0, 5, documents)] ^ noise, keys, times)


def one_by_one(scheme: BlockScheme, left: Prints, right: Prints) -> list[tuple[int, int, int]]:
    """The pairs of a comparison that leaves nothing out."""

    def sketch(keys: NDArray[np.uint32]) -> bytes:
        return keys.astype("<u4").tobytes()

    pairs = []
    for row, ours in enumerate(left.fingerprints):
        for other, theirs in enumerate(right.fingerprints):
            distance = int(np.bitwise_count(ours ^ theirs).sum(dtype=np.int64))
            buckets = shared_buckets(
                scheme,
                ours.tobytes(),
                sketch(left.bands[row]),
                theirs.tobytes(),
                sketch(right.bands[other]),
            )
            if distance <= scheme.distance and buckets:
                pairs.append((row, other, distance))
    return pairs


def listed(found: NearRows) -> list[tuple[int, int, int]]:
    rows, others, distances = found
    return list(zip(rows.tolist(), others.tolist(), distances.tolist(), strict=True))


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("profile", ["classic", "wide"])
def test_pairs_are_those_of_a_comparison_one_by_one(profile: str, sizes: tuple[int, int]) -> None:
    scheme = profile_named(profile).scheme()
    left, right = (made(scheme, size, seed) for seed, size in enumerate(sizes, 1))
    expected = one_by_one(scheme, left, right)
    earlier = [pair for pair in one_by_one(scheme, left, left) if pair[1] < pair[0]]
    assert listed(near_rows(scheme, left, right)) == expected
    assert listed(near_earlier_rows(scheme, left)) == earlier
    assert bool(expected) == (min(sizes) > 1)


def test_fingerprints_that_differ_in_every_bit_are_far() -> None:
    scheme = profile_named("wide").scheme()
    keys = np.ones((1, scheme.bands), dtype=np.uint32)
    times = np.zeros(1, dtype=np.int64)
    zeros = Prints(np.zeros((1, 4), dtype=np.uint64), keys, times)
    ones = Prints(~zeros.fingerprints, keys, times)
    assert not len(near_rows(scheme, zeros, ones)[0])
    assert len(near_rows(scheme, ones, ones)[0])
