"""The score of a run: recall and precision by kind, and what was lost or repeated."""

from __future__ import annotations

import json
import random

import pytest

from streams.corpus.corpus import generate
from streams.corpus.generated import EditKind, GeneratedRecord, Outcome
from streams.demo.scoring import ObservedOutput, Score, score


def record(doc_id: str, kind: EditKind, root: str | None = None) -> GeneratedRecord:
    """A record with the labels that scoring reads."""
    expected = Outcome.UNIQUE if root is None else Outcome.DUPLICATE
    if kind is EditKind.NOT_JSON:
        expected = Outcome.DEAD_LETTER
    return GeneratedRecord(doc_id.encode(), b"{}", doc_id, kind, root, root, expected, 0)


STREAM = (
    record("a", EditKind.ORIGINAL),
    record("b", EditKind.ORIGINAL),
    record("a1", EditKind.REPOST, root="a"),
    record("a2", EditKind.REPOST, root="a"),
    record("x", EditKind.NOT_JSON),
)


def unique(position: int) -> ObservedOutput:
    return ObservedOutput(position, Outcome.UNIQUE)


def duplicate(position: int, original_id: str | None) -> ObservedOutput:
    return ObservedOutput(position, Outcome.DUPLICATE, original_id)


DEAD_X = ObservedOutput(4, Outcome.DEAD_LETTER)
START = [unique(0), unique(1), duplicate(2, "a"), DEAD_X]
"""The outputs of all records but the second repost, as expected."""


def repost_counts(result: Score) -> tuple[int, int, int, float | None, float | None]:
    """Copies, found ones, those called a duplicate, recall and precision of the reposts."""
    kind = result.kinds[EditKind.REPOST]
    return kind.copies, kind.found, kind.called_duplicate, kind.recall, kind.precision


def test_all_rates_of_a_perfect_run_are_1() -> None:
    result = score(STREAM, [*START, duplicate(3, "a")])
    assert (result.recall, result.precision) == (1.0, 1.0)
    assert (result.lost, result.repeated, result.conflicting, result.swapped) == (0, 0, 0, 0)
    assert result.overall.as_expected == result.overall.count == len(STREAM)


@pytest.mark.parametrize(
    ("second_repost", "counts"),
    [
        ([duplicate(3, "a")], (2, 2, 2, 1.0, 1.0)),
        ([duplicate(3, "a1")], (2, 2, 2, 1.0, 1.0)),  # a copy of the same root
        ([unique(3)], (2, 1, 1, 0.5, 1.0)),  # missed: recall alone falls
        ([], (2, 1, 1, 0.5, 1.0)),  # lost
        # Of another root, of itself, of an unknown document, of none: neither found nor right.
        *(([duplicate(3, named)], (2, 1, 2, 0.5, 0.5)) for named in ("b", "a2", "nobody", None)),
    ],
)
def test_recall_and_precision_of_copies(
    second_repost: list[ObservedOutput], counts: tuple[int, int, int, float, float]
) -> None:
    result = score(STREAM, [*START, *second_repost])
    assert repost_counts(result) == counts
    assert result.lost == (not second_repost)


def test_an_original_called_a_duplicate_costs_precision_of_its_kind() -> None:
    outputs = [unique(0), duplicate(1, "a"), duplicate(2, "a"), duplicate(3, "a"), DEAD_X]
    result = score(STREAM, outputs)
    assert result.kinds[EditKind.ORIGINAL].precision == 0.0
    assert result.kinds[EditKind.ORIGINAL].recall is None
    assert result.precision == pytest.approx(2 / 3)
    assert result.recall == 1.0


def test_a_copy_judged_before_its_original_is_a_swap() -> None:
    """The overall recall counts the original in place of the copy."""
    outputs = [unique(2), duplicate(0, "a1"), unique(1), duplicate(3, "a1"), DEAD_X]
    result = score(STREAM, outputs)
    assert result.swapped == 1
    assert (result.recall, result.precision) == (1.0, 1.0)
    assert result.overall.recall == 0.5


def test_of_several_outputs_the_first_counts_and_others_may_be_in_conflict() -> None:
    again = [unique(0), unique(0), unique(3)]
    result = score(STREAM, [*START, duplicate(3, "a"), *again])
    assert (result.repeated, result.conflicting, result.lost) == (2, 1, 0)
    assert result.recall == 1.0


def test_a_broken_record_called_unique_is_not_as_expected() -> None:
    kind = score(STREAM, [unique(4)]).kinds[EditKind.NOT_JSON]
    assert (kind.count, kind.as_expected) == (1, 0)


@pytest.mark.parametrize("position", [-1, 5])
def test_an_output_of_another_stream_is_refused(position: int) -> None:
    with pytest.raises(ValueError, match=f"position {position}"):
        score(STREAM, [unique(position)])


def test_the_order_of_outputs_does_not_matter() -> None:
    records = list(generate(3, 400))
    outputs = [
        ObservedOutput(position, made.expected, made.root) for position, made in enumerate(records)
    ]
    result = score(records, random.Random(1).sample(outputs, len(outputs)))
    assert result == score(records, outputs)
    assert (result.recall, result.precision, result.lost) == (1.0, 1.0, 0)
    assert result.overall.as_expected == len(records)


def test_rates_of_nothing_are_unknown() -> None:
    result = score([], [])
    assert (result.recall, result.precision, result.lost, dict(result.kinds)) == (None, None, 0, {})


def test_the_score_as_json_has_every_count_by_name() -> None:
    read = json.loads(json.dumps(score(STREAM, START).to_dict()))
    assert read["lost"] == 1
    assert read["kinds"]["repost"] == {
        "count": 2,
        "copies": 2,
        "found": 1,
        "called_duplicate": 1,
        "rightly_called": 1,
        "as_expected": 1,
        "recall": 0.5,
        "precision": 1.0,
    }
    assert read["overall"]["count"] == len(STREAM)
