"""Records that are read, as they are or as CloudEvents 1.0: which field becomes what.

``test_rejections`` has those that are refused.
"""

from __future__ import annotations

import base64

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simhash_core.documents import Document
from simhash_core.errors import UsageError
from simhash_core.text.fingerprinter import content_digest
from simhash_core.text.normalization import normalize
from streams.documents.fields import ID_BYTES_MAX, FieldSettings
from streams.documents.raw_documents import Tombstone
from tests.unit.documents.samples import (
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
    read_fields,
)

TEXT = as_json({"text": "雪"})
PLAIN = (("content-type", b"text/plain; charset=utf-8"),)


def test_all_fields_but_unknown_ones_are_read() -> None:
    value = as_json(
        {
            "id": "news-17",
            "text": "北京今天下雪了。",
            "title": "初雪",
            "keywords": ["北京", "雪"],
            "tags": ["weather"],
            "references": ["news-16"],
            "timestamp": "2024-05-01T12:00:00+08:00",
            "author": {"name": "unread"},
        }
    )

    assert read(raw(value, time_ms=0)) == Document(
        id="news-17",
        text="北京今天下雪了。",
        source=HERE,
        event_time_ms=NOW_MS,
        title="初雪",
        keywords=("北京", "雪"),
        tags=("weather",),
        references=("news-16",),
    )


def test_text_alone_takes_id_and_time_of_the_record() -> None:
    assert read(raw(TEXT)) == Document("weather", "雪", HERE, NOW_MS)


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize(
    ("name", "given", "attribute", "expected"),
    [
        ("title", "初雪", "title", "初雪"),
        ("keywords", ["雪"], "keywords", ("雪",)),
        ("tags", "weather", "tags", ("weather",)),
        ("references", ["news-16"], "references", ("news-16",)),
        ("timestamp", 7, "event_time_ms", 7),
        ("scope", "tenant-1", "scope", "tenant-1"),
    ],
)
def test_each_field_is_read_at_the_top_or_nested(
    name: str, given: object, attribute: str, expected: object, *, nested: bool
) -> None:
    fields = msgspec.structs.replace(FieldSettings(), **{name: "meta.it" if nested else "it"})
    value = as_json({"text": "雪", **({"meta": {"it": given}} if nested else {"it": given})})
    assert getattr(read_document(raw(value), fields), attribute) == expected


@pytest.mark.parametrize(
    ("given", "scope"), [("tenant-1", "tenant-1"), (17, "17"), ("", ""), (None, "")]
)
def test_absent_null_and_empty_scopes_are_one(given: object, scope: str) -> None:
    fields = FieldSettings(scope="meta.tenant")
    value = as_json({"text": "雪", "meta": {"tenant": given}})
    assert read_document(raw(value), fields).scope == scope
    assert read_document(raw(value)).scope == ""


@pytest.mark.parametrize("text", ["", " ", "😀", "\x00", "word " * 10_000])
def test_any_string_is_a_text(text: str) -> None:
    assert read_document(raw(as_json({"text": text}))).text == text


@pytest.mark.parametrize(
    ("given_id", "document_id"),
    [
        ("a", "a"),
        (" ", " "),
        (17, "17"),
        (-1, "-1"),
        (0, "0"),
        (2**64, "18446744073709551616"),
        ("x" * ID_BYTES_MAX, "x" * ID_BYTES_MAX),
    ],
)
def test_ids_are_strings_or_digits(given_id: object, document_id: str) -> None:
    assert read_fields(id=given_id).id == document_id


@pytest.mark.parametrize("absent", [{}, {"id": None}, {"id": ""}])
@pytest.mark.parametrize(
    ("key", "document_id"),
    [
        (b"key", "key"),
        ("钥匙".encode(), "钥匙"),
        (None, "raw-documents/3@42"),
        (b"", "raw-documents/3@42"),
        (b"\xff", "raw-documents/3@42"),
    ],
)
def test_key_or_position_stands_in_for_an_absent_id(
    absent: dict[str, object], key: bytes | None, document_id: str
) -> None:
    assert read_document(raw(as_json({"text": "雪", **absent}), key)).id == document_id


@pytest.mark.parametrize(
    ("value", "strings"),
    [(None, ()), ("", ()), ([], ()), ("a, b", ("a, b",)), (["a", "", "b"], ("a", "", "b"))],
)
@pytest.mark.parametrize("field", ["keywords", "tags", "references"])
def test_one_string_is_a_list_of_one(field: str, value: object, strings: tuple[str, ...]) -> None:
    assert getattr(read_fields(**{field: value}), field) == strings


@pytest.mark.parametrize(
    ("timestamp", "time_ms"),
    [(None, NOW_MS), ("2100-01-01T00:00:00Z", 4_102_444_800_000), (17, 17), (-1, -1), (17.9, 17)],
)
def test_own_time_of_a_document_comes_before_the_records(timestamp: object, time_ms: int) -> None:
    assert read_fields(timestamp=timestamp).event_time_ms == time_ms


@given(any_text)
def test_lone_surrogates_are_dropped_and_keep_the_content_digest(text: str) -> None:
    document = read_fields(text=text, title=text, keywords=text, tags=[text])
    assert msgspec.json.encode(document)
    assert content_digest(normalize(document.text)) == content_digest(normalize(text))


@pytest.mark.parametrize("value", [b"plain \xe9\x9b\xaa", b'{"text": "x"}', b"", b"NaN"])
def test_plain_text_by_content_type(value: bytes) -> None:
    assert read(raw(value, headers=PLAIN)) == Document("weather", value.decode(), HERE, NOW_MS)


def test_byte_order_mark_is_no_text() -> None:
    assert read_document(raw("\ufeff雪".encode(), headers=PLAIN)).text == "雪"


@pytest.mark.parametrize(
    "headers",
    [
        (("Content-Type", b"TEXT/PLAIN"),),
        (("content-type", b"application/json"), ("content-type", b" text/plain ; x=y")),
    ],
)
def test_content_type_is_the_last_in_any_case(headers: tuple[tuple[str, bytes], ...]) -> None:
    assert read_document(raw(b"plain", headers=headers)).text == "plain"


def test_fixed_format_ignores_the_content_type() -> None:
    assert read_document(raw(TEXT), FieldSettings(format="text")).text == TEXT.decode()
    assert read_document(raw(TEXT, headers=PLAIN), FieldSettings(format="json")).text == "雪"


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ({"data": {"body": "deep"}}, "deep"),
        ({"data.body": "flat"}, "flat"),
        ({"data.body": "flat", "data": {"body": "deep"}}, "flat"),
        ({"data": [], "data.body": "flat"}, "flat"),
    ],
)
def test_dotted_names_are_paths_after_exact_names(content: dict[str, object], text: str) -> None:
    assert read_document(raw(as_json(content)), FieldSettings(text="data.body")).text == text


@pytest.mark.parametrize("content", [{}, {"data": "x"}, {"data": {}}, {"data": {"body": None}}])
def test_path_that_leads_nowhere_is_absent(content: dict[str, object]) -> None:
    value = as_json({"text": "雪", **content})
    assert read_document(raw(value), FieldSettings(title="data.body")).title == ""


def test_empty_field_name_leaves_the_field_unread() -> None:
    value = as_json({"text": "雪", "id": ["unread"], "": "unread"})
    assert read_document(raw(value), FieldSettings(id="")).id == "weather"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"text": ""}, r"fields\.text"),
        ({"title": "a\ud800"}, r"fields\.title"),
        ({"format": "xml"}, "fields.format is 'xml'"),
    ],
)
def test_invalid_field_settings_are_named(settings: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        msgspec.structs.replace(FieldSettings(), **settings)


@given(st.text(min_size=1, max_size=50).filter(lambda key: len(key.encode()) <= ID_BYTES_MAX))
def test_null_value_with_a_key_is_a_tombstone_of_that_id(key: str) -> None:
    record = raw(None, key.encode())
    tombstone = read(record)
    assert tombstone == Tombstone(HERE, record, key)
    assert read_document(raw(TEXT, key.encode())).id == key


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
