"""Real records reach every reason of a rejection, and no record has any other result.

The strategies draw records with any bytes, and with JSON that is similar to documents and events.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import pytest
from hypothesis import given

from simhash_core.documents import Document, RawRecord
from simhash_core.errors import UsageError
from simhash_core.text.fingerprinter import content_digest
from simhash_core.text.normalization import normalize
from simhash_core.verdicts import Rejection
from simhash_core.verdicts import RejectionReason as R
from streams.documents.fields import ID_BYTES_MAX, FieldSettings
from streams.documents.raw_documents import MAX_RECORD_BYTES, DocumentReader, record_bytes
from tests.unit.documents.samples import (
    DEFAULT_FIELDS,
    ENVELOPE,
    EVENT_HEADERS,
    HERE,
    NOW_MS,
    STRUCTURED,
    any_records,
    any_values,
    as_json,
    raw,
    read,
    records,
)


class Refused(NamedTuple):
    """A record that must be refused, and a word that the detail must contain."""

    reason: R
    record: RawRecord
    detail: str


def refused_field(reason: R, detail: str, **content: object) -> Refused:
    return Refused(reason, raw(as_json({"text": "雪", **content})), detail)


def refused_event(detail: str, reason: R = R.BAD_CLOUDEVENT, /, **envelope: object) -> Refused:
    members = {**ENVELOPE, "data": {"text": "雪"}, **envelope}
    return Refused(reason, raw(as_json(members), headers=STRUCTURED), detail)


LONG_ID = "雪" * (ID_BYTES_MAX // 3 + 1)
TEXT = as_json({"text": "雪"})

LONG_ID_HEADER = ("ce_id", LONG_ID.encode())
NO_TIMES: list[object] = ["yesterday", "", True, [], 10**15]
CASES = [
    *(
        Refused(R.NULL_VALUE, raw(None, key, headers), "key")
        for key, headers in ((None, ()), (b"", ()), (b"\xff", ()), (None, EVENT_HEADERS))
    ),
    Refused(R.NOT_UTF8, raw(b'{"text": "\xff"}'), "byte 10"),
    Refused(R.NOT_UTF8, raw(b"ab\xff", headers=(("content-type", b"text/plain"),)), "byte 2"),
    *(Refused(R.NOT_JSON, raw(value), "JSON") for value in (b"plain text", b"", b'{"text": NaN}')),
    Refused(R.NOT_JSON, raw(rb'{"id": "\ud800", "text": NaN}'), "NaN"),
    Refused(R.NOT_JSON, raw(b"[" * 100_000 + b"]" * 100_000), "deep"),
    Refused(R.NOT_JSON, raw(b"{", headers=EVENT_HEADERS), "JSON"),
    Refused(R.NOT_JSON, raw(b"{", headers=STRUCTURED), "JSON"),
    *(
        Refused(R.NOT_AN_OBJECT, raw(value), kind)
        for value, kind in (
            *((b"[]", "a list"), (b"17", "a number"), (b"true", "a boolean"), (b"null", "null")),
            (b'"text"', "a string"),
        )
    ),
    Refused(R.NOT_AN_OBJECT, raw(b"[]", headers=STRUCTURED), "envelope"),
    refused_event("a string", R.NOT_AN_OBJECT, data="雪"),
    Refused(R.MISSING_TEXT, raw(b"{}"), '"text"'),
    Refused(R.MISSING_TEXT, raw(b'{"text": null}'), '"text"'),
    refused_event("no data", R.MISSING_TEXT, data=None),
    *(
        refused_field(R.WRONG_TYPE, f'"{field}" is {kind}', **{field: value})
        for field, value, kind in (
            *(("text", 17, "a number"), ("text", ["x"], "a list"), ("text", {}, "an object")),
            *(("id", True, "a boolean"), ("id", 1.0, "a number"), ("id", [], "a list")),
            *(("title", 17, "a number"), ("keywords", ["x", 17], "a list with a number")),
            *(("tags", [None], "a list with null"), ("tags", False, "a boolean")),
            ("references", {}, "an object"),
        )
    ),
    refused_field(R.WRONG_TYPE, "surrogate", id="a\ud800"),
    refused_field(R.ID_TOO_LONG, '"id"', id=LONG_ID),
    Refused(R.ID_TOO_LONG, raw(TEXT, key=LONG_ID.encode()), "key"),
    Refused(R.ID_TOO_LONG, raw(None, key=LONG_ID.encode()), "key"),
    Refused(R.ID_TOO_LONG, raw(TEXT, headers=(*EVENT_HEADERS, LONG_ID_HEADER)), "CloudEvent"),
    Refused(R.TOO_LARGE, raw(b"x" * MAX_RECORD_BYTES), "max_record_bytes"),
    *(refused_field(R.BAD_TIMESTAMP, '"timestamp"', timestamp=value) for value in NO_TIMES),
    Refused(R.BAD_TIMESTAMP, raw(b'{"text": "x", "timestamp": 1e400}'), '"timestamp"'),
    Refused(R.BAD_TIMESTAMP, raw(TEXT, time_ms=NOW_MS * 1000), "record's own"),
    Refused(R.BAD_TIMESTAMP, raw(None, b"key", time_ms=NOW_MS * 1000), "record's own"),
    Refused(
        R.BAD_TIMESTAMP, raw(TEXT, headers=(*EVENT_HEADERS, ("ce_time", b"noon"))), "CloudEvent"
    ),
    Refused(R.BAD_CLOUDEVENT, raw(TEXT, headers=(("ce_specversion", b"0.3"),)), '"1.0"'),
    Refused(R.BAD_CLOUDEVENT, raw(TEXT, headers=(("ce_specversion", None),)), '"1.0"'),
    *(
        Refused(
            R.BAD_CLOUDEVENT,
            raw(TEXT, headers=tuple(pair for pair in EVENT_HEADERS if pair[0] != name)),
            f'"{name}"',
        )
        for name in ("ce_id", "ce_source", "ce_type")
    ),
    Refused(R.BAD_CLOUDEVENT, raw(TEXT, headers=(*EVENT_HEADERS, ("ce_id", b"\xff"))), "UTF-8"),
    *(
        Refused(
            R.BAD_CLOUDEVENT,
            raw(TEXT, headers=(("content-type", media_type),)),
            "application/cloudevents+json",
        )
        for media_type in (b"application/cloudevents+avro", b"application/cloudevents-batch+json")
    ),
    *(
        refused_event(f'"{member}"', **{member: value})
        for member, value in (
            *(("specversion", "2.0"), ("specversion", 1.0), ("id", None), ("id", 17)),
            *(("source", ""), ("type", []), ("time", 17), ("datacontenttype", 17)),
            ("data_base64", "eyJ9"),
        )
    ),
    *(
        refused_event('"data_base64"', data=None, data_base64=value)
        for value in ("no base64", "雪", 17)
    ),
    refused_event('"data" is an object', datacontenttype="text/plain"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.reason}-{case.detail}")
def test_unreadable_records_are_refused_with_the_reason(case: Refused) -> None:
    rejection = read(case.record)
    assert isinstance(rejection, Rejection), rejection
    assert (rejection.reason, rejection.source) == (case.reason, HERE)
    assert case.detail in rejection.detail
    if case.reason is not R.TOO_LARGE:
        assert rejection.record == case.record


def test_every_reason_is_reached() -> None:
    """The other reasons come from the log and from the schema registry (tests/unit/registry)."""
    elsewhere = {R.READING_CHANGED, R.NO_SCHEMA_ID, R.UNKNOWN_SCHEMA, R.BAD_SCHEMA, R.NOT_OF_SCHEMA}
    assert {case.reason for case in CASES} == set(R) - elsewhere


def test_details_do_not_repeat_the_body() -> None:
    secret = "s3cr3t"  # noqa: S105 -- it is one only for this test
    refused = [
        read(raw(value))
        for value in (
            secret.encode(),
            as_json(secret),
            as_json({"text": [secret]}),
            as_json({"text": "", "id": [secret]}),
            as_json({"text": "", "id": secret * 1000}),
            as_json({"text": "", "keywords": {secret: 1}}),
            as_json({"text": "", "timestamp": secret}),
        )
    ]
    assert all(isinstance(item, Rejection) and secret not in item.detail for item in refused)


@given(any_records)
def test_any_record_is_read_or_refused_and_can_be_encoded(record: RawRecord) -> None:
    first, second = read(record), read(record)
    assert first == second
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(first), type=type(first)) == first
    if isinstance(first, Document):
        assert first.id
        assert content_digest(normalize(first.text))


@given(records(any_values.filter(lambda value: value is not None)))
def test_text_format_reads_any_utf8(record: RawRecord) -> None:
    plain = msgspec.structs.replace(record, headers=(), timestamp_ms=NOW_MS)
    assert plain.value is not None
    result = read(plain, FieldSettings(format="text"))
    try:
        text = plain.value.decode("utf-8-sig")
    except UnicodeDecodeError:
        assert isinstance(result, Rejection)
        assert result.reason is R.NOT_UTF8
    else:
        assert isinstance(result, Document)
        assert result.text == text


@pytest.mark.parametrize("extra", [0, 1])
def test_record_size_counts_key_value_and_headers(extra: int) -> None:
    record = raw(TEXT, key=b"key", headers=(("名", b"value"), ("null", None)))
    assert record_bytes(record) == len(TEXT) + 3 + 3 + 5 + 4
    reader = DocumentReader(DEFAULT_FIELDS, record_bytes(record) - extra)
    assert isinstance(reader.read(HERE, record), Rejection if extra else Document)


@pytest.mark.parametrize(
    ("key_bytes", "header_bytes", "kept_bytes", "kept", "said"),
    [
        (10, 10, None, (10, True, 79), "value cut to its first 79 of 100 bytes"),
        (10, 200, None, (10, False, 90), "headers left out, value cut to its first 90 of"),
        (200, 200, None, (0, False, 100), "headers left out, key left out;"),
        (10, 10, 40, (10, True, 19), "value cut to its first 19 of 100 bytes"),
        (0, 0, 0, (0, False, 0), "value cut to its first 0 of 100 bytes"),
        (10, 10, 121, (10, True, 100), "(complete)"),
    ],
)
def test_too_large_records_keep_what_fits_and_name_the_whole(
    key_bytes: int,
    header_bytes: int,
    kept_bytes: int | None,
    kept: tuple[int, bool, int],
    said: str,
) -> None:
    reader = DocumentReader(DEFAULT_FIELDS, max_record_bytes=100, kept_bytes=kept_bytes)
    record = raw(bytes(range(100)), b"k" * key_bytes, (("h", b"h" * header_bytes),))
    rejection = reader.read(HERE, record)
    assert isinstance(rejection, Rejection)
    left = rejection.record
    assert (len(left.key or b""), left.headers != (), len(left.value or b"")) == kept
    assert record.value is not None
    assert record.value.startswith(left.value or b"")
    assert said in rejection.detail
    assert f"{record_bytes(record)} bytes" in rejection.detail
    assert (f"the whole record is at {HERE}" in rejection.detail) == (left != record)
    assert (rejection.kept_bytes, rejection.whole_bytes) == (
        record_bytes(left),
        record_bytes(record),
    )


def test_too_large_record_says_once_what_is_left_out() -> None:
    reader = DocumentReader(DEFAULT_FIELDS, max_record_bytes=100)
    record = raw(b"x", key=b"k" * 200)
    for rejection, said in (
        (reader.read(HERE, record), "(key left out;"),
        (reader.without_headers(HERE, record), "(headers left out, key left out;"),
    ):
        assert isinstance(rejection, Rejection)
        assert said in rejection.detail


def test_large_text_within_the_limit_is_read_and_no_limit_is_below_a_byte() -> None:
    value = as_json({"text": "word " * (MAX_RECORD_BYTES // 5 - 10)})
    assert isinstance(read(raw(value)), Document)
    with pytest.raises(UsageError, match="max_record_bytes"):
        DocumentReader(DEFAULT_FIELDS, 0)
