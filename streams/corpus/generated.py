"""Generated records: the bytes, and the truth about them."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from enum import StrEnum


class EditKind(StrEnum):
    """The kinds of records: original, copies, posts, broken records."""

    ORIGINAL = "original"
    EXACT_COPY = "exact_copy"  # same title and text, other id
    TYPOGRAPHIC = "typographic"  # other signs, widths, case or white space
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
POSTS = _KINDS[_KINDS.index(EditKind.SHORT_POST) : _KINDS.index(EditKind.NOT_JSON)]
"""Texts too short for near duplicates: a repeat has exactly equal content."""
BROKEN = _KINDS[_KINDS.index(EditKind.NOT_JSON) :]
"""Records that cannot be read as documents."""


class Outcome(StrEnum):
    UNIQUE = "unique"
    DUPLICATE = "duplicate"
    DEAD_LETTER = "dead_letter"


@dataclass(frozen=True, slots=True)
class GeneratedRecord:
    key: bytes | None
    value: bytes | None
    id: str | None  # the document id, equal to the key
    kind: EditKind
    root: str | None  # id of the first document with this content; None if this is it
    parent: str | None  # id of the document that it was made from: the root, or a copy of it
    expected: Outcome
    timestamp_ms: int  # since 1970, as in the record's text; never decreases along the stream


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusShape:
    """The proportions of the stream; the shares of kinds are relative. Raises ``ValueError``."""

    original: float = 0.45
    exact_copy: float = 0.05
    typographic: float = 0.05
    repost: float = 0.08
    edit_1_5: float = 0.06
    edit_5_10: float = 0.05
    edit_10_20: float = 0.05
    truncated: float = 0.05
    reordered: float = 0.03
    short_post: float = 0.07
    emoji: float = 0.015
    punctuation: float = 0.01
    empty: float = 0.01
    broken: float = 0.025  # all broken kinds together, equally often
    chinese: float = 0.6  # probability that an article or a post is Chinese
    repeated_post: float = 0.25  # probability that a short post repeats an earlier one
    deepest: int = 3  # longest chain of copies; 1: only originals are copied

    def __post_init__(self) -> None:
        for name in ("chinese", "repeated_post"):
            probability = getattr(self, name)
            if not 0 <= probability <= 1:
                raise ValueError(f"{name} is {probability}; a probability is from 0 to 1")
        if self.deepest < 1:
            raise ValueError(f"deepest is {self.deepest}; set it to 1 or more")
        shares = [getattr(self, name) for name in _SHARES]
        for name, share in zip(_SHARES, shares, strict=True):
            if not (math.isfinite(share) and share >= 0):
                raise ValueError(f"the share {name} is {share}; set it to 0 or more")
        if sum(shares) == 0:
            raise ValueError("every share is 0; give at least one kind of record a share")

    def weights(self) -> tuple[tuple[EditKind, float], ...]:
        """Return each occurring kind with its part of the stream; the parts add up to one."""
        total = sum(getattr(self, name) for name in _SHARES)
        own = ((EditKind(name), getattr(self, name)) for name in _SHARES if name != "broken")
        weights = [(kind, share / total) for kind, share in own]
        weights += [(kind, self.broken / total / len(BROKEN)) for kind in BROKEN]
        return tuple((kind, weight) for kind, weight in weights if weight > 0)


_SHARES = tuple(
    field.name
    for field in fields(CorpusShape)
    if field.name not in {"chinese", "repeated_post", "deepest"}
)
