"""Scopes: a mask for fingerprints, and a part of the digest."""

from __future__ import annotations

import pytest

from simhash_core.documents import masked, scoped_digest

A, B = bytes(range(32)), bytes(range(1, 33))


@pytest.mark.parametrize("size", [8, 16, 32, 64])
def test_a_mask_is_taken_off_by_itself(size: int) -> None:
    print_ = bytes(range(size))
    assert masked(print_, "tenant") != print_
    assert masked(masked(print_, "tenant"), "tenant") == print_


def test_within_a_scope_distances_stay() -> None:
    def differing(scope: str) -> int:
        return int.from_bytes(masked(A, scope)) ^ int.from_bytes(masked(B, scope))

    assert differing("x") == differing("y") == differing("")


def test_across_scopes_equal_texts_are_far() -> None:
    prints = [int.from_bytes(masked(A, f"tenant {n}")) for n in range(100)]
    distances = [(a ^ b).bit_count() for at, a in enumerate(prints) for b in prints[:at]]
    assert min(distances) > 80
    assert 127 < sum(distances) / len(distances) < 129


def test_without_a_scope_nothing_changes() -> None:
    assert masked(A, "") == A
    assert masked(b"", "tenant") == b""
    assert scoped_digest(A[:16], "") == A[:16]


def test_digests_are_those_of_a_scope() -> None:
    assert scoped_digest(A[:16], "x") != scoped_digest(A[:16], "y")
    assert scoped_digest(A[:16], "x") == scoped_digest(A[:16], "x")
    assert len(scoped_digest(A[:16], "a name " * 50)) == 16
