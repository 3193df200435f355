"""Records on `duplicate-of`: what is repeated, how near it is, and the body only by choice."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simhash_core.documents import RawRecord, SourcePosition
from simhash_core.errors import UsageError
from simhash_core.verdicts import DuplicateOf, Method
from streams.documents.fields import ID_BYTES_MAX
from streams.documents.raw_documents import record_bytes
from streams.kafka.producers import ProducerRecord
from tests.unit.documents.samples import (
    EXACT,
    HERE,
    NEAR,
    NOW_MS,
    RULES,
    WITH_BODY,
    any_records,
    output_of,
    pending,
    raw,
)

THERE = SourcePosition("raw-documents", 0, 7)


def duplicate(
    record: RawRecord, verdict: DuplicateOf = NEAR, *, include_body: bool = False
) -> ProducerRecord:
    """The record of a duplicate in an index of 64 bits."""
    decided = pending(record, verdict, "weather-2", THERE, NOW_MS + 300_000)
    return output_of(decided, WITH_BODY if include_body else RULES)


def value_of(output: ProducerRecord) -> dict[str, Any]:
    """The JSON of a record."""
    assert output.value is not None
    value: dict[str, Any] = json.loads(output.value)
    return value


def test_bytes_of_a_duplicate() -> None:
    """Given a near duplicate, then these are the bytes: the order of the fields never changes."""
    assert duplicate(raw(b"value")).value == (
        b'{"schema":"firstseen.duplicate-of/2","id":"weather-2",'
        b'"source":{"topic":"raw-documents","partition":0,"offset":7},'
        b'"original":{"id":"weather",'
        b'"source":{"topic":"raw-documents","partition":3,"offset":42},'
        b'"timestamp":"2024-05-01T04:00:00.000Z"},'
        b'"distance":2,"bits":64,"similarity":0.96875,"block":1,"method":"near","agreement":null,'
        b'"index":"f035ec2f58c1","timestamp":"2024-05-01T04:05:00.000Z"}'
    )


@given(any_records)
def test_key_time_and_headers_are_the_raw_records(record: RawRecord) -> None:
    """Given any record, then key, time and headers are its own, less what says untrue things.

    These are the headers of an earlier filter, and the type of a value that is no longer there.
    """
    output = duplicate(record)

    own = tuple(
        pair
        for pair in record.headers
        if not pair[0].startswith("firstseen-") and pair[0].lower() != "content-type"
    )
    assert output.topic == RULES.topics.duplicates
    assert (output.key, output.timestamp_ms) == (record.key, record.timestamp_ms)
    assert output.headers == (
        *own,
        ("content-type", b"application/json"),
        ("firstseen-verdict", b"duplicate"),
        ("firstseen-id", b"weather-2"),
        ("firstseen-source", b"raw-documents/0@7"),
        ("firstseen-fingerprint", b"9c3f00e1a7d2485b"),
        ("firstseen-original", b"weather"),
        ("firstseen-distance", b"2"),
        ("firstseen-method", b"near"),
        ("firstseen-index", b"f035ec2f58c1"),
    )


@pytest.mark.parametrize(
    ("distance", "bits", "similarity"),
    [(0, 64, 1.0), (1, 64, 0.984375), (48, 256, 0.8125), (1, 384, 0.997396), (64, 64, 0.0)],
)
def test_similarity_of_near_duplicates(distance: int, bits: int, similarity: float) -> None:
    """Given a distance, then the similarity is the share of equal bits, to six digits."""
    verdict = msgspec.structs.replace(NEAR, distance=distance)

    output = output_of(pending(raw(b""), verdict), replace(RULES, bits=bits))

    assert value_of(output)["similarity"] == similarity


def test_exact_duplicates_without_a_fingerprint() -> None:
    """Given equal content and no fingerprint to share a block of, then the block is null."""
    value = value_of(duplicate(raw(b""), msgspec.structs.replace(EXACT, block=None)))

    assert (value["block"], value["method"], value["similarity"]) == (None, "exact", 1.0)


@pytest.mark.parametrize("distance", [-1, 65])
def test_distances_that_cannot_be_are_refused(distance: int) -> None:
    """Given a distance that 64 bits cannot have, then the error names both."""
    with pytest.raises(UsageError, match=f"{distance} in a fingerprint of 64 bits"):
        duplicate(raw(b""), msgspec.structs.replace(NEAR, distance=distance))


@pytest.mark.parametrize(
    "text", ["", "雪", '{"text": "雪"}\r\n', "tab\t, form feed\f, back space\b", "\x7f\u2028"]
)
def test_a_body_that_is_text_is_a_string(text: str) -> None:
    """Given UTF-8, then the body is that string, and there is no other."""
    value = value_of(duplicate(raw(text.encode()), include_body=True))

    assert value["body"] == text
    assert "body_base64" not in value


@pytest.mark.parametrize("body", [b"\xff", b"\xed\xa0\x80", b"nul \x00", b"\x1b[0m"])
def test_other_bodies_are_base64(body: bytes) -> None:
    """Given bytes that are not UTF-8, or control characters, then the body is in base64."""
    value = value_of(duplicate(raw(body), include_body=True))

    assert base64.b64decode(value["body_base64"], validate=True) == body
    assert "body" not in value


@given(st.none() | st.binary())
def test_bodies_come_back(body: bytes | None) -> None:
    """Given any value, then it can be had back from the record with the body, from no other."""
    value = value_of(duplicate(raw(body), include_body=True))

    text, encoded = value.get("body"), value.get("body_base64")
    assert (text is None) + (encoded is None) == (2 if body is None else 1)
    assert body == (base64.b64decode(encoded) if encoded else text.encode() if text else body)
    assert not {"body", "body_base64"} & set(value_of(duplicate(raw(body))))


@pytest.mark.parametrize("filler", [b"\x00", b"\n", b'"', b"\\", b"\xff", b"x"])
def test_size_stays_in_its_bound(filler: bytes) -> None:
    """Given the worst bodies and the longest ids, then the record is as small as the page says."""
    record = raw(filler * 100_000, b"k" * 1_000, (("content-type", b""),) * 100)
    long_id = "\x01" * ID_BYTES_MAX
    verdict = msgspec.structs.replace(NEAR, original_id=long_id)
    decided = pending(record, verdict, long_id)
    beside_value = record_bytes(record) - 100_000

    for rules, bound in ((WITH_BODY, 200_000), (RULES, 0)):
        size = output_of(decided, rules).size
        assert size <= beside_value + bound + 65_536


def test_times_and_methods_are_spelled_out() -> None:
    """Given an exact duplicate of a document from before 1970, then its time has a year too."""
    verdict = DuplicateOf("a", HERE, -1, distance=0, block=3, method=Method.EXACT)

    value = value_of(duplicate(raw(b""), verdict))

    assert value["original"]["timestamp"] == "1969-12-31T23:59:59.999Z"
    assert (value["method"], value["block"]) == ("exact", 3)
