"""What the generator says of each record: the bytes, and the truth about them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class EditKind(StrEnum):
    """How a record came to be."""

    ORIGINAL = "original"
    """An article that repeats nothing."""
    EXACT_COPY = "exact_copy"
    """The same title and text under another id."""
    TYPOGRAPHIC = "typographic"
    """The same words in other signs, widths, case or white space."""
    REPOST = "repost"
    """The same article between another site's lines."""
    EDIT_1_5 = "edit_1_5"
    """1 to 5 % of the words changed."""
    EDIT_5_10 = "edit_5_10"
    """5 to 10 % of the words changed."""
    EDIT_10_20 = "edit_10_20"
    """10 to 20 % of the words changed."""
    TRUNCATED = "truncated"
    """The first 70 to 95 % of the article."""
    REORDERED = "reordered"
    """The same paragraphs in another order."""
    SHORT_POST = "short_post"
    """5 to 40 characters; a repeat only where the same post came before."""
    EMOJI = "emoji"
    """Emoji alone."""
    PUNCTUATION = "punctuation"
    """Punctuation alone."""
    EMPTY = "empty"
    """No text, or white space alone."""
    NOT_JSON = "not_json"
    TRUNCATED_JSON = "truncated_json"
    JSON_ARRAY = "json_array"
    TEXT_MISSING = "text_missing"
    TEXT_NUMBER = "text_number"
    INVALID_UTF8 = "invalid_utf8"
    NULL_RECORD = "null_record"
    """Neither key nor value."""


COPIES = (
    EditKind.EXACT_COPY,
    EditKind.TYPOGRAPHIC,
    EditKind.REPOST,
    EditKind.EDIT_1_5,
    EditKind.EDIT_5_10,
    EditKind.EDIT_10_20,
    EditKind.TRUNCATED,
    EditKind.REORDERED,
)
"""The ways to copy an article."""
POSTS = (EditKind.SHORT_POST, EditKind.EMOJI, EditKind.PUNCTUATION, EditKind.EMPTY)
"""Texts too short to be judged near: repeats only of exactly equal content."""
BROKEN = (
    EditKind.NOT_JSON,
    EditKind.TRUNCATED_JSON,
    EditKind.JSON_ARRAY,
    EditKind.TEXT_MISSING,
    EditKind.TEXT_NUMBER,
    EditKind.INVALID_UTF8,
    EditKind.NULL_RECORD,
)
"""Records that cannot be read as a document."""


class Outcome(StrEnum):
    """Where a record ends: in one of the three output topics."""

    UNIQUE = "unique"
    DUPLICATE = "duplicate"
    DEAD_LETTER = "dead_letter"


@dataclass(frozen=True, slots=True)
class GeneratedRecord:
    """One record of the stream and the truth about it."""

    key: bytes | None
    value: bytes | None
    id: str | None
    """The document id, equal to the key; None for a record without a key."""
    kind: EditKind
    root: str | None
    """The id of the first document with this content; None where this record is the first."""
    parent: str | None
    """The id of the document that it was made from: the root, or a copy of the root."""
    expected: Outcome
    timestamp_ms: int
    """Milliseconds since 1970, as the record's text says as well; never falls along the stream."""
