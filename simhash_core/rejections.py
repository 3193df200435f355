"""Why a raw record cannot be read as a document: a closed list, and the record itself."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from simhash_core.documents import RawRecord, SourcePosition


class RejectionReason(StrEnum):
    """The reasons (they stand in dead letters, metrics and docs/formats.md)."""

    NULL_VALUE = "null_value"
    """No value, and no key that could be an id. With one it is a tombstone, not an error."""
    NOT_UTF8 = "not_utf8"
    """The value is not UTF-8."""
    NOT_JSON = "not_json"
    """The value is not JSON, ends in the middle, or is nested too deep."""
    NOT_AN_OBJECT = "not_an_object"
    """JSON, but a list, a number or a string."""
    MISSING_TEXT = "missing_text"
    """No text field, or null in it."""
    WRONG_TYPE = "wrong_type"
    """A field holds a value of another type than it must."""
    ID_TOO_LONG = "id_too_long"
    """The id, or the key or event id that stands for it, is longer than an id may be."""
    TOO_LARGE = "too_large"
    """The record is larger than ``max_record_bytes``; the dead letter leaves its body out."""
    BAD_TIMESTAMP = "bad_timestamp"
    """A timestamp is neither RFC 3339 nor milliseconds since 1970, in the years 1 to 9999."""
    BAD_CLOUDEVENT = "bad_cloudevent"
    """Marked as a CloudEvent, but an attribute that must be there is missing or wrong."""
    NO_SCHEMA_ID = "no_schema_id"
    """The value does not begin with the id of a schema, and no header holds one."""
    UNKNOWN_SCHEMA = "unknown_schema"
    """The schema registry has no schema of that id."""
    BAD_SCHEMA = "bad_schema"
    """The schema of that id is of another kind than ``fields.format``, or it cannot be used."""
    NOT_OF_SCHEMA = "not_of_schema"
    """The value is not what its schema says."""
    READING_CHANGED = "reading_changed"
    """A document now, but not to the worker that sent its packet: the settings changed between."""


class Rejection(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A raw record that cannot be read. ``detail`` names the field and the fix, never the body."""

    source: SourcePosition
    record: RawRecord
    reason: RejectionReason
    detail: str
