"""Records that are read, plain or as CloudEvents 1.0, and what becomes of each field.

``test_rejections`` has the records that are refused.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from simhash_core.documents import Document, Headers, RawRecord
from simhash_core.errors import UsageError
from simhash_core.text.fingerprinter import content_digest
from simhash_core.text.normalization import normalize
from streams.documents.fields import ID_BYTES_MAX, FieldSettings
from streams.documents.raw_documents import Tombstone
from tests.unit.documents.samples import (
    DEFAULT_FIELDS,
    ENVELOPE,
    EVENT_HEADERS,
    HERE,
    NOW_MS,
    STRUCTURED,
    any_text,
    as_json,
    raw,
    read,
    read_document,
)

TEXT = as_json({"text": "雪"})
PLAIN: Headers = (("content-type", b"text/plain; charset=utf-8"),)
TEXT_FORMAT = FieldSettings(format="text")
BODY = FieldSettings(text="data.body")
TITLE = FieldSettings(title="data.body")
TENANT = FieldSettings(scope="meta.tenant")
AT_1_S = b"1970-01-01T00:00:01Z"
BASE64 = base64.b64encode(TEXT).decode()
EVENT = {"id": "A234-1234"}


class Case(NamedTuple):
    """``differs`` has the differences from the document of a record that has only the text."""

    what: str
    record: RawRecord
    differs: Mapping[str, object]
    fields: FieldSettings = DEFAULT_FIELDS


def fields_of(**content: object) -> RawRecord:
    return raw(as_json({"text": "雪", **content}))


def event(**members: object) -> RawRecord:
    return raw(as_json({**ENVELOPE, **members}), headers=STRUCTURED)


def binary_event(value: bytes, *headers: tuple[str, bytes]) -> RawRecord:
    return raw(value, headers=(*EVENT_HEADERS, *headers))


NOWHERE: list[dict[str, object]] = [{}, {"data": "x"}, {"data": {}}, {"data": {"body": None}}]
OWN = {"text": "雪", "id": "own", "timestamp": 17}

CASES = [
    Case("a text alone", raw(TEXT), {}),
    *(
        Case("any string is a text", raw(as_json({"text": text})), {"text": text})
        for text in ("", " ", "😀", "\x00", "word " * 10_000)
    ),
    *(
        Case("an id", fields_of(id=given), {"id": expected})
        for given, expected in (
            *(("a", "a"), (" ", " "), (17, "17"), (-1, "-1"), (0, "0")),
            *((2**64, "18446744073709551616"), ("x" * ID_BYTES_MAX, "x" * ID_BYTES_MAX)),
        )
    ),
    *(
        Case("key or position for an absent id", replace(fields_of(**absent), key=key), {"id": id_})
        for absent in ({}, {"id": None}, {"id": ""})
        for key, id_ in (
            *((b"key", "key"), ("钥匙".encode(), "钥匙")),
            *((key, "raw-documents/3@42") for key in (None, b"", b"\xff")),
        )
    ),
    *(
        Case("one string is a list of one", fields_of(**{field: value}), {field: strings})
        for field in ("keywords", "tags", "references")
        for value, strings in (
            *((None, ()), ("", ()), ([], ())),
            *(("a, b", ("a, b",)), (["a", "", "b"], ("a", "", "b"))),
        )
    ),
    *(
        Case("own time, or the record's", fields_of(timestamp=given), {"event_time_ms": time_ms})
        for given, time_ms in (
            *((None, NOW_MS), (17, 17), (-1, -1), (17.9, 17)),
            ("2100-01-01T00:00:00Z", 4_102_444_800_000),
        )
    ),
    *(
        Case("a scope", fields_of(meta={"tenant": given}), {"scope": scope}, TENANT)
        for given, scope in (("tenant-1", "tenant-1"), (17, "17"), ("", ""), (None, ""))
    ),
    Case("no scope", fields_of(meta={"tenant": "tenant-1"}), {}),
    *(
        Case("plain text", raw(value, headers=PLAIN), {"text": value.decode()})
        for value in (b"plain \xe9\x9b\xaa", b'{"text": "x"}', b"", b"NaN")
    ),
    Case("a byte order mark is no text", raw("\ufeff雪".encode(), headers=PLAIN), {}),
    *(
        Case("content type, last and in any case", raw("雪".encode(), headers=headers), {})
        for headers in (
            (("Content-Type", b"TEXT/PLAIN"),),
            (("content-type", b"application/json"), ("content-type", b" text/plain ; x=y")),
        )
    ),
    Case("format text", raw(TEXT), {"text": TEXT.decode()}, TEXT_FORMAT),
    Case("format json", raw(TEXT, headers=PLAIN), {}, FieldSettings(format="json")),
    *(
        Case(
            "a dotted name, a path after an exact name", raw(as_json(content)), {"text": text}, BODY
        )
        for content, text in (
            ({"data": {"body": "deep"}}, "deep"),
            ({"data.body": "flat"}, "flat"),
            ({"data.body": "flat", "data": {"body": "deep"}}, "flat"),
            ({"data": [], "data.body": "flat"}, "flat"),
        )
    ),
    *(Case("a path that leads nowhere", fields_of(**content), {}, TITLE) for content in NOWHERE),
    Case("an empty name", fields_of(**{"id": ["unread"], "": "unread"}), {}, FieldSettings(id="")),
    Case(
        "a binary event", binary_event(TEXT, ("ce_time", AT_1_S)), EVENT | {"event_time_ms": 1_000}
    ),
    Case(
        "a structured event",
        event(data={"text": "雪", "tags": "a"}, time=AT_1_S.decode()),
        EVENT | {"event_time_ms": 1_000, "tags": ("a",)},
    ),
    *(
        Case("own fields before those of the event", record, {"id": "own", "event_time_ms": 17})
        for record in (
            binary_event(as_json(OWN), ("ce_time", b"not even a time")),
            event(data=OWN, time="not even a time"),
        )
    ),
    *(
        Case("an event without time", record, EVENT)
        for record in (
            *(binary_event(TEXT), event(data={"text": "雪"})),
            event(data={"text": "雪"}, time=None),
        )
    ),
    *(
        Case("data by its content type", event(**members), EVENT)
        for members in (
            {"data": {"text": "雪"}, "datacontenttype": "application/json; charset=utf-8"},
            {"data": {"text": "雪"}, "datacontenttype": "application/vnd.page+json"},
            {"data_base64": BASE64},
            {"data_base64": BASE64, "data": None},
            {"data": "雪", "datacontenttype": "text/plain"},
            {"data": "雪\ud800", "datacontenttype": "TEXT/PLAIN; charset=utf-8"},
            {"data_base64": "6Zuq", "datacontenttype": "text/plain"},
            {"data": TEXT.decode(), "datacontenttype": "application/octet-stream"},
        )
    ),
    Case(
        "plain text in an event",
        binary_event("雪".encode(), ("content-type", b"text/plain")),
        EVENT,
    ),
    Case("a string in an event", event(data="雪"), EVENT, TEXT_FORMAT),
    Case("headers without specversion", raw(TEXT, headers=EVENT_HEADERS[1:]), {}),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.what)
def test_record_is_read(case: Case) -> None:
    alone = Document("weather", "雪", HERE, NOW_MS)
    assert read(case.record, case.fields) == replace(alone, **case.differs)


FIELDS = {
    "id": "news-17",
    "text": "北京今天下雪了。",
    "title": "初雪",
    "keywords": ["北京", "雪"],
    "tags": ["weather"],
    "references": ["news-16"],
    "timestamp": "2024-05-01T12:00:00+08:00",
    "scope": "tenant-1",
}


@pytest.mark.parametrize("path", ["{}", "my-{}", "meta.{}"])
def test_all_fields_but_unknown_ones_are_read(path: str) -> None:
    """Fields may have their default names, other names, or be nested."""
    values: dict[str, object] = {path.format(name): value for name, value in FIELDS.items()}
    if path.startswith("meta."):
        values = {"meta": FIELDS}
    fields = FieldSettings(**{name: path.format(name) for name in FIELDS})  # type: ignore[arg-type]
    assert read(raw(as_json({**values, "author": {"name": "x"}}), time_ms=0), fields) == Document(
        id="news-17",
        text="北京今天下雪了。",
        source=HERE,
        event_time_ms=NOW_MS,
        title="初雪",
        keywords=("北京", "雪"),
        tags=("weather",),
        references=("news-16",),
        scope="tenant-1",
    )


@given(any_text)
def test_lone_surrogates_are_dropped_and_keep_the_content_digest(text: str) -> None:
    document = read_document(fields_of(text=text, title=text, keywords=text, tags=[text]))
    assert msgspec.json.encode(document)
    assert content_digest(normalize(document.text)) == content_digest(normalize(text))


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"text": ""}, r"fields\.text"), ({"title": "a\ud800"}, r"fields\.title")],
)
def test_invalid_field_settings_are_named(settings: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        replace(FieldSettings(), **settings)


@given(st.text(min_size=1, max_size=50).filter(lambda key: len(key.encode()) <= ID_BYTES_MAX))
def test_null_value_with_a_key_is_a_tombstone_of_that_id(key: str) -> None:
    record = raw(None, key.encode())
    tombstone = read(record)
    assert tombstone == Tombstone(HERE, record, key)
    assert read_document(raw(TEXT, key.encode())).id == key
