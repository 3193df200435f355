"""A text for the index to look up, and the answer; docs/operations.md has the form."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from simhash_core.verdicts import Method, UndecidableReason
from streams.offline.pages.text_differences import Piece

CHECK_SCHEMA: Final = "firstseen.check/2"
NEAREST_LIMIT: Final = 50


class CheckRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A document as it would be read, and how many of the nearest to list.

    ``scope``: it is compared with documents of the same one; with a window, with the latest.
    """

    text: str
    title: str = ""
    keywords: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    scope: str = ""
    nearest: Annotated[int, Meta(ge=0, le=NEAREST_LIMIT)] = 10
    differences: bool = False


class Position(msgspec.Struct, frozen=True, order=True):
    """A source position with names."""

    topic: str
    partition: int
    offset: int


class NearDocument(msgspec.Struct, frozen=True):
    """A document of the index, compared with the text.

    ``similarity`` is 1 − distance / bits, and 1 for equal content. ``near``: whether the index
    calls the two near.
    """

    id: str
    source: Position
    timestamp: str
    distance: int
    similarity: float
    near: bool
    method: Method | None
    agreement: float | None
    block: int | None


class Differences(msgspec.Struct, frozen=True):
    """Passages of a document of the index whose text is held, and of the text, side by side.

    A passage is a pair of its kind (``PieceKind``) and its text.
    """

    source: Position
    document: list[Piece]
    text: list[Piece]


class CheckAnswer(msgspec.Struct, frozen=True):
    """What the whole index says of a text.

    ``verdict`` is one of ``VERDICT_NAMES``. ``candidates``: documents in the buckets of the text;
    one in several counts in each. ``fullest_bucket``: those of the fullest of its buckets.
    """

    verdict: str
    original: NearDocument | None
    nearest: list[NearDocument]
    candidates: int
    fullest_bucket: int
    fingerprint: str | None
    bits: int
    features: int
    undecidable: UndecidableReason | None
    content_digest: str
    index: str
    differences: Differences | None = None
    schema: str = CHECK_SCHEMA
