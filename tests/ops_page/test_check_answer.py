"""The verdict that follows from what shards say, and the answers of several workers joined."""

from __future__ import annotations

import msgspec
import pytest

from simhash_core.verdicts import Method, UndecidableReason
from streams.ops_page.check_answer import (
    CheckAnswer,
    LookedAt,
    NearDocument,
    NotLookedAt,
    Place,
    concluded,
    joined,
)


def near(
    name: str, shard: int, distance: int = 3, method: Method | None = Method.NEAR
) -> NearDocument:
    """A document of the index; with no method, one that is not near."""
    place = Place("raw", 0, int(name[1:]))
    is_near = method is not None
    return NearDocument(name, place, "", distance, 0.9, is_near, method, None, 0, shard)


def said(shard: int, original: NearDocument | None = None, behind: str | None = None) -> LookedAt:
    """What a shard said."""
    return LookedAt(shard, 1, 1, original, behind)


def answer(
    *looked_at: LookedAt,
    missing: tuple[int, ...] = (),
    nearest: tuple[NearDocument, ...] = (),
    index: str = "i",
    undecidable: UndecidableReason | None = None,
) -> CheckAnswer:
    """An answer before its verdict."""
    return CheckAnswer(
        verdict="",
        complete=False,
        original=None,
        nearest=list(nearest),
        looked_at=list(looked_at),
        not_looked_at=[NotLookedAt(shard, "not here") for shard in missing],
        fingerprint="00",
        bits=64,
        features=30,
        undecidable=undecidable,
        content_digest="",
        index=index,
        shards=4,
    )


@pytest.mark.parametrize(
    ("given", "verdict", "complete"),
    [
        (answer(said(0), said(2)), "unique", True),
        (answer(said(0), missing=(2,)), "unique", False),
        (answer(said(0), undecidable=UndecidableReason.EMPTY), "undecidable", True),
        (answer(said(0), said(2, near("d1", 2))), "near_duplicate", True),
        (answer(said(0, near("d1", 0)), missing=(2,)), "near_duplicate", True),
        (answer(said(2, near("d1", 2)), missing=(0,)), "near_duplicate", False),
        (answer(said(0, near("d1", 0, 0, Method.EXACT))), "exact_duplicate", True),
        (answer(said(0, behind="raw/0@7")), "pending", False),
        (answer(said(0, behind="raw/0@7"), said(2, near("d1", 2))), "near_duplicate", False),
    ],
)
def test_the_verdict_is_that_of_the_first_shard_that_knows(
    given: CheckAnswer, verdict: str, complete: bool
) -> None:
    """Given what each shard on the way said, then the verdict is what the index would decide; it is
    complete only where nothing that was not seen could change it.
    """
    made = concluded(given)

    assert (made.verdict, made.complete) == (verdict, complete)


def test_the_original_is_that_of_the_lowest_shard() -> None:
    """Given two shards with near documents, then the lower decides, as a visit comes there first,
    even where the higher knows a nearer one.
    """
    given = answer(said(3, near("d1", 3, 1)), said(1, near("d2", 1, 9)))

    assert getattr(concluded(given).original, "id", "") == "d2"


def test_nearest_are_near_ones_first_each_once() -> None:
    """Given documents that several shards know, then each stands there once, near ones first."""
    documents = (near("d3", 0, 1, None), near("d1", 0, 5), near("d1", 2, 5), near("d2", 2, 3))

    assert [each.id for each in concluded(answer(nearest=documents), 2).nearest] == ["d2", "d1"]


def test_answers_of_workers_join() -> None:
    """Given answers of two workers, each of its shards, then together nothing is missing."""
    one = answer(said(0), missing=(2,), nearest=(near("d1", 0),))
    other = answer(said(2, near("d1", 2)), missing=(0,), nearest=(near("d1", 2),))

    made = joined([concluded(one), concluded(other)], 10)

    assert (made.verdict, made.complete, made.not_looked_at) == ("near_duplicate", True, [])
    assert [each.shard for each in made.looked_at] == [0, 2]
    assert len(made.nearest) == 1


def test_answers_of_different_indexes_do_not_join() -> None:
    """Given workers of two indexes, then their answers are not mixed."""
    with pytest.raises(ValueError, match="different indexes"):
        joined([answer(said(0)), answer(said(2), index="j")], 10)


def test_an_answer_survives_json() -> None:
    """Given an answer, then a client reads what the worker wrote."""
    made = concluded(answer(said(0, near("d1", 0)), nearest=(near("d1", 0),)))

    assert msgspec.json.decode(msgspec.json.encode(made), type=CheckAnswer) == made
