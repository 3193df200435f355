"""Blocks: the pigeonhole guarantee, the recall beyond it, and the published sizing."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from simhash_core.errors import UsageError
from simhash_core.fingerprints.blocks import BlockScheme
from simhash_core.fingerprints.fingerprint import distance_bits
from simhash_core.index.prints import block_values
from tests.unit.core.log.made_to_order import flipped

GUARANTEED = [
    *(BlockScheme(64, 4, 3), BlockScheme(64, 8, 7), BlockScheme(128, 16, 15)),
    *(BlockScheme(256, 16, 15), BlockScheme(256, 21, 20, 12)),
    *(BlockScheme(512, 32, 31), BlockScheme(64, 7, 6, 9)),
]
guaranteed = st.sampled_from(GUARANTEED)
schemes = st.sampled_from(
    [
        *GUARANTEED,
        *(BlockScheme(64, 8, 3, 8, 2), BlockScheme(256, 16, 72, 16, 2)),
        *(BlockScheme(512, 16, 6, 32), BlockScheme(512, 128, 6, 4), BlockScheme(512, 20, 0, 25)),
        BlockScheme(64, 1, 0, 1),
    ]
)


@given(guaranteed, st.randoms(use_true_random=False))
def test_within_the_guarantee_a_block_is_shared(scheme: BlockScheme, rng: random.Random) -> None:
    assert scheme.guaranteed
    fingerprint = rng.randbytes(scheme.bits // 8)
    near = flipped(fingerprint, *rng.sample(range(scheme.bits), scheme.distance))
    assert distance_bits(fingerprint, near) == scheme.distance
    assert scheme.shared_blocks(fingerprint, near)


@pytest.mark.parametrize(
    ("bits", "blocks", "width", "cuts"),
    [(64, 4, 16, 1), (256, 16, 16, 1), (256, 32, 8, 1), (64, 8, 8, 2), (256, 16, 16, 2)],
)
def test_the_expected_recall_is_what_random_flips_show(
    bits: int, blocks: int, width: int, cuts: int
) -> None:
    """The share of 4,000 draws that share a block is within four standard errors."""
    rng = random.Random(11)
    nothing = bytes(bits // 8)
    for distance in (blocks, blocks * 2, bits // 5):
        scheme = BlockScheme(bits, blocks, distance, width, cuts)
        shared = sum(
            bool(
                scheme.shared_blocks(nothing, flipped(nothing, *rng.sample(range(bits), distance)))
            )
            for _ in range(4000)
        )
        expected = scheme.expected_recall(distance)
        error = 4 * (max(expected * (1 - expected), 1e-4) / 4000) ** 0.5
        assert shared / 4000 == pytest.approx(expected, abs=error)
        if cuts == 2:
            assert expected > BlockScheme(bits, blocks, distance, width).expected_recall(distance)


@given(st.binary(min_size=32, max_size=32))
def test_a_block_is_made_of_the_bits_that_it_names(fingerprint: bytes) -> None:
    scheme = BlockScheme(256, 16, 64, 16, cuts=2)
    bits = f"{int.from_bytes(fingerprint, 'big'):0256b}"
    expected = [
        int("".join(bits[bit] for bit in scheme.bits_of(block)), 2)
        for block in range(scheme.all_blocks)
    ]
    assert scheme.values(fingerprint) == expected
    for cut in (range(16), range(16, 32)):
        assert sorted(bit for block in cut for bit in scheme.bits_of(block)) == list(range(256))


@given(guaranteed)
def test_the_curve_starts_at_one_and_falls(scheme: BlockScheme) -> None:
    curve = [scheme.expected_recall(d) for d in range(0, scheme.bits, 3)]
    assert curve[0] == 1.0
    assert scheme.expected_recall(scheme.blocks - 1) == 1.0
    assert all(a >= b for a, b in itertools.pairwise(curve))
    assert scheme.expected_recall(scheme.bits) == 0.0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((60, 4, 3), "bits is 60"),
        ((64, 0, 3), "blocks is 0"),
        ((64, 129, 3), "blocks is 129"),
        ((64, 4, 64), "distance is 64"),
        ((64, 4, -1), "distance is -1"),
        ((64, 5, 3, 16), "80 bits"),
        ((256, 4, 3, 33), "block_bits is 33"),
        ((64, 4, 3, 16, 1, 99), "bands is 99"),
    ],
)
def test_schemes_that_cannot_be(arguments: tuple[int, ...], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        BlockScheme(*arguments)
    with pytest.raises(UsageError, match="64 bits, the scheme has 128"):
        BlockScheme(128, 8, 7).values(bytes(8))


@given(
    schemes,
    st.binary(min_size=64, max_size=64),
    st.lists(st.integers(0, 511), max_size=40),
)
@example(BlockScheme(64, 8, 3, 8, 2), bytes(64), [0, 9, 18, 36, 45, 54, 63, 24])
def test_the_first_shared_block(scheme: BlockScheme, noise: bytes, bits: list[int]) -> None:
    fingerprint = noise[: scheme.bits // 8]
    other = flipped(fingerprint, *[bit % scheme.bits for bit in bits])
    shared = scheme.shared_blocks(fingerprint, other)
    assert scheme.first_shared_block(fingerprint, other) == (shared[0] if shared else None)


@given(schemes, st.lists(st.binary(min_size=64, max_size=64), max_size=5))
def test_blocks_of_many_are_those_of_each(scheme: BlockScheme, noise: list[bytes]) -> None:
    prints = [each[: scheme.bits // 8] for each in noise]
    whole = np.frombuffer(b"".join(prints), dtype=np.uint8).reshape(len(prints), scheme.bits // 8)
    assert block_values(scheme, whole).tolist() == [scheme.values(each) for each in prints]
