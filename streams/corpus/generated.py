"""Generated records: the bytes, and the truth about them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple


class EditKind(StrEnum):
    """The kinds of records: original, copies, posts, broken records."""

    ORIGINAL = "original"
    EXACT_COPY = "exact_copy"  # same title and text, other id
    TYPOGRAPHIC = "typographic"  # other punctuation, widths, case or white space
    REPOST = "repost"  # between another site's lines
    EDIT_1_5 = "edit_1_5"  # 1 to 5 % of the words changed
    EDIT_5_10 = "edit_5_10"
    EDIT_10_20 = "edit_10_20"
    TRUNCATED = "truncated"  # the first 70 to 95 %
    REORDERED = "reordered"  # paragraphs in another order
    SHORT_POST = "short_post"  # 5 to 40 characters
    EMOJI = "emoji"
    PUNCTUATION = "punctuation"
    EMPTY = "empty"  # no text, or white space
    NOT_JSON = "not_json"
    TRUNCATED_JSON = "truncated_json"
    JSON_ARRAY = "json_array"
    TEXT_MISSING = "text_missing"
    TEXT_NUMBER = "text_number"
    INVALID_UTF8 = "invalid_utf8"
    NULL_RECORD = "null_record"  # neither key nor value


_KINDS = tuple(EditKind)
COPIES = _KINDS[1 : _KINDS.index(EditKind.SHORT_POST)]
"""Copies of an article."""
BROKEN = _KINDS[_KINDS.index(EditKind.NOT_JSON) :]
"""Records that cannot be read as documents."""


class GeneratedRecord(NamedTuple):
    key: bytes | None
    value: bytes | None
    id: str | None  # the document id, equal to the key
    kind: EditKind
    root: str | None  # id of the first document with this content; None if this is it
    parent: str | None  # id of the document that it was made from: the root, or a copy of it
    timestamp_ms: int  # since 1970, as in the record's text; never decreases along the stream


SHARES: Final[Mapping[EditKind, float]] = {
    EditKind.ORIGINAL: 0.45,
    EditKind.EXACT_COPY: 0.05,
    EditKind.TYPOGRAPHIC: 0.05,
    EditKind.REPOST: 0.08,
    EditKind.EDIT_1_5: 0.06,
    EditKind.EDIT_5_10: 0.05,
    EditKind.EDIT_10_20: 0.05,
    EditKind.TRUNCATED: 0.05,
    EditKind.REORDERED: 0.03,
    EditKind.SHORT_POST: 0.07,
    EditKind.EMOJI: 0.015,
    EditKind.PUNCTUATION: 0.01,
    EditKind.EMPTY: 0.01,
    **dict.fromkeys(BROKEN, 0.025 / len(BROKEN)),
}
"""How often each kind occurs in the stream, relative to the others."""
