"""The figures of an evaluation, each worked out by hand."""

from __future__ import annotations

import pytest

from streams.evaluation import figures
from streams.evaluation.figures import LabelledPair, Precision

# Seven documents in the order of their file. 1 and 2 repeat 0, 4 repeats 3, 6 repeats 5:
# clusters {0, 1, 2}, {3, 4}, {5, 6}.
ORIGINALS = [0, 0, 0, 3, 3, 5, 5]
GROUPS = ["a", "a", "b", "c", "c", "d", "e"]
PAIRS = [
    LabelledPair(0, 1, 1, 0.95),  # joined
    LabelledPair(1, 2, 1, 0.55),  # joined, though 2 was never compared with 1
    LabelledPair(3, 4, 1, 1.0),  # joined
    LabelledPair(2, 3, 1, 0.5),  # missed, and 3 is unique: not caught either
    LabelledPair(1, 4, 1, 0.8),  # missed, but 4 is a duplicate: caught
    LabelledPair(5, 6, -1, 0.4),  # joined, and not to be scored
    LabelledPair(0, 3, 0, 0.1),  # rightly apart
]


def test_joined_is_having_the_same_original() -> None:
    assert figures.joined(ORIGINALS, LabelledPair(1, 2, 1))
    assert figures.joined(ORIGINALS, LabelledPair(0, 2, 1))
    assert not figures.joined(ORIGINALS, LabelledPair(2, 3, 1))
    assert figures.uniques(ORIGINALS) == 3


def test_recall_and_caught() -> None:
    assert figures.recall(ORIGINALS, PAIRS) == pytest.approx(3 / 5)
    assert figures.caught(ORIGINALS, PAIRS) == pytest.approx(4 / 5)


def test_recall_by_jaccard() -> None:
    more = [*PAIRS, LabelledPair(0, 5, 1, None), LabelledPair(0, 5, 1, 0.49)]
    assert figures.recall_by_jaccard(ORIGINALS, more) == {
        "0.5": 0.5,
        "0.6": None,
        "0.7": None,
        "0.8": 0.0,
        "0.9": 1.0,
    }


def test_precision_by_group() -> None:
    """Joined are 01 (a a), 02 (a b), 12 (a b), 34 (c c) and 56 (d e, not to be scored)."""
    assert figures.precision_counts(ORIGINALS, GROUPS, PAIRS) == Precision(right=2, judged=4)


def test_an_unscored_pair_of_one_group_is_left_out_on_both_sides() -> None:
    pairs = [*PAIRS, LabelledPair(3, 4, -1)]
    assert figures.precision_counts(ORIGINALS, GROUPS, pairs) == Precision(right=1, judged=3)


def test_precision_by_label_where_there_are_no_groups() -> None:
    """01, 12 and 34 are right; a joined negative is wrong."""
    nobody = [None] * len(ORIGINALS)
    assert figures.precision_counts(ORIGINALS, nobody, PAIRS) == Precision(right=3, judged=3)
    with_wrong = [*PAIRS, LabelledPair(0, 2, 0)]
    assert figures.precision_counts(ORIGINALS, nobody, with_wrong) == Precision(3, 4)


def test_precision_where_some_have_a_group() -> None:
    """Pairs of 0, 1 and 2 are judged by group, others by label."""
    groups = ["a", "a", "b", None, None, None, None]
    # By group 01 right, 02 and 12 wrong; by label 34 right; 56 is labelled −1.
    assert figures.precision_counts(ORIGINALS, groups, PAIRS) == Precision(right=2, judged=4)


def test_f1_needs_recall_and_precision() -> None:
    assert figures.f1(0.6, 0.5) == pytest.approx(6 / 11)
    assert figures.f1(0.0, 0.0) == 0
    assert figures.f1(None, 0.5) is None
    assert figures.f1(0.5, None) is None


def test_false_duplicates_are_below_half() -> None:
    assert figures.false_duplicates({1: 0.9, 2: 0.49, 4: 0.5, 6: 1.0}) == 0.25
    assert figures.false_duplicates({}) is None


def test_nothing_to_measure_is_not_zero() -> None:
    assert figures.recall([0, 1], []) is None
    assert figures.caught([0, 1], []) is None
    assert figures.precision_counts([0, 1], ["a", "b"], []) == Precision(0, 0)
