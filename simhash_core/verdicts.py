"""Results for a record: a rejection, a match, a verdict."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from simhash_core.documents import RawRecord, SourcePosition


class RejectionReason(StrEnum):
    """Why a raw record cannot be read as a document: a closed list.

    Dead letters, metrics and docs/formats.md use these values.
    """

    NULL_VALUE = "null_value"  # and no key; with a key it is a tombstone, not an error
    NOT_UTF8 = "not_utf8"  # the value, or the name of a header
    NOT_JSON = "not_json"  # or truncated, or nested too deep
    NOT_AN_OBJECT = "not_an_object"  # but a list, a number or a string
    MISSING_TEXT = "missing_text"  # there is no text field, or it is null
    WRONG_TYPE = "wrong_type"  # a field has the wrong type
    ID_TOO_LONG = "id_too_long"  # or the key or event id that replaces it
    TOO_LARGE = "too_large"  # more than ``max_record_bytes``; the dead letter may be cut
    BAD_TIMESTAMP = "bad_timestamp"  # neither RFC 3339 nor milliseconds, in the years 1 to 9999
    BAD_CLOUDEVENT = "bad_cloudevent"  # a required attribute is missing or wrong
    NO_SCHEMA_ID = "no_schema_id"  # neither at the start of the value nor in a header
    UNKNOWN_SCHEMA = "unknown_schema"  # the schema registry does not know it
    BAD_SCHEMA = "bad_schema"  # unusable, or of another kind than ``fields.format``
    NOT_OF_SCHEMA = "not_of_schema"
    READING_CHANGED = "reading_changed"
    """It is a document now, but was none for the sender of its packet: the settings changed."""


class Rejection(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """An unreadable raw record. ``detail`` names the field and the fix, but never shows the body.

    ``kept_bytes`` and ``whole_bytes`` are set for a record that was too large and so may be cut.
    """

    source: SourcePosition
    record: RawRecord
    reason: RejectionReason
    detail: str
    kept_bytes: int | None = None
    whole_bytes: int | None = None


class Match(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The nearest unique document of a document in a packet."""

    row: int  # of the document in the packet
    distance: int  # bits
    sequence: int  # of the original, like the three fields after it
    original_id: str
    source: SourcePosition
    event_time_ms: int
    block: int | None  # the first block that they share; None: undecidable
    exact: bool  # equal content
    similarity: float | None  # of the sketches; None: equal content, or no verification

    def is_nearer(self, other: Match | None) -> bool:
        """Return whether this match is nearer, or as near and earlier in the log."""
        return other is None or (self.distance, self.sequence) < (other.distance, other.sequence)


class Neighbour(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A document of the index beside the document of a query, near or not."""

    match: Match
    near: bool


class Answer(msgspec.Struct, frozen=True, array_like=True):
    """The answer of an index, or a part of it, to a query."""

    match: Match | None
    neighbours: list[Neighbour]  # documents that share a bucket, the nearest first
    candidates: int  # the number of all documents that share a bucket
    fullest_bucket: int  # number of documents in it


class UndecidableReason(StrEnum):
    """Why a text has no near matches: a closed list; headers use these values."""

    EMPTY = "empty"  # after normalisation
    NO_FEATURES = "no_features"  # only punctuation, symbols or emoji
    TOO_FEW_FEATURES = "too_few_features"  # too few distinct features for a fingerprint


class Method(StrEnum):
    EXACT = "exact"  # equal content after normalisation
    NEAR = "near"  # fingerprints within the distance


class Unique(msgspec.Struct, frozen=True):
    """The first document of its kind."""


class Undecidable(msgspec.Struct, frozen=True):
    """A text that is too short to be near anything and is no exact repeat; it is always output."""

    reason: UndecidableReason


class DuplicateOf(msgspec.Struct, frozen=True, gc=False):
    """A near copy of ``original``, which is unique."""

    original_id: str
    original: SourcePosition
    original_event_time_ms: int
    distance: int  # bits
    block: int | None  # the first equal block; None: undecidable, matched by content
    method: Method
    agreement: float | None = None  # of the sketches; None: equal content, or no verification


Verdict = Unique | Undecidable | DuplicateOf

VERDICT_NAMES: Final = ("unique", "undecidable", "near_duplicate", "exact_duplicate")


def verdict_name(verdict: Verdict) -> str:
    """Return the verdict's name in metrics, one of ``VERDICT_NAMES``."""
    match verdict:
        case Unique():
            return "unique"
        case Undecidable():
            return "undecidable"
        case DuplicateOf(method=Method.EXACT):
            return "exact_duplicate"
        case DuplicateOf():
            return "near_duplicate"
