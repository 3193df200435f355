"""Outputs satisfy their JSON Schemas and can be read back; slightly wrong ones do neither."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from msgspec.structs import replace

from simhash_core.documents import Document, RawRecord, SourcePosition
from simhash_core.verdicts import (
    DuplicateOf,
    Rejection,
    RejectionReason,
    Undecidable,
    UndecidableReason,
    Unique,
    Verdict,
)
from streams import schemas
from streams.documents.output_records import (
    DeadLetterOutput,
    DuplicateOutput,
    UniqueOutput,
    received_output,
    source_position,
)
from streams.worker.fingerprint import PendingRecord
from streams.worker.outputs import (
    TombstoneReason,
    dead_letter_record,
    document_records,
    tombstone_record,
)
from tests.unit.documents.samples import (
    EXACT,
    HERE,
    IDENTITY,
    NEAR,
    RULES,
    TAG_RULES,
    WITH_BODY,
    any_records,
    as_json,
    header_lists,
    json_objects,
    output_of,
    pending,
    raw,
    read,
    view,
)

NAMES = [
    file.name.removesuffix(".json")
    for file in files(schemas).iterdir()
    if file.name.endswith(".json")
]
VALIDATORS = {name: Draft202012Validator(schemas.load(name)) for name in NAMES}


def errors_of(name: str, instance: object) -> list[str]:
    return [error.message for error in VALIDATORS[name].iter_errors(instance)]


def duplicate_value() -> dict[str, Any]:
    value: dict[str, Any] = json.loads(output_of(pending(raw(b""), NEAR)).value or b"")
    return value


UNIQUE = view(output_of(pending(raw(b"value"))))
UNDECIDABLE = view(output_of(pending(raw(b"value"), Undecidable(UndecidableReason.EMPTY))))
TAGGED = view(output_of(pending(raw(b"value"), NEAR), TAG_RULES))
NOT_JSON, TOO_LARGE = (
    view(dead_letter_record(Rejection(HERE, raw(b"{"), reason, "detail", *sizes), RULES))
    for reason, sizes in ((RejectionReason.NOT_JSON, ()), (RejectionReason.TOO_LARGE, (4, 5)))
)


def test_schemas_are_valid_and_name_their_form_and_version() -> None:
    for name in NAMES:
        schema = schemas.load(name)
        Draft202012Validator.check_schema(schema)
        assert schema["$schema"] == Draft202012Validator.META_SCHEMA["$id"]
        form, version = name.split(".v")
        assert schema["$id"] == f"urn:firstseen:schema:{form}:{version}"
        assert schema["title"]
        assert schema["description"]


@settings(max_examples=settings().max_examples // 3)  # each validates a dozen records
@given(
    any_records,
    st.sampled_from([NEAR, replace(NEAR, agreement=0.518), EXACT, replace(EXACT, block=None)]),
    st.sampled_from(UndecidableReason),
    st.sampled_from(RejectionReason),
    st.booleans(),
)
def test_outputs_of_any_record_satisfy_their_schemas(
    record: RawRecord,
    repeat: DuplicateOf,
    why: UndecidableReason,
    reason: RejectionReason,
    replaced: bool,
) -> None:
    unique, undecidable = pending(record), pending(record, Undecidable(why))
    short = replace(pending(record, EXACT), fingerprint=b"")
    for output in (output_of(unique), output_of(undecidable)):
        assert errors_of("unique-record.v1", view(output)) == []
    for output in (
        *document_records(unique, TAG_RULES, replaced=replaced),
        *document_records(pending(record, repeat), TAG_RULES, replaced=replaced),
        output_of(undecidable, TAG_RULES),
        output_of(short, TAG_RULES),
        tombstone_record(unique, TombstoneReason.DELETED, TAG_RULES),
    ):
        assert errors_of("tagged-record.v1", view(output)) == []
    duplicate = output_of(pending(record, repeat), WITH_BODY)
    assert errors_of("duplicate-of.v2", json.loads(duplicate.value or b"")) == []
    sizes = (0, 1) if reason is RejectionReason.TOO_LARGE else ()
    letter = dead_letter_record(Rejection(HERE, record, reason, "detail", *sizes), RULES)
    assert errors_of("dead-letter.v1", view(letter)) == []


@given(json_objects)
def test_reader_and_schema_agree_on_documents(content: dict[str, Any]) -> None:
    """The schema cannot detect days that do not exist, nor ids with lone surrogates."""
    result = read(raw(as_json(content)))
    valid = errors_of("raw-document.v1", content) == []
    if isinstance(result, Document):
        assert valid
    elif valid:
        assert isinstance(result, Rejection)
        assert result.reason in (RejectionReason.BAD_TIMESTAMP, RejectionReason.WRONG_TYPE)


VALID: list[object] = [
    {"text": ""},
    {"text": "x", "id": 17, "timestamp": 17.5, "keywords": "one", "other": [1]},
    {"text": "x", "id": None, "title": None, "tags": None, "timestamp": None},
    {"text": "x", "timestamp": "2024-05-01T12:00:00.5+08:00"},
]
INVALID: list[object] = [
    *({}, [], {"text": None}, {"text": 17}),
    *({"text": "x", "id": wrong} for wrong in (1.5, True, "x" * 4_097)),
    *({"text": "x", "timestamp": wrong} for wrong in ("2024-05-01", True, 1e15)),
    *({"text": "x", "title": 17}, {"text": "x", "keywords": [17]}, {"text": "x", "references": {}}),
]


def test_reader_and_schema_agree_on_edge_cases() -> None:
    for content in (*VALID, *INVALID):
        valid = content in VALID
        assert (errors_of("raw-document.v1", content) == []) is valid, content
        assert isinstance(read(raw(as_json(content))), Document) is valid, content


WRONG_IN_A_DUPLICATE: list[Mapping[str, object]] = [
    {"schema": "firstseen.duplicate-of/1"},
    {"id": 17},
    {"source": ["raw-documents", 0, 7]},
    {"source": {"topic": "raw-documents", "partition": -1, "offset": 7}},
    {"original": {"id": "weather"}},
    *({"distance": wrong} for wrong in (2.5, -1)),
    *({"bits": 65}, {"similarity": 1.1}, {"block": "1"}, {"method": "fuzzy"}, {"index": IDENTITY}),
    *({"timestamp": wrong} for wrong in (1_714_536_000_000, "2024-05-01T04:05:00Z")),
    *({"body": None}, {"body": "x", "body_base64": "eA=="}, {"body_base64": "no base64"}),
    {"other": 1},
]


def test_duplicate_with_one_thing_wrong_or_missing_is_found() -> None:
    value = duplicate_value()
    assert errors_of("duplicate-of.v2", value) == []
    for changes in WRONG_IN_A_DUPLICATE:
        assert errors_of("duplicate-of.v2", {**value, **changes}) != [], changes
    for field in value:
        without = {name: each for name, each in value.items() if name != field}
        assert errors_of("duplicate-of.v2", without) != [], field


FINGERPRINT = "firstseen-fingerprint"
OF_OTHERS = [
    (UNDECIDABLE, FINGERPRINT, "9c3f00e1a7d2485b"),
    (UNIQUE, "firstseen-reason", "empty"),
    (UNIQUE, "firstseen-verdict", "undecidable"),
    (UNDECIDABLE, "firstseen-verdict", "unique"),
    (TOO_LARGE, "firstseen-reason", "not_json"),
]
"""Headers that only records of another kind have."""


def broken_headers(record: dict[str, Any]) -> Iterator[list[dict[str, Any]]]:
    """Yield records with each header missing, repeated, without a value, or with an invalid one."""
    headers = record["headers"]
    for index, header in enumerate(headers):
        others = [*headers[:index], *headers[index + 1 :]]
        if record is not TAGGED or header["name"] != FINGERPRINT:  # an exact duplicate has none
            yield others
        yield [*headers, header]
        yield [*others, {**header, "value": None}]
        yield [*others, {**header, "value": {"base64": "/w=="}}]
    yield [*headers, {"name": FINGERPRINT, "value": "9C3F"}]
    if record is not TAGGED:
        yield [*headers, {"name": "firstseen-mood", "value": "good"}]
    for of, name, value in OF_OTHERS:
        if record is of:
            others = [each for each in headers if each["name"] != name]
            yield [*others, {"name": name, "value": value}]


@pytest.mark.parametrize(
    ("name", "record"),
    [
        *(("unique-record.v1", UNIQUE), ("unique-record.v1", UNDECIDABLE)),
        *(("tagged-record.v1", each) for each in (UNIQUE, UNDECIDABLE, TAGGED)),
        *(("dead-letter.v1", each) for each in (NOT_JSON, TOO_LARGE)),
    ],
)
def test_records_with_one_thing_wrong_are_found(name: str, record: dict[str, Any]) -> None:
    assert errors_of(name, record) == []
    for headers in broken_headers(record):
        assert errors_of(name, {**record, "headers": headers}) != [], headers
    for wrong in (
        {**record, "headers": {}},
        {**record, "value": 17},
        {**record, "timestamp_ms": "2024-05-01T04:00:00Z"},
        {**record, "topic": "unique"},
        {key: value for key, value in record.items() if key != "key"},
    ):
        assert errors_of(name, wrong) != [], wrong
    without = [each for each in TAGGED["headers"] if each["name"] != FINGERPRINT]
    assert errors_of("tagged-record.v1", {**TAGGED, "headers": without}) == []


def test_schemas_list_the_reasons_of_the_code() -> None:
    dead_letter = schemas.load("dead-letter.v1")["$defs"]["reason"]["properties"]["value"]["enum"]
    unique = schemas.load("unique-record.v1")["$defs"]["reason"]["properties"]["value"]["enum"]
    assert dead_letter == [str(reason) for reason in RejectionReason]
    assert unique == [str(reason) for reason in UndecidableReason]


ELSEWHERE = SourcePosition("raw-documents", 7, 9)


@given(any_records)
def test_outputs_of_any_raw_record_are_read_back(record: RawRecord) -> None:
    def decided(verdict: Verdict) -> PendingRecord:
        return pending(record, verdict, "id/雪@1", ELSEWHERE)

    undecidable = Undecidable(UndecidableReason.EMPTY)
    rejection = Rejection(ELSEWHERE, record, RejectionReason.NOT_JSON, "detail: 雪")
    unique = UniqueOutput(ELSEWHERE, "id/雪@1", "")
    duplicate = DuplicateOutput(ELSEWHERE, "id/雪@1", HERE, "weather", 2, 64, 0.96875, "near")
    for output, said in (
        (output_of(decided(Unique())), unique),
        (output_of(decided(Unique()), TAG_RULES), unique),
        (output_of(decided(undecidable)), UniqueOutput(ELSEWHERE, "id/雪@1", "empty")),
        (output_of(decided(NEAR), WITH_BODY), duplicate),
        (output_of(decided(NEAR), TAG_RULES), duplicate),
        (
            dead_letter_record(rejection, RULES),
            DeadLetterOutput(ELSEWHERE, "not_json", "detail: 雪"),
        ),
    ):
        assert received_output(output.value, output.headers) == said


@given(st.none() | st.binary(), header_lists)
def test_other_records_with_any_headers_are_no_outputs(
    value: bytes | None, headers: tuple[tuple[str, bytes | None], ...]
) -> None:
    assert received_output(value, headers) is None


def test_later_schema_is_not_read_as_this_one() -> None:
    record = output_of(pending(raw(b"{}"), NEAR))
    assert record.value is not None
    later = record.value.replace(b"firstseen.duplicate-of/2", b"firstseen.duplicate-of/3")
    assert received_output(later, record.headers) is None


@pytest.mark.parametrize("shown", ["", "t/1", "t@1", "t/1@", "t/@1", "/1@2", "t/-1@2", "t/1@x"])
def test_incomplete_source_positions_are_refused(shown: str) -> None:
    assert source_position(str(HERE)) == HERE
    with pytest.raises(ValueError, match="topic/partition@offset"):
        source_position(shown)
