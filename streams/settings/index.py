"""The settings of the index: changes to the profile."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta


class IndexSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Changes to the profile: fields of ``Profile``, None where the profile's value stands.

    All of them are part of the index identity: a change begins a new index.
    """

    bits: Annotated[
        Annotated[int, Meta(ge=64, le=512)] | None, Meta(description="Width of a fingerprint.")
    ] = None
    blocks: Annotated[
        Annotated[int, Meta(ge=0, le=128)] | None,
        Meta(
            description="Slices of a fingerprint in which near documents meet; 0 where they meet "
            "in bands alone."
        ),
    ] = None
    block_bits: Annotated[
        Annotated[int, Meta(ge=0, le=32)] | None,
        Meta(description="Width of a block; 0 divides the fingerprint evenly."),
    ] = None
    distance: Annotated[
        Annotated[int, Meta(ge=0, le=511)] | None,
        Meta(description="Most bits in which two near documents differ."),
    ] = None
    segmenter: Annotated[
        str | None,
        Meta(
            description="What cuts a text into terms: words, rjieba, jieba, jieba-posseg or ngrams."
        ),
    ] = None
    weighting: Annotated[
        str | None,
        Meta(
            description="What a term counts: tfidf-sublinear, tfidf, tfidf-length, tfidf-roles "
            "or tf."
        ),
    ] = None
    feature_hash: Annotated[
        str | None, Meta(description="What makes bits of a term: xxh3 or java.")
    ] = None
    min_features: Annotated[
        Annotated[int, Meta(ge=1, le=1000)] | None,
        Meta(description="Distinct features below which a text is matched by exact content only."),
    ] = None
    long_characters: Annotated[
        Annotated[int, Meta(ge=0, le=1_000_000)] | None,
        Meta(
            description="Characters, blanks left out, from which a text needs half of "
            "index.min_features only; 0: none does."
        ),
    ] = None
    cuts: Annotated[
        Annotated[int, Meta(ge=1, le=2)] | None,
        Meta(
            description="Ways of cutting: 2 cuts a square fingerprint into blocks across as well."
        ),
    ] = None
    bands: Annotated[
        Annotated[int, Meta(ge=0, le=64)] | None,
        Meta(
            description="Pairs of values of the sketch of shingles in which near documents meet, "
            "beside the blocks or alone."
        ),
    ] = None
    fingerprint: Annotated[
        Literal["terms", "shingles"] | None,
        Meta(
            description="What a fingerprint is made of: weighted terms, or bits of the sketch of "
            "shingles, which takes a fifth of the time."
        ),
    ] = None
    verify: Annotated[
        str | None,
        Meta(
            description="What confirms that a candidate is near: shingles, cosine, metadata "
            "or none."
        ),
    ] = None
    verify_at: Annotated[
        Annotated[float, Meta(ge=0, le=1)] | None,
        Meta(
            description="How far two documents must agree to be near; else what is usual for "
            "index.verify."
        ),
    ] = None
    idf: Annotated[
        str | None,
        Meta(
            extra={"expected": "a path", "default": "jieba's table"},
            description="How rare terms are: a file that 'firstseen idf train' made.",
        ),
    ] = None
    user_dictionary: Annotated[
        str | None,
        Meta(
            extra={"expected": "a path", "default": "none"},
            description="Words to add to the segmenter's dictionary: a file of lines of a word, "
            "and if you like its frequency and part of speech.",
        ),
    ] = None
    stop_words: Annotated[
        str | None,
        Meta(
            extra={"expected": "a path", "default": "none"},
            description="Terms that do not count: a file with one a line.",
        ),
    ] = None
    window: Annotated[
        str | None,
        Meta(
            extra={
                "expected": "a whole number and d, h, m, s or ms, such as 30d",
                "default": "none: for ever",
            },
            description="How far apart the times of near documents are at most; what is older "
            "leaves the index.",
        ),
    ] = None
    lateness: Annotated[
        str | None,
        Meta(
            extra={
                "expected": "a whole number and d, h, m, s or ms, such as 6h",
                "default": "1d, where there is a window",
            },
            description="How far behind the latest documents a document may be and still meet all "
            "that are within its window.",
        ),
    ] = None
    same_id: Annotated[
        Literal["compare", "replace"] | None,
        Meta(
            extra={"default": "compare"},
            description="What a document means whose id is in the index: compare treats it as any "
            "other, replace lets it take the place of the entry with its id.",
        ),
    ] = None
