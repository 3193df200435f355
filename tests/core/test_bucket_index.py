"""The bucket index meets what a scan of all documents would, however they came."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simhash_core import bucket_index
from simhash_core.block_values import block_values, bucket_keys, bucket_names
from simhash_core.blocks import BlockScheme, Bucket
from simhash_core.bucket_index import BucketIndex
from simhash_core.placement import Placement, owner, owners

SCHEMES = [
    BlockScheme(64, 4, 3),
    BlockScheme(64, 8, 3, 8, 2),
    BlockScheme(256, 16, 72, 16, 2),
    BlockScheme(256, 21, 20, 12),
    BlockScheme(64, 7, 6, 9),
    BlockScheme(512, 16, 6, 32),
    BlockScheme(512, 128, 6, 4),
    BlockScheme(64, 1, 0, 1),
    BlockScheme(512, 20, 0, 25),
]
schemes = st.sampled_from(SCHEMES)
partitions = st.sampled_from([1, 2, 3, 16, 4096])


def fingerprints_of(scheme: BlockScheme, count: int, seed: int) -> list[bytes]:
    """Fingerprints of few different bytes, so that blocks are shared."""
    rng = random.Random(seed)
    return [bytes(rng.choices((0, 1, 0x80, 0xFF), k=scheme.bits // 8)) for _ in range(count)]


@given(schemes, st.integers(0, 999))
def test_blocks_of_many_are_those_of_each(scheme: BlockScheme, seed: int) -> None:
    """Given fingerprints, then values, names and numbers of their buckets, found for all at once,
    are those that the scheme gives for each.
    """
    rng = random.Random(seed)
    prints = [rng.randbytes(scheme.bits // 8) for _ in range(5)]
    whole = np.frombuffer(b"".join(prints), dtype=np.uint8).reshape(5, scheme.bits // 8)
    values = block_values(scheme, whole)
    buckets = [scheme.buckets(each) for each in prints]

    assert values.tolist() == [scheme.values(each) for each in prints]
    names = bucket_names(scheme, values)
    assert [[name.tobytes() for name in row] for row in names] == buckets
    keys = bucket_keys(scheme, [bucket for row in buckets for bucket in row])
    numbers = [
        index << scheme.block_bits | value
        for row in values.tolist()
        for index, value in enumerate(row)
    ]
    assert keys.tolist() == numbers


@given(schemes, partitions, st.integers(0, 999))
def test_owners_of_many_are_those_of_each(scheme: BlockScheme, count: int, seed: int) -> None:
    """Given block values, then their owners, found for all at once, are those of each bucket."""
    prints = fingerprints_of(scheme, 5, seed)
    values = Placement(scheme, count).values(prints)

    assert owners(values, count).tolist() == [
        [owner(bucket, count) for bucket in scheme.buckets(each)] for each in prints
    ]


@pytest.mark.parametrize("count", [2, 3, 16, 100])
@pytest.mark.parametrize("step", [1, 16, 256, 4096])
def test_owners_are_even_however_values_lie(count: int, step: int) -> None:
    """Given the values 0, step, 2 · step … of one block, then each partition owns its share of
    them, within five standard deviations.
    """
    shares = np.zeros(count)
    values = [value % 65536 for value in range(0, step * 4096, step)]
    distinct = sorted(set(values))
    for block in range(32):
        for value in distinct:
            bucket = Bucket(bytes((block,)) + value.to_bytes(2, "big"))
            shares[owner(bucket, count)] += 1
    expected = 32 * len(distinct) / count

    assert np.all(np.abs(shares - expected) < 5 * expected**0.5 + 1)


@given(
    scheme=schemes,
    count=st.sampled_from([1, 3]),
    steps=st.lists(
        st.tuples(st.sampled_from(["add", "load", "settle", "look"]), st.integers(1, 40)),
        min_size=1,
        max_size=12,
    ),
    expected=st.booleans(),
    seed=st.integers(0, 99),
)
def test_lookups_meet_all_that_was_added(
    scheme: BlockScheme,
    count: int,
    steps: list[tuple[str, int]],
    expected: bool,
    seed: int,
) -> None:
    """Given documents that come one by one and in bulk, into an index whose tail and segments are
    short, when documents are looked up in the buckets of a partition, told of in advance or not,
    then they meet whatever shares a bucket, once for each that is shared.
    """
    placement = Placement(scheme, count)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(bucket_index, "TAIL_DOCUMENTS", 8)
        patched.setattr(bucket_index, "_GATHERED_DOCUMENTS", 32)
        patched.setattr(bucket_index, "_MOST_DOCUMENTS", 128)
        patched.setattr(bucket_index, "_FETCHED_LOOKUPS", 3)
        index = BucketIndex(placement, 0)
        prints: list[bytes] = []
        for step, (kind, number) in enumerate(steps):
            if kind == "settle":
                index.settle()
            elif kind == "look":
                asked = fingerprints_of(scheme, min(number, 6), seed + step)
                check(index, placement, prints, asked, expected=expected)
            else:
                more = fingerprints_of(scheme, number, seed + step)
                first = len(prints)
                prints += more
                if kind == "add":
                    for order, each in enumerate(more, first):
                        index.add(order, each)
                else:
                    orders = np.arange(first, first + number, dtype=np.uint64)
                    words = np.frombuffer(b"".join(more), dtype=np.uint64)
                    index.load(orders, words.reshape(number, scheme.bits // 64))
        check(index, placement, prints, fingerprints_of(scheme, 3, seed), expected=expected)


def check(
    index: BucketIndex,
    placement: Placement,
    prints: list[bytes],
    asked: list[bytes],
    *,
    expected: bool,
) -> None:
    """Look documents up, and compare with a scan; the last is added in between."""
    ways = [placement.by_partition(each, b"").get(0, []) for each in asked]
    if expected:
        index.prefetch(ways)
    for fingerprint, way in zip(asked, ways, strict=True):
        met = index.candidates(way)
        assert all(row.tobytes() == prints[order] for order, row in zip(*met, strict=True))
        scanned = [
            order
            for order, other in enumerate(prints)
            for bucket in set(way) & set(placement.by_partition(other, b"").get(0, []))
            if bucket
        ]
        assert sorted(met.orders.tolist()) == scanned
        assert sum(index.sizes(way)) == len(scanned)
        index.add(len(prints), fingerprint)
        prints.append(fingerprint)
