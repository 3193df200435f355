"""What is asked and answered about a text that is looked up, as JSON, and how answers are joined.

A worker has some of the shards of an index, so its answer names those that it has not looked at;
the answers of several workers join to one. docs/operations.md has the form.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from simhash_core.verdicts import Method, UndecidableReason
from streams.evaluation.text_differences import Piece

CHECK_SCHEMA: Final = "firstseen.check/1"
MOST_NEAREST: Final = 50


class CheckRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A document as it would be read, and how many of the nearest to name."""

    text: str
    title: str = ""
    keywords: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    nearest: Annotated[int, Meta(ge=0, le=MOST_NEAREST)] = 10
    differences: bool = False


class Place(msgspec.Struct, frozen=True, order=True):
    """A source position with names."""

    topic: str
    partition: int
    offset: int


class NearDocument(msgspec.Struct, frozen=True):
    """A document of the index, seen from the text.

    ``similarity`` is 1 − distance / bits. ``near``: whether the index would call the two near.
    ``shard`` is where it was met.
    """

    id: str
    source: Place
    timestamp: str
    distance: int
    similarity: float
    near: bool
    method: Method | None
    agreement: float | None
    block: int | None
    shard: int


class Differences(msgspec.Struct, frozen=True):
    """Passages of a document of the index whose text is held, and of the text, side by side.

    A passage is a pair of its kind (``PieceKind``) and its text.
    """

    source: Place
    document: list[Piece]
    text: list[Piece]


class LookedAt(msgspec.Struct, frozen=True):
    """What one shard said: its duplicate, or the arrival that the text would wait behind."""

    shard: int
    candidates: int
    fullest_bucket: int
    original: NearDocument | None
    behind: str | None


class NotLookedAt(msgspec.Struct, frozen=True):
    """A shard that was not asked, and why."""

    shard: int
    why: str


class CheckAnswer(msgspec.Struct, frozen=True):
    """What the index would say of a text.

    ``verdict`` is one of ``VERDICT_NAMES``, or ``pending``: a near document is itself still under
    way. ``complete`` is false where shards that have a say were not looked at, or something is
    pending; a duplicate is one all the same, but may be given another original.
    """

    verdict: str
    complete: bool
    original: NearDocument | None
    nearest: list[NearDocument]
    looked_at: list[LookedAt]
    not_looked_at: list[NotLookedAt]
    fingerprint: str | None
    bits: int
    features: int
    undecidable: UndecidableReason | None
    content_digest: str
    index: str
    shards: int
    differences: Differences | None = None
    schema: str = CHECK_SCHEMA


PENDING: Final = "pending"


def concluded(answer: CheckAnswer, most: int = MOST_NEAREST) -> CheckAnswer:
    """Return an answer with the verdict that follows from what each shard said.

    The index decides at the first shard, in rising order, that knows a near document; ones before
    it that were not looked at may name another. One where it would wait may decide either way.
    """
    verdict, original = ("unique" if answer.undecidable is None else "undecidable"), None
    complete = not answer.not_looked_at
    for each in sorted(answer.looked_at, key=lambda looked: looked.shard):
        if each.original is not None:
            original = each.original
            exact = original.method is Method.EXACT
            complete = not any(other.shard < each.shard for other in answer.not_looked_at)
            complete = complete and verdict != PENDING
            verdict = "exact_duplicate" if exact else "near_duplicate"
            break
        if each.behind is not None:
            verdict, complete = PENDING, False
    return msgspec.structs.replace(
        answer,
        verdict=verdict,
        complete=complete,
        original=original,
        nearest=_nearest(answer.nearest, most),
    )


def joined(answers: Sequence[CheckAnswer], most: int) -> CheckAnswer:
    """Return one answer of those of several workers on one text.

    Raises ``ValueError`` where they are of different indexes.
    """
    first = answers[0]
    indexes = {(each.index, each.shards) for each in answers}
    if len(indexes) > 1:
        raise ValueError(f"the workers have different indexes: {sorted(indexes)}")
    looked_at = {each.shard: each for answer in answers for each in answer.looked_at}
    missing = {each.shard: each for answer in answers for each in answer.not_looked_at}
    return concluded(
        msgspec.structs.replace(
            first,
            nearest=[each for answer in answers for each in answer.nearest],
            looked_at=[looked_at[shard] for shard in sorted(looked_at)],
            not_looked_at=[missing[s] for s in sorted(missing) if s not in looked_at],
        ),
        most,
    )


def _nearest(documents: Sequence[NearDocument], most: int) -> list[NearDocument]:
    """Return the nearest documents, each once: every shard that has a block of it knows it."""
    by_source: dict[Place, NearDocument] = {}
    for each in documents:
        by_source.setdefault(each.source, each)
    ranked = sorted(
        by_source.values(), key=lambda each: (not each.near, each.distance, each.source)
    )
    return ranked[:most]
