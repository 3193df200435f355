"""CloudEvents 1.0 in both modes of the Kafka binding; what is wrong with some: test_rejections."""

from __future__ import annotations

import base64

import pytest

from simhash_core.documents import Document
from streams.documents.fields import FieldSettings
from tests.unit.documents.samples import (
    ENVELOPE,
    EVENT_HEADERS,
    HERE,
    NOW_MS,
    STRUCTURED,
    as_json,
    raw,
    read,
    read_document,
)

TEXT = as_json({"text": "雪"})


def structured(**envelope: object) -> Document:
    return read_document(raw(as_json({**ENVELOPE, **envelope}), headers=STRUCTURED))


def test_binary_mode_has_attributes_in_headers() -> None:
    headers = (*EVENT_HEADERS, ("ce_time", b"1970-01-01T00:00:01Z"))
    assert read(raw(TEXT, headers=headers)) == Document("A234-1234", "雪", HERE, 1_000)


def test_structured_mode_has_attributes_in_the_envelope() -> None:
    document = structured(data={"text": "雪", "tags": "a"}, time="1970-01-01T00:00:01Z")
    assert document == Document("A234-1234", "雪", HERE, 1_000, tags=("a",))


def test_fields_of_the_data_come_before_those_of_the_event() -> None:
    data = {"text": "雪", "id": "own", "timestamp": 17}
    headers = (*EVENT_HEADERS, ("ce_time", b"not even a time"))
    for document in (
        read_document(raw(as_json(data), headers=headers)),
        structured(data=data, time="not even a time"),
    ):
        assert (document.id, document.event_time_ms) == ("own", 17)


@pytest.mark.parametrize("time", [{}, {"time": None}])
def test_event_without_time_has_the_time_of_the_record(time: dict[str, object]) -> None:
    assert structured(data={"text": "雪"}, **time).event_time_ms == NOW_MS
    assert read_document(raw(TEXT, headers=EVENT_HEADERS)).event_time_ms == NOW_MS


@pytest.mark.parametrize(
    "members",
    [
        {"data": {"text": "雪"}},
        {"data": {"text": "雪"}, "datacontenttype": "application/json; charset=utf-8"},
        {"data": {"text": "雪"}, "datacontenttype": "application/vnd.page+json"},
        {"data_base64": base64.b64encode(TEXT).decode()},
        {"data_base64": base64.b64encode(TEXT).decode(), "data": None},
        {"data": "雪", "datacontenttype": "text/plain"},
        {"data": "雪\ud800", "datacontenttype": "TEXT/PLAIN; charset=utf-8"},
        {"data_base64": base64.b64encode("雪".encode()).decode(), "datacontenttype": "text/plain"},
        {"data": TEXT.decode(), "datacontenttype": "application/octet-stream"},
    ],
)
def test_data_is_read_by_its_content_type(members: dict[str, object]) -> None:
    assert structured(**members).text == "雪"


def test_binary_mode_reads_plain_text() -> None:
    headers = (*EVENT_HEADERS, ("content-type", b"text/plain"))
    assert read(raw(b"x", headers=headers)) == Document("A234-1234", "x", HERE, NOW_MS)


def test_text_format_reads_data_that_is_a_string() -> None:
    record = raw(as_json({**ENVELOPE, "data": "雪"}), headers=STRUCTURED)
    assert read_document(record, FieldSettings(format="text")).text == "雪"


def test_headers_without_specversion_make_no_event() -> None:
    assert read_document(raw(TEXT, headers=EVENT_HEADERS[1:])).id == "weather"
