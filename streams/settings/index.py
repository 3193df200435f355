"""The settings of the index: changes to the profile."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta


class IndexSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Changes to the profile, and so to the index identity; None keeps the profile's value."""

    bits: Annotated[
        Annotated[int, Meta(ge=64, le=512)] | None, Meta(description="Width of a fingerprint.")
    ] = None
    blocks: Annotated[
        Annotated[int, Meta(ge=0, le=128)] | None,
        Meta(
            description="Number of blocks that a fingerprint is cut into; documents with an "
            "equal block are compared. 0: only bands are used."
        ),
    ] = None
    block_bits: Annotated[
        Annotated[int, Meta(ge=0, le=32)] | None,
        Meta(description="Width of a block; 0 divides the fingerprint evenly."),
    ] = None
    distance: Annotated[
        Annotated[int, Meta(ge=0, le=511)] | None,
        Meta(description="Maximum number of bits in which two near documents may differ."),
    ] = None
    segmenter: Annotated[
        str | None,
        Meta(
            description="Segmenter, which cuts a text into terms: words, rjieba, jieba, "
            "jieba-posseg or ngrams."
        ),
    ] = None
    weighting: Annotated[
        str | None,
        Meta(
            description="Weight of a term: tfidf-sublinear, tfidf, tfidf-length, tfidf-roles or tf."
        ),
    ] = None
    feature_hash: Annotated[
        str | None, Meta(description="Hash function for terms: xxh3 or java.")
    ] = None
    min_features: Annotated[
        Annotated[int, Meta(ge=1, le=1000)] | None,
        Meta(
            description="Minimum distinct features; a text with fewer is compared by exact "
            "content only."
        ),
    ] = None
    long_characters: Annotated[
        Annotated[int, Meta(ge=0, le=1_000_000)] | None,
        Meta(
            description="A text with at least this many characters, not counting spaces, needs "
            "only half of index.min_features. 0: off."
        ),
    ] = None
    cuts: Annotated[
        Annotated[int, Meta(ge=1, le=2)] | None,
        Meta(
            description="Number of cuts: 2 arranges the fingerprint in a square and cuts it into "
            "blocks along rows and columns."
        ),
    ] = None
    bands: Annotated[
        Annotated[int, Meta(ge=0, le=64)] | None,
        Meta(
            description="Number of bands, which are pairs of values of the shingle sketch; "
            "documents with an equal band are compared, as with blocks."
        ),
    ] = None
    fingerprint: Annotated[
        Literal["terms", "shingles"] | None,
        Meta(
            description="Source of the fingerprint: weighted terms, or bits of the shingle "
            "sketch, which takes a fifth of the time."
        ),
    ] = None
    verify: Annotated[
        str | None,
        Meta(description="Second check of a candidate: shingles, cosine, metadata or none."),
    ] = None
    verify_at: Annotated[
        Annotated[float, Meta(ge=0, le=1)] | None,
        Meta(
            description="Minimum similarity in the second check; the default depends on "
            "index.verify."
        ),
    ] = None
    idf: Annotated[
        str | None,
        Meta(extra={"expected": "a path", "default": "jieba's table"}),
        Meta(description="File with the rarity of terms, written by 'firstseen idf train'."),
    ] = None
    user_dictionary: Annotated[
        str | None,
        Meta(
            extra={"expected": "a path", "default": "none"},
            description="File with words to add to the segmenter's dictionary: one a line, "
            "optionally with frequency and part of speech.",
        ),
    ] = None
    stop_words: Annotated[
        str | None,
        Meta(extra={"expected": "a path", "default": "none"}),
        Meta(description="File with terms to ignore, one a line."),
    ] = None
    window: Annotated[
        str | None,
        Meta(
            extra={
                "expected": "a whole number and d, h, m, s or ms, such as 30d",
                "default": "none: for ever",
            },
            description="Maximum time between two near documents. Older entries leave the index.",
        ),
    ] = None
    lateness: Annotated[
        str | None,
        Meta(
            extra={
                "expected": "a whole number and d, h, m, s or ms, such as 6h",
                "default": "1d, where there is a window",
            },
            description="How late a document may arrive and still be compared with everything "
            "within its window.",
        ),
    ] = None
    fold_traditional: Annotated[
        bool | None,
        Meta(
            description="Whether traditional Chinese characters count as their simplified forms, "
            "so that a text is near its copy in the other script."
        ),
    ] = None
    short_texts: Annotated[
        Literal["exact", "pass"] | None,
        Meta(
            extra={"default": "exact"},
            description="What happens to a text that is too short to compare: exact sends exact "
            "repeats of it to the duplicates, pass sends it on every time.",
        ),
    ] = None
    same_id: Annotated[
        Literal["compare", "replace"] | None,
        Meta(
            extra={"default": "compare"},
            description="What happens to a document whose id is already in the index: compare "
            "treats it as any other document, replace removes the earlier entry.",
        ),
    ] = None
