"""The score of a run: recall and precision by kind, and what was lost or repeated."""

from __future__ import annotations

import json
import random

import pytest

from streams.corpus.corpus import generate
from streams.corpus.generated import EditKind, GeneratedRecord, Outcome
from streams.demo.scoring import ObservedOutput, Score, score


def record(doc_id: str | None, kind: EditKind, root: str | None = None) -> GeneratedRecord:
    """Make a record with the labels that scoring reads."""
    expected = Outcome.UNIQUE if root is None else Outcome.DUPLICATE
    if kind is EditKind.NOT_JSON:
        expected = Outcome.DEAD_LETTER
    return GeneratedRecord(
        key=doc_id.encode() if doc_id else None,
        value=b"{}",
        id=doc_id,
        kind=kind,
        root=root,
        parent=root,
        expected=expected,
        timestamp_ms=0,
    )


STREAM = (
    record("a", EditKind.ORIGINAL),
    record("b", EditKind.ORIGINAL),
    record("a1", EditKind.REPOST, root="a"),
    record("a2", EditKind.REPOST, root="a"),
    record("x", EditKind.NOT_JSON),
)
UNIQUE_A, UNIQUE_B = ObservedOutput(0, Outcome.UNIQUE), ObservedOutput(1, Outcome.UNIQUE)
DEAD_X = ObservedOutput(4, Outcome.DEAD_LETTER)


def duplicate(position: int, original_id: str | None) -> ObservedOutput:
    """Make the output of a duplicate."""
    return ObservedOutput(position, Outcome.DUPLICATE, original_id)


def repost_counts(result: Score) -> tuple[int, int, int, float | None, float | None]:
    """Return what was counted of the reposts."""
    kind = result.kinds[EditKind.REPOST]
    return kind.copies, kind.found, kind.called_duplicate, kind.recall, kind.precision


def test_a_perfect_run() -> None:
    """Given every record as expected, then all rates are 1 and nothing is amiss."""
    result = score(STREAM, [UNIQUE_A, UNIQUE_B, duplicate(2, "a"), duplicate(3, "a"), DEAD_X])
    assert (result.recall, result.precision) == (1.0, 1.0)
    assert (result.lost, result.repeated, result.conflicting, result.swapped) == (0, 0, 0, 0)
    assert result.overall.as_expected == result.overall.count == len(STREAM)
    assert repost_counts(result) == (2, 2, 2, 1.0, 1.0)


def test_a_copy_joined_with_another_copy_of_its_root_is_found() -> None:
    """Given a duplicate that names a copy instead of the original, then the root is the same."""
    result = score(STREAM, [UNIQUE_A, UNIQUE_B, duplicate(2, "a"), duplicate(3, "a1"), DEAD_X])
    assert result.recall == 1.0


def test_a_missed_copy_costs_recall_only() -> None:
    """Given a copy called unique, then recall falls and precision stays."""
    missed = ObservedOutput(3, Outcome.UNIQUE)
    result = score(STREAM, [UNIQUE_A, UNIQUE_B, duplicate(2, "a"), missed, DEAD_X])
    assert repost_counts(result) == (2, 1, 1, 0.5, 1.0)


@pytest.mark.parametrize("named", ["b", "a2", "nobody", None])
def test_a_duplicate_of_the_wrong_document_costs_both(named: str | None) -> None:
    """Given a duplicate that names a document of another root, itself, an unknown one or none,
    then it is neither found nor right.
    """
    outputs = [UNIQUE_A, UNIQUE_B, duplicate(2, "a"), duplicate(3, named), DEAD_X]
    assert repost_counts(score(STREAM, outputs)) == (2, 1, 2, 0.5, 0.5)


def test_an_original_called_a_duplicate_costs_precision_of_its_kind() -> None:
    """Given an original called a duplicate of a stranger, then the originals' precision is 0."""
    outputs = [UNIQUE_A, duplicate(1, "a"), duplicate(2, "a"), duplicate(3, "a"), DEAD_X]
    result = score(STREAM, outputs)
    assert result.kinds[EditKind.ORIGINAL].precision == 0.0
    assert result.kinds[EditKind.ORIGINAL].recall is None
    assert result.precision == pytest.approx(2 / 3)
    assert result.recall == 1.0


def test_a_copy_judged_before_its_original_is_a_swap() -> None:
    """Given workers that judged the copy first, then the original is rightly its duplicate: the
    overall recall counts it in place of the copy.
    """
    first = ObservedOutput(2, Outcome.UNIQUE)
    result = score(STREAM, [first, duplicate(0, "a1"), UNIQUE_B, duplicate(3, "a1"), DEAD_X])
    assert result.swapped == 1
    assert (result.recall, result.precision) == (1.0, 1.0)
    assert result.overall.recall == 0.5


def test_a_record_without_output_is_lost() -> None:
    """Given a record that never came out, then it is counted lost, and a copy so is not found."""
    result = score(STREAM, [UNIQUE_A, UNIQUE_B, duplicate(2, "a"), DEAD_X])
    assert result.lost == 1
    assert repost_counts(result) == (2, 1, 1, 0.5, 1.0)


def test_a_record_with_several_outputs_is_repeated_and_perhaps_in_conflict() -> None:
    """Given one output three times and another with a change of mind, then both records are
    repeated, one is in conflict, and the first output counts.
    """
    change_of_mind = ObservedOutput(3, Outcome.UNIQUE)
    outputs = [UNIQUE_A, UNIQUE_A, UNIQUE_A, UNIQUE_B, duplicate(2, "a"), duplicate(3, "a")]
    result = score(STREAM, [*outputs, change_of_mind, DEAD_X])
    assert (result.repeated, result.conflicting, result.lost) == (2, 1, 0)
    assert result.recall == 1.0


def test_a_broken_record_called_unique_is_not_as_expected() -> None:
    """Given a dead letter that came out as unique, then its kind is not as expected."""
    result = score(STREAM, [ObservedOutput(4, Outcome.UNIQUE)])
    kind = result.kinds[EditKind.NOT_JSON]
    assert (kind.count, kind.as_expected) == (1, 0)


@pytest.mark.parametrize("position", [-1, 5])
def test_an_output_of_another_stream_is_refused(position: int) -> None:
    """Given a position that the stream does not have, then the error names it."""
    with pytest.raises(ValueError, match=f"position {position}"):
        score(STREAM, [ObservedOutput(position, Outcome.UNIQUE)])


def test_the_order_of_outputs_does_not_matter() -> None:
    """Given a generated stream and its expected outcomes, when they come in any order, then the
    score is the same: perfect.
    """
    records = list(generate(3, 400))
    outputs = [
        ObservedOutput(position, made.expected, made.root) for position, made in enumerate(records)
    ]
    result = score(records, random.Random(1).sample(outputs, len(outputs)))
    assert result == score(records, outputs)
    assert (result.recall, result.precision, result.lost) == (1.0, 1.0, 0)
    assert result.overall.as_expected == len(records)


def test_the_score_of_nothing() -> None:
    """Given no records, then rates are unknown, not 0 or 1."""
    result = score([], [])
    assert (result.recall, result.precision, result.lost, dict(result.kinds)) == (None, None, 0, {})


def test_the_score_as_json() -> None:
    """Given a score, then its dictionary goes through JSON and holds every count by name."""
    result = score(STREAM, [UNIQUE_A, UNIQUE_B, duplicate(2, "a"), DEAD_X])
    read = json.loads(json.dumps(result.to_dict()))
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
