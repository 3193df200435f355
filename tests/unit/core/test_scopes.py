"""Scopes: masks of fingerprints and digests that keep the documents of two scopes apart."""

from __future__ import annotations

import pytest

from simhash_core.documents import masked, scoped_digest

A = bytes(range(32))


@pytest.mark.parametrize("size", [8, 16, 32, 64])
def test_a_mask_is_taken_off_by_itself_and_leaves_distances(size: int) -> None:
    prints = bytes(range(size)), bytes(range(1, size + 1))
    one, other = (masked(each, "tenant") for each in prints)
    assert one != prints[0]
    assert masked(one, "tenant") == prints[0]
    assert int.from_bytes(one) ^ int.from_bytes(other) == (
        int.from_bytes(prints[0]) ^ int.from_bytes(prints[1])
    )


def test_digests_are_those_of_a_scope_if_there_is_one() -> None:
    digests = [scoped_digest(A[:16], scope) for scope in ("x", "y", "a name " * 50)]
    assert len({*digests, A[:16]}) == 4
    assert {len(each) for each in digests} == {16}
    assert digests[0] == scoped_digest(A[:16], "x")
    assert (masked(A, ""), masked(b"", "x"), scoped_digest(A[:16], "")) == (A, b"", A[:16])


def test_across_scopes_equal_texts_are_far() -> None:
    prints = [int.from_bytes(masked(A, f"tenant {n}")) for n in range(100)]
    distances = [(a ^ b).bit_count() for at, a in enumerate(prints) for b in prints[:at]]
    assert min(distances) > 80
    assert 127 < sum(distances) / len(distances) < 129
