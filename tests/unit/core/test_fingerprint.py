"""SimHash: the worked examples of the literature, and the laws that hold for any features."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simhash_core.errors import UsageError
from simhash_core.fingerprints.feature_hashes import FEATURE_HASHES, feature_hash_named, java_hash
from simhash_core.fingerprints.fingerprint import Votes, check_bits, pack, scale, sums, votes_of


def simhash(votes: Votes, weights: np.ndarray) -> bytes:
    return pack(sums(votes, scale(weights)))


@pytest.mark.parametrize(
    ("rows", "weights", "expected"),
    [
        # M1, the Java write-up: (1,2,0,3,0) sum to (−4,−2,6).
        ("101 011 100 001 110", (1, 2, 0, 3, 0), [-4, -2, 6]),
        # M4, the vector space paper: these sum to (3,−1,−1,−3). It prints 1001 and a last sum of
        # +3, an erratum: the last column (−1,−1,−1,−1,1) sums to −3.
        ("1010 1100 1110 1000 0001", (1, 1, 1, 1, 1), [3, -1, -1, -3]),
    ],
)
def test_worked_examples_of_the_literature(
    rows: str, weights: tuple[int, ...], expected: list[int]
) -> None:
    """The columns of the votes are hyperplanes too: the sign of each product is the bit."""
    votes = np.array([[1 if bit == "1" else -1 for bit in row] for row in rows.split()], np.int8)
    assert (np.array(weights) @ votes).tolist() == expected
    weighted = np.array(weights, dtype=np.float64)
    summed = sums(votes, scale(weighted))
    assert (summed / summed[-1] * expected[-1]).tolist() == expected
    assert simhash(votes, weighted) == np.packbits(np.array(expected) > 0).tobytes()


def test_the_java_hash_is_the_published_recurrence() -> None:
    """Seven bits up, times 1000003, XOR each letter, XOR the length."""
    a = ((97 << 7) * 1000003) ^ 97
    assert java_hash("a", 64) == ((a & (2**64 - 1)) ^ 1).to_bytes(8, "big")
    ab = ((((97 << 7) * 1000003) ^ 97) * 1000003) ^ 98
    assert java_hash("ab", 64) == ((ab & (2**64 - 1)) ^ 2).to_bytes(8, "big")
    assert java_hash("", 64) == bytes(8)


def test_feature_hashes_have_the_width_and_each_128_bits_are_seeded_anew() -> None:
    for name, bits in itertools.product(FEATURE_HASHES, (64, 128, 192, 256, 512)):
        feature_hash = feature_hash_named(name)
        assert len(feature_hash("文本", bits)) == bits // 8
        assert feature_hash("文本", bits) != feature_hash("本文", bits)
    wide = feature_hash_named("xxh3")("文本", 512)
    assert len({wide[i : i + 16] for i in range(0, 64, 16)}) == 4
    assert feature_hash_named("xxh3")("文本", 64) == wide[:8]


def test_no_features_and_ties_are_zeros() -> None:
    assert simhash(np.zeros((0, 64), dtype=np.int8), np.zeros(0)) == bytes(8)
    assert simhash(votes_of(b"\x00" * 8 + b"\xff" * 8, 64), np.ones(2)) == bytes(8)


@given(st.binary(min_size=8, max_size=8), st.integers(1, 100))
def test_one_feature_is_its_hash_however_often(hashed: bytes, times: int) -> None:
    assert simhash(votes_of(hashed * times, 64), np.full(times, 0.1)) == hashed


@given(st.lists(st.tuples(st.binary(min_size=8, max_size=8), st.integers(1, 50)), max_size=30))
def test_the_order_of_features_does_not_matter_and_the_inverse_is_inverse(
    features: list[tuple[bytes, int]],
) -> None:
    hashes = b"".join(hashed for hashed, _ in features)
    weights = np.array([weight for _, weight in features], dtype=np.float64)
    votes = votes_of(hashes, 64)
    assert simhash(votes, weights) == simhash(votes[::-1], weights[::-1])
    scaled = scale(weights)
    assert np.array_equal(sums(-votes, scaled), -sums(votes, scaled))


@given(st.lists(st.integers(0, 3), min_size=1, max_size=20))
def test_a_batch_is_scaled_like_each_document_alone(sizes: list[int]) -> None:
    bounds = np.concatenate(([0], np.cumsum(sizes)))
    weights = np.arange(1, bounds[-1] + 1) * 0.37
    together = scale(weights, bounds)
    alone = [scale(weights[a:b]) for a, b in itertools.pairwise(bounds)]
    assert np.array_equal(together, np.concatenate(alone))


def test_many_features_are_summed_exactly() -> None:
    rng = np.random.default_rng(7)
    votes = (rng.integers(0, 2, (30_000, 64), dtype=np.int8) * 2 - 1).astype(np.int8)
    scaled = scale(rng.uniform(0.001, 1000.0, 30_000))
    exact = scaled.astype(np.int64) @ votes.astype(np.int64)
    assert np.array_equal(sums(votes, scaled).astype(np.int64), exact)
    assert scaled.astype(np.int64).sum() < 2**24


def test_widths_and_weights_that_cannot_be() -> None:
    for bits in (0, 1, 63, 65, 96, 576, -64):
        with pytest.raises(UsageError, match=f"bits is {bits}"):
            check_bits(bits)
    for weight in (-1.0, float("nan"), float("inf")):
        with pytest.raises(UsageError, match="weight"):
            scale(np.array([1.0, weight]))
