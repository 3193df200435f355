"""The checks of the invariants find each violation, and accept correct outputs."""

from __future__ import annotations

import re

import pytest

from simhash_core.fingerprints.blocks import BlockScheme
from simhash_core.text.verification import verifier_of
from tests.rigs.invariants import (
    Known,
    Nearness,
    Repeat,
    check_conservation,
    check_grounding,
    check_separation,
)

CLASSIC = Nearness(BlockScheme(bits=64, blocks=4, distance=3))
BEYOND = Nearness(BlockScheme(bits=64, blocks=4, distance=8))
CONFIRMED = Nearness(CLASSIC.scheme, verifier_of("shingles", 0.5))


def known(fingerprint: int | None, content: bytes = b"c" * 16) -> Known:
    raw = None if fingerprint is None else fingerprint.to_bytes(8, "big")
    return Known("id", raw, content)


# a and b differ in 3 bits, b and c in 3 others, a and c in 6.
A, B, C = known(0), known(0b111), known(0b111111)
FAR = known((1 << 64) - 1)
# 4 bits from A, one in each block: within the distance of 8, but in no common bucket.
SPREAD = known(0x0001_0001_0001_0001)


@pytest.mark.parametrize(
    ("uniques", "near", "share_no_block"),
    [
        ({"a": A, "c": C, "far": FAR, "x": known(None, b"x"), "y": known(None, b"y")}, CLASSIC, 0),
        ({"a": A, "spread": SPREAD}, BEYOND, 1),
    ],
)
def test_separate_uniques_pass(
    uniques: dict[str, Known], near: Nearness, share_no_block: int
) -> None:
    assert check_separation(uniques, near) == share_no_block


@pytest.mark.parametrize(
    ("uniques", "wrong"),
    [
        ({"a": A, "b": B, "far": FAR}, r"1 pairs.*\n  a and b: 3 bits apart"),
        ({"x": known(None), "y": known(None)}, "x and y: equal content"),
    ],
)
def test_separation_sees_each_violation(uniques: dict[str, Known], wrong: str) -> None:
    with pytest.raises(AssertionError, match=wrong):
        check_separation(uniques, CLASSIC)


def test_separation_looks_across_steps() -> None:
    # Odd multiples of a constant are far apart; multiples of 15 · 2^k are so only by chance.
    uniques = {str(n): known(n * 0x9E37_79B9_7F4A_7C15 % (1 << 64)) for n in range(1, 1200)}
    check_separation(uniques, CLASSIC)
    first = uniques["1"].fingerprint
    assert first is not None
    uniques["last"] = known(int.from_bytes(first, "big") ^ 1)
    with pytest.raises(AssertionError, match="1 and last: 1 bits apart"):
        check_separation(uniques, CLASSIC)


def test_uniques_whose_sketches_differ_are_not_near() -> None:
    a, b = known(0, b"a")._replace(sketch=bytes(256)), known(1, b"b")
    assert check_separation({"a": a, "b": b._replace(sketch=b"\xff" * 256)}, CONFIRMED) == 0
    with pytest.raises(AssertionError, match="a and b: 1 bits apart"):
        check_separation({"a": a, "b": b._replace(sketch=a.sketch)}, CONFIRMED)
    with pytest.raises(AssertionError, match="a and b: 1 bits apart"):
        check_separation({"a": a, "b": known(1, b"a")}, CONFIRMED)


DOCUMENTS = {
    "a": A,
    "b": B,
    "c": C,
    "far": FAR,
    "spread": SPREAD,
    "x": known(None, b"x"),
    "x2": known(None, b"x"),
    "y": known(None, b"y"),
    "sketched": known(0, b"a")._replace(sketch=bytes(256)),
    "other": known(1, b"b"),
}
UNIQUES = {"a", "far", "x", "sketched"}


def test_grounded_duplicates_pass() -> None:
    repeats = [Repeat("b", "a", 3), Repeat("x2", "x", 0)]
    assert check_grounding(DOCUMENTS, UNIQUES, repeats, CLASSIC) == 2


@pytest.mark.parametrize(
    ("repeat", "near", "wrong"),
    [
        (Repeat("a", "a", 0), CLASSIC, "names itself"),
        (Repeat("far", "a", 3), CLASSIC, "is on unique as well"),
        (Repeat("c", "b", 3), CLASSIC, "the original is not unique"),
        (Repeat("b", "a", 2), CLASSIC, "3 bits apart, not 2"),
        (Repeat("c", "a", 6), CLASSIC, "6 bits apart, near is up to 3"),
        (Repeat("y", "x", 0), CLASSIC, "the contents differ"),
        (Repeat("b", "x", 0), CLASSIC, "the contents differ"),
        (Repeat("x2", "x", 1), CLASSIC, "equal content at distance 1"),
        (Repeat("spread", "a", 4), BEYOND, "cannot be candidates"),
        (Repeat("other", "sketched", 1), CONFIRMED, "the sketches do not agree"),
    ],
)
def test_grounding_sees_each_violation(repeat: Repeat, near: Nearness, wrong: str) -> None:
    with pytest.raises(AssertionError, match=re.escape(wrong)):
        check_grounding(DOCUMENTS, UNIQUES, [repeat], near)


def test_conserved_records_pass() -> None:
    assert check_conservation(["1", "2", "3"], ["1"], ["3"], ["2"]) == 3


@pytest.mark.parametrize(
    ("outputs", "wrong"),
    [
        ([["1"], ["2"]], "3 is lost"),
        ([["1", "2"], ["2", "3"]], "2 is put out 2 times"),
        ([["1", "2", "3", "4"]], "4 never arrived"),
    ],
)
def test_conservation_sees_each_violation(outputs: list[list[str]], wrong: str) -> None:
    with pytest.raises(AssertionError, match=wrong):
        check_conservation(["1", "2", "3"], *outputs)
