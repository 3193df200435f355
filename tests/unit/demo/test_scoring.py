"""The score of a run: recall and precision by kind."""

from __future__ import annotations

import random

import pytest

from simhash_core.documents import SourcePosition
from streams.corpus.corpus import generate
from streams.corpus.generated import EditKind, GeneratedRecord
from streams.demo.scoring import KindScore, Score, Truth
from streams.documents.output_records import DuplicateOutput, ReceivedOutput, UniqueOutput


def record(doc_id: str, kind: EditKind, root: str | None = None) -> GeneratedRecord:
    """Return a record with the labels that the score uses."""
    return GeneratedRecord(doc_id.encode(), b"{}", doc_id, kind, root, root, 0)


STREAM = (
    record("a", EditKind.ORIGINAL),
    record("b", EditKind.ORIGINAL),
    record("a1", EditKind.REPOST, root="a"),
    record("a2", EditKind.REPOST, root="a"),
)


def at(index: int) -> SourcePosition:
    return SourcePosition("raw", index % 3, index)


def unique(index: int) -> ReceivedOutput:
    return UniqueOutput(at(index), "", "")


def duplicate(index: int, original_id: str) -> ReceivedOutput:
    return DuplicateOutput(at(index), "", at(0), original_id, 1, 64, 0.9, "near")


def score(records: tuple[GeneratedRecord, ...], outputs: list[ReceivedOutput]) -> Score:
    truth = Truth()
    for output in outputs[:2]:  # some come before the acknowledgement
        truth.note_output(output)
    for index, each in enumerate(records):
        truth.note_sent(each, at(index))
    for output in outputs[2:]:
        truth.note_output(output)
    return truth.score()


@pytest.mark.parametrize(
    ("second_repost", "found", "called"),
    [
        ([duplicate(3, "a")], 2, 2),
        ([duplicate(3, "a1")], 2, 2),  # a copy of the same root
        ([unique(3)], 1, 1),  # missed: only recall falls
        ([], 1, 1),  # lost
        ([duplicate(3, "a"), unique(3)], 2, 2),  # the first output counts
        # Of another root, of itself, of an unknown document.
        *(([duplicate(3, named)], 1, 2) for named in ("b", "a2", "nobody")),
    ],
)
def test_recall_and_precision_of_copies(
    second_repost: list[ReceivedOutput], found: int, called: int
) -> None:
    result = score(STREAM, [unique(0), unique(1), duplicate(2, "a"), *second_repost])
    assert result.by_kind == {
        EditKind.ORIGINAL: KindScore(2, 0, 0, 0, None, None),
        EditKind.REPOST: KindScore(2, 2, found, called, found / 2, found / called),
    }
    assert result.overall == KindScore(4, 2, found, called, found / 2, found / called)


def test_an_original_called_a_duplicate_costs_precision() -> None:
    result = score(STREAM, [unique(0), *(duplicate(index, "a") for index in (1, 2, 3))])
    assert result.by_kind[EditKind.ORIGINAL].precision == 0.0
    assert result.overall == KindScore(4, 2, 2, 3, 1.0, 2 / 3)


def test_a_whole_stream_in_any_order_of_outputs() -> None:
    records = tuple(generate(3, 400))
    outputs = [
        unique(index) if made.root is None else duplicate(index, made.root)
        for index, made in enumerate(records)
    ]
    result = score(records, random.Random(1).sample(outputs, len(outputs)))
    assert (result.overall.recall, result.overall.precision) == (1.0, 1.0)
    assert sum(each.count for each in result.by_kind.values()) == len(records)
