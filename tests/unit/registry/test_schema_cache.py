"""The cache of schemas has a limit, keeps unknown ids for a time, and never blocks a batch."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from simhash_core.verdicts import RejectionReason
from streams.documents.fields import FieldSettings
from streams.documents.json_values import UnreadableError
from streams.documents.schema_framing import VALUE, SchemaId, unframed
from streams.registry.schema_cache import AGAIN_SECONDS, UNKNOWN_SECONDS, SchemaCache, fetch_into
from streams.registry.schemas import (
    FetchedSchema,
    FetchOutcome,
    RegistryUnavailableError,
    UnknownSchemaError,
)

TEXT = FetchedSchema("AVRO", '"string"')
AVRO = FieldSettings(format="avro")
CONTENT = b"\x04hi"


def framed(number: int) -> bytes:
    return b"\x00" + number.to_bytes(4, "big") + CONTENT


def by_number(number: int) -> SchemaId:
    return SchemaId(number, "")


def reason_of(call: Callable[[], object]) -> RejectionReason:
    with pytest.raises(UnreadableError) as caught:
        call()
    return caught.value.reason


def test_schema_id_is_a_number_or_a_guid_and_the_header_comes_first() -> None:
    guid = bytes(range(16))
    text = "00010203-0405-0607-0809-0a0b0c0d0e0f"
    assert unframed((), framed(7)) == (by_number(7), CONTENT)
    assert unframed((), b"\x01" + guid + CONTENT) == (SchemaId(None, text), CONTENT)
    header = ((VALUE.id_header, b"\x01" + guid),)
    assert unframed(header, framed(7)) == (SchemaId(None, text), framed(7))
    assert unframed(((VALUE.id_header, None),), framed(7)) == (by_number(7), CONTENT)


def test_value_or_header_without_a_schema_id() -> None:
    for value in (b"", b"\x00", b"\x00\x00\x00\x01", b"\x01" + bytes(15), b"{}"):
        for headers, data in (((), value), (((VALUE.id_header, value),), b"x")):
            assert reason_of(lambda: unframed(headers, data)) is RejectionReason.NO_SCHEMA_ID  # noqa: B023


def test_each_schema_is_missing_once_until_it_is_kept() -> None:
    cache = SchemaCache(AVRO)
    values = [((), framed(1)), ((), b"{}"), ((), framed(2)), ((), framed(1))]
    assert cache.missing(values) == [by_number(1), by_number(2)]
    cache.keep(by_number(1), TEXT)
    assert cache.missing(values) == [by_number(2)]
    assert cache.decode((), framed(1)) == "hi"
    assert reason_of(lambda: cache.decode((), framed(2))) is RejectionReason.UNKNOWN_SCHEMA


def test_unknown_schema_is_missing_again_after_a_while() -> None:
    now = 100.0
    cache = SchemaCache(AVRO, clock=lambda: now)
    cache.keep_unknown(by_number(1), "not found")
    assert cache.missing([((), framed(1))]) == []
    assert reason_of(lambda: cache.decode((), framed(1))) is RejectionReason.UNKNOWN_SCHEMA
    now += UNKNOWN_SECONDS
    assert cache.missing([((), framed(1))]) == [by_number(1)]


def test_limit_drops_the_least_recently_used_but_none_of_the_batch() -> None:
    cache = SchemaCache(AVRO, limit=3)
    for number in range(1, 4):
        cache.keep(by_number(number), TEXT)
    assert cache.missing([((), framed(1))]) == []  # so it was used last
    cache.keep(by_number(4), TEXT)
    cache.trim([by_number(4)])
    assert cache.missing([((), framed(each)) for each in (1, 2, 3, 4)]) == [by_number(2)]
    many = [by_number(number) for number in range(10, 20)]
    for schema in many:
        cache.keep(schema, TEXT)
    cache.trim(many)
    assert cache.missing([((), framed(number)) for number in range(10, 20)]) == []
    assert cache.missing([((), framed(1))]) == [by_number(1)]


def test_schema_of_another_kind_names_both_kinds() -> None:
    cache = SchemaCache(AVRO)
    cache.keep(by_number(1), FetchedSchema("JSON", "{}"))
    with pytest.raises(UnreadableError, match=r"JSON.*fields\.format") as caught:
        cache.decode((), framed(1))
    assert caught.value.reason is RejectionReason.BAD_SCHEMA


def answering(*answers: FetchedSchema | Exception) -> Callable[[SchemaId], FetchedSchema]:
    """Answer from a list; any other schema is unknown."""
    left = list(answers)

    def fetch(schema: SchemaId) -> FetchedSchema:
        answer = left.pop(0) if left else UnknownSchemaError(str(schema))
        if isinstance(answer, Exception):
            raise answer
        return answer

    return fetch


def test_registry_is_asked_twice_before_a_schema_is_unknown() -> None:
    counted: list[FetchOutcome] = []
    pauses: list[float] = []
    cache = SchemaCache(AVRO)
    unknown = UnknownSchemaError("not yet")
    fetch, wanted = answering(unknown, unknown, TEXT), [by_number(1), by_number(2)]
    fetch_into(cache, fetch, wanted, counted.append, pauses.append)
    assert pauses == [AGAIN_SECONDS]
    assert counted == [FetchOutcome.FETCHED, FetchOutcome.UNKNOWN]
    assert cache.decode((), framed(1)) == "hi"
    assert reason_of(lambda: cache.decode((), framed(2))) is RejectionReason.UNKNOWN_SCHEMA


def test_registry_that_falls_silent_leaves_the_rest_missing() -> None:
    counted: list[FetchOutcome] = []
    cache = SchemaCache(AVRO)
    away = RegistryUnavailableError("away")
    wanted = [by_number(1), by_number(2)]
    with pytest.raises(RegistryUnavailableError):
        fetch_into(cache, answering(TEXT, away), wanted, counted.append, lambda _: None)
    assert counted == [FetchOutcome.FETCHED, FetchOutcome.UNAVAILABLE]
    assert cache.missing([((), framed(1)), ((), framed(2))]) == [by_number(2)]
