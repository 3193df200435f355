"""Documents that a worker keeps to show: the latest duplicates, and texts up to a limit."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from simhash_core.documents import RawRecord, SourcePosition
from simhash_core.fingerprints.blocks import BlockScheme
from simhash_core.verdicts import DuplicateOf, Method, Rejection, RejectionReason, Unique, Verdict
from streams.documents.fields import FieldSettings
from streams.documents.raw_documents import DocumentReader
from streams.ops_page.duplicates import DUPLICATES_LIMIT, DuplicateViews, RecentDocuments
from streams.worker.fingerprint import PendingRecord

MIB = 1024 * 1024
SCHEME = BlockScheme(256, 16, 15)
TEXT_FIELDS = FieldSettings(format="text")


@pytest.fixture
def recent() -> RecentDocuments:
    return RecentDocuments(MIB)


def at(number: int) -> SourcePosition:
    return SourcePosition("raw", 0, number)


def decided(number: int, value: bytes, verdict: Verdict) -> PendingRecord:
    record = RawRecord(None, value, 0)
    return PendingRecord(at(number), record, None, f"d{number}", verdict=verdict)


def unique(number: int, value: bytes = b"text") -> PendingRecord:
    return decided(number, value, Unique())


def duplicate(number: int, original: int, value: bytes = b"text") -> PendingRecord:
    verdict = DuplicateOf(f"d{original}", at(original), 0, 3, 1, Method.NEAR, 0.75)
    return decided(number, value, verdict)


def views(recent: RecentDocuments, fields: FieldSettings = TEXT_FIELDS) -> DuplicateViews:
    return DuplicateViews(recent, DocumentReader(fields), SCHEME)


def texts_of(recent: RecentDocuments, fields: FieldSettings = TEXT_FIELDS) -> Any:  # noqa: ANN401 - JSON
    return msgspec.json.decode(msgspec.json.encode(views(recent, fields).texts(1)))


def listed(recent: RecentDocuments) -> list[Any]:
    latest: list[Any] = msgspec.to_builtins(views(recent).latest())["duplicates"]
    return latest


def test_duplicate_is_shown_beside_its_original(recent: RecentDocuments) -> None:
    recent.note([unique(1, b"the cat sat"), duplicate(2, 1, b"the dog sat")], 5)
    shown = texts_of(recent)
    assert ["only", "cat"] in shown["original_text"]
    assert ["only", "dog"] in shown["text"]
    assert shown["missing"] is None
    assert shown["duplicate"] == {
        "number": 1,
        "decided": "1970-01-01T00:00:00.005Z",
        "id": "d2",
        "source": {"topic": "raw", "partition": 0, "offset": 2},
        "original_id": "d1",
        "original": {"topic": "raw", "partition": 0, "offset": 1},
        "distance": 3,
        "bits": 256,
        "block": 1,
        "agreement": 0.75,
        "method": "near",
        "reason": "3 bits differ of 256, block 1 is equal, text overlap about 75%",
        "excerpt": "the dog sat",
    }


def test_texts_that_are_not_held_are_named(recent: RecentDocuments) -> None:
    large = bytes(MIB // 2)
    recent.note([duplicate(2, 1)], 5)
    shown = texts_of(recent)
    assert shown["original_text"] == []
    assert "the original's text is not held" in shown["missing"]
    for verdict, missing in (
        ([duplicate(3, 2, large)], "neither text is"),
        ([unique(4), duplicate(5, 4, large)], "this text is not"),
    ):
        recent.note(verdict, 5)
        assert missing in str(views(recent).texts(recent.held().duplicates))
    assert recent.record(at(4)) is not None
    recent.note([unique(6, large)], 5)
    assert recent.record(at(6)) is None
    values = RecentDocuments(MIB)
    values.note([unique(1, b'{"no": "text"}'), duplicate(2, 1, b"\xff\xfe")], 5)
    shown = texts_of(values, FieldSettings())
    assert (shown["text"], shown["original_text"]) == ([], [])


def test_latest_duplicates_come_first_and_are_bounded(recent: RecentDocuments) -> None:
    recent.note([duplicate(number, 0) for number in range(1, DUPLICATES_LIMIT + 11)], 5)
    numbers = [each["number"] for each in listed(recent)]
    assert numbers == list(range(DUPLICATES_LIMIT + 10, 10, -1))
    assert views(recent).texts(1) is None
    assert recent.held().duplicates == DUPLICATES_LIMIT + 10


def test_memory_is_bounded(recent: RecentDocuments) -> None:
    recent.note([unique(20_000, b"")], 5)
    assert recent.held().size_bytes >= 400, "a record takes memory beside its bytes"
    for number in range(5000):
        size = 997 * number % 8000
        recent.note(
            [unique(number, bytes(size)), duplicate(10_000 + number, number, bytes(size))], 5
        )
        assert recent.held().size_bytes <= MIB
    assert recent.held().documents > 100
    assert recent.record(at(0)) is None


def test_originals_that_duplicates_name_stay(recent: RecentDocuments) -> None:
    recent.note([unique(0, b"the original")], 5)
    for number in range(1, 2000):
        recent.note([unique(number, bytes(4000)), duplicate(10_000 + number, 0)], 5)
    assert recent.record(at(0)) is not None
    assert recent.record(at(1)) is None


def test_limit_of_zero_lists_duplicates_without_texts() -> None:
    recent = RecentDocuments(0)
    recent.note([unique(1), duplicate(2, 1)], 5)
    assert recent.held().size_bytes == 0
    assert recent.record(at(1)) is None
    assert len(listed(recent)) == 1


def test_latest_dead_letters_of_each_reason_are_shown(recent: RecentDocuments) -> None:
    reasons = [RejectionReason.TOO_LARGE, *[RejectionReason.NOT_JSON] * 9]
    bad = [
        Rejection(at(number), RawRecord(None, b"\xff<b>" * 200, 0), reason, "why")
        for number, reason in enumerate(reasons)
    ]
    recent.note_rejections(bad, 5)
    shown = recent.rejections()
    assert [each.source.offset for each in shown] == [0, 9, 8, 7]
    assert shown[0].reason is RejectionReason.TOO_LARGE
    assert shown[0].excerpt.startswith("\ufffd<b>")
    assert len(shown[0].excerpt) <= 240
    assert recent.held().dead_letters == 10
    assert RecentDocuments(0).held().dead_letters == 0
