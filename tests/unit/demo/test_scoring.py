"""The score of a run: recall and precision by kind."""

from __future__ import annotations

import random

import pytest

from simhash_core.documents import SourcePosition
from streams.corpus.corpus import generate
from streams.corpus.generated import EditKind, GeneratedRecord, Outcome
from streams.demo.scoring import Score, Truth
from streams.documents.output_records import (
    DeadLetterOutput,
    DuplicateOutput,
    ReceivedOutput,
    UniqueOutput,
)


def record(doc_id: str, kind: EditKind, root: str | None = None) -> GeneratedRecord:
    """Return a record with the labels that the score uses."""
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


def at(index: int) -> SourcePosition:
    return SourcePosition("raw", index % 3, index)


def unique(index: int) -> ReceivedOutput:
    return UniqueOutput(at(index), "", "")


def duplicate(index: int, original_id: str) -> ReceivedOutput:
    return DuplicateOutput(at(index), "", at(0), original_id, 1, 64, 0.9, "near")


DEAD_X: ReceivedOutput = DeadLetterOutput(at(4), "not_json", "")
START: list[ReceivedOutput] = [unique(0), unique(1), duplicate(2, "a"), DEAD_X]
"""The outputs of all records but the second repost, as expected."""


def score(records: tuple[GeneratedRecord, ...], outputs: list[ReceivedOutput]) -> Score:
    truth = Truth()
    for output in outputs[::2]:  # some come before the acknowledgement
        truth.note_output(output)
    for each in records:
        index = truth.add(each)
        truth.note_sent(index, at(index))
    for output in outputs[1::2]:
        truth.note_output(output)
    return truth.score()


@pytest.mark.parametrize(
    ("second_repost", "found", "called", "recall", "precision"),
    [
        ([duplicate(3, "a")], 2, 2, 1.0, 1.0),
        ([duplicate(3, "a1")], 2, 2, 1.0, 1.0),  # a copy of the same root
        ([unique(3)], 1, 1, 0.5, 1.0),  # missed: only recall falls
        ([], 1, 1, 0.5, 1.0),  # lost
        ([duplicate(3, "a"), unique(3)], 2, 2, 1.0, 1.0),  # the first output counts
        # Of another root, of itself, of an unknown document: neither found nor right.
        *(([duplicate(3, named)], 1, 2, 0.5, 0.5) for named in ("b", "a2", "nobody")),
    ],
)
def test_recall_and_precision_of_copies(
    second_repost: list[ReceivedOutput], found: int, called: int, recall: float, precision: float
) -> None:
    result = score(STREAM, [*START, *second_repost])
    assert result.kinds[EditKind.REPOST].to_dict() == {
        "count": 2,
        "copies": 2,
        "found": found,
        "called_duplicate": called,
        "rightly_called": found,
        "as_expected": found,
        "recall": recall,
        "precision": precision,
    }
    assert (result.recall, result.swapped) == (recall, 0)
    assert result.overall.as_expected == 3 + found


def test_an_original_called_a_duplicate_costs_precision_of_its_kind() -> None:
    result = score(STREAM, [unique(0), *(duplicate(index, "a") for index in (1, 2, 3)), DEAD_X])
    original = result.kinds[EditKind.ORIGINAL]
    assert (original.precision, original.recall) == (0.0, None)
    assert result.precision == pytest.approx(2 / 3)
    assert result.recall == 1.0


def test_a_copy_judged_before_its_original_is_a_swap() -> None:
    """The overall recall counts the original instead of the copy."""
    outputs = [unique(2), duplicate(0, "a1"), unique(1), duplicate(3, "a1"), DEAD_X]
    result = score(STREAM, outputs)
    assert (result.swapped, result.recall, result.precision) == (1, 1.0, 1.0)
    assert result.overall.recall == 0.5


def test_a_broken_record_called_unique_is_not_as_expected() -> None:
    kind = score(STREAM, [unique(4)]).kinds[EditKind.NOT_JSON]
    assert (kind.count, kind.as_expected) == (1, 0)


def test_the_order_of_outputs_does_not_matter() -> None:
    records = tuple(generate(3, 400))
    outputs: list[ReceivedOutput] = []
    for index, made in enumerate(records):
        if made.expected is Outcome.DEAD_LETTER:
            outputs.append(DeadLetterOutput(at(index), "", ""))
        else:
            outputs.append(unique(index) if made.root is None else duplicate(index, made.root))
    result = score(records, random.Random(1).sample(outputs, len(outputs)))
    assert (result.recall, result.precision) == (1.0, 1.0)
    assert result.overall.as_expected == len(records)


def test_rates_of_nothing_are_unknown() -> None:
    result = score((), [])
    assert (result.recall, result.precision, dict(result.kinds)) == (None, None, {})
