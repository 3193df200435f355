"""The records of one commit: unchanged uniques, duplicates, dead letters, and the changelog."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from simhash_core.documents import RawRecord, SourcePosition
from simhash_core.errors import UsageError
from simhash_core.log.participant import ShardReady
from simhash_core.log.records import NO_CONTROL, Packet, Progress
from simhash_core.log.shard_stream import Deleted, NoVerdict, Output, Ready, Verdict
from simhash_core.verdicts import (
    DuplicateOf,
    Match,
    Method,
    Rejection,
    RejectionReason,
    Undecidable,
    UndecidableReason,
    Unique,
)
from streams.documents.fields import ID_BYTES_MAX
from streams.documents.raw_documents import record_bytes
from streams.kafka.clients import RawOffset
from streams.kafka.producers import ProducerRecord
from streams.monitoring.metrics import Metrics
from streams.store.changelog_codec import WRITER_BYTES, decode_records
from streams.store.entry_batch import Place, Removal, StoreChange
from streams.worker.fingerprint import PendingRecord
from streams.worker.outputs import (
    ExpiredOutputs,
    OutputKind,
    OutputRules,
    dead_letter_record,
    output_batch,
)
from streams.worker.shard import LeaderEpochs
from tests.unit.core.log.made_to_order import CHAIN, Made, packet_of
from tests.unit.documents.samples import (
    FINGERPRINT,
    HERE,
    NEAR,
    NOW_MS,
    RULES,
    TAG_RULES,
    WITH_BODY,
    any_records,
    output_of,
    pending,
    raw,
)

NO_CHANGE = StoreChange(())
EPOCHS = dict.fromkeys(range(3), LeaderEpochs(RawOffset(0, 7)))
MATCH = Match(0, 2, 99, "first", SourcePosition("raw", 1, 5), NOW_MS, 1, False, None)
JSON = ("content-type", b"application/json")

# ---- one record (tests/unit/formats and tests/unit/documents check all values and headers)


@given(record=any_records, reason=st.sampled_from(RejectionReason))
def test_an_output_has_key_time_and_headers_of_its_raw_record(
    record: RawRecord, reason: RejectionReason
) -> None:
    own = [pair for pair in record.headers if not pair[0].startswith("firstseen-")]
    untyped = [pair for pair in own if pair[0].lower() != "content-type"]
    letter = [
        pair
        for pair in record.headers
        if pair[0] == "firstseen-redeliveries"
        or not pair[0].startswith(("firstseen-", "__connect.errors."))
    ]
    undecidable = Undecidable(UndecidableReason.EMPTY)
    rejection = Rejection(HERE, record, reason, "detail")
    for output, topic, expected in (
        (output_of(pending(record)), "unique", own),
        (output_of(pending(record, undecidable)), "unique", own),
        (output_of(pending(record), TAG_RULES), "tagged", own),
        (output_of(pending(record, NEAR), TAG_RULES), "tagged", own),
        (output_of(pending(record, NEAR)), "duplicate-of", [*untyped, JSON]),
        (dead_letter_record(rejection, RULES), RULES.topics.dead_letters, letter),
    ):
        assert output.topic == topic
        assert (output.key, output.timestamp_ms) == (record.key, record.timestamp_ms)
        assert (output.value == record.value) is (topic != "duplicate-of")
        assert [*output.headers[: len(expected)]] == expected
        ours = [name for name, _ in output.headers[len(expected) :]]
        assert all(each.startswith(("firstseen-", "__connect.errors.")) for each in ours)


def test_a_second_filter_replaces_the_headers_of_the_first() -> None:
    other = replace(RULES, identity="firstseen-index/1 another", application="other")
    first = output_of(pending(raw(b"value"), Undecidable(UndecidableReason.EMPTY)), other)
    second = output_of(pending(raw(b"value", headers=tuple(first.headers))))
    assert second == output_of(pending(raw(b"value")))


def duplicate(verdict: DuplicateOf, body: bytes | None = b"", bits: int = 64) -> dict[str, Any]:
    output = output_of(pending(raw(body), verdict), replace(WITH_BODY, bits=bits))
    value: dict[str, Any] = json.loads(output.value or b"")
    return value


@pytest.mark.parametrize(
    ("distance", "bits", "similarity"),
    [(0, 64, 1.0), (1, 64, 0.984375), (48, 256, 0.8125), (1, 384, 0.997396), (64, 64, 0.0)],
)
def test_similarity_is_the_share_of_equal_bits(distance: int, bits: int, similarity: float) -> None:
    verdict = msgspec.structs.replace(NEAR, distance=distance)
    assert duplicate(verdict, bits=bits)["similarity"] == similarity


@pytest.mark.parametrize("distance", [-1, 65])
def test_distances_that_cannot_be_are_refused(distance: int) -> None:
    with pytest.raises(UsageError, match=f"{distance} in a fingerprint of 64 bits"):
        duplicate(msgspec.structs.replace(NEAR, distance=distance))


@given(st.binary() | st.text().map(str.encode) | st.just(b'\x7f\xe2\x80\xa8\x1b[0m\f\b"\\'))
def test_any_body_is_text_or_base64(body: bytes) -> None:
    value = duplicate(NEAR, body)
    try:
        assert value["body"] == body.decode()
    except KeyError:
        assert base64.b64decode(value["body_base64"]) == body
    assert not {"body", "body_base64"} <= value.keys()


def test_a_duplicate_has_no_body_unless_it_is_wanted_and_there_is_one() -> None:
    without = json.loads(output_of(pending(raw(b"text"), NEAR)).value or b"")
    assert not {"body", "body_base64"} & (without.keys() | duplicate(NEAR, None).keys())
    assert duplicate(NEAR, b"text")["body"] == "text"


@pytest.mark.parametrize("filler", [b"\x00", b"\n", b'"', b"\\", b"\xff", b"x"])
def test_the_size_of_an_output_is_bounded(filler: bytes) -> None:
    record = raw(filler * 100_000, b"k" * 1_000, (("content-type", b""),) * 100)
    long_id = "\x01" * ID_BYTES_MAX
    decided = pending(record, msgspec.structs.replace(NEAR, original_id=long_id), long_id)
    beside_value = record_bytes(record) - 100_000
    for rules, bound in ((WITH_BODY, 200_000), (RULES, 0)):
        assert output_of(decided, rules).size <= beside_value + bound + 65_536


@pytest.mark.parametrize("block", [3, None])
def test_an_exact_duplicate_of_a_document_from_before_1970(block: int | None) -> None:
    value = duplicate(DuplicateOf("a", HERE, -1, distance=0, block=block, method=Method.EXACT))
    assert value["original"]["timestamp"] == "1969-12-31T23:59:59.999Z"
    assert (value["block"], value["method"], value["similarity"]) == (block, "exact", 1.0)


def test_each_reason_has_a_class_name_of_its_own() -> None:
    """Kafka Connect's tools group dead letters by class name."""
    letters = [
        dead_letter_record(Rejection(HERE, raw(b""), reason, "x"), RULES)
        for reason in RejectionReason
    ]
    names = {dict(each.headers)["__connect.errors.exception.class.name"] for each in letters}
    assert len(names) == len(RejectionReason)
    assert b"firstseen.BadCloudevent" in names


def test_a_dead_letter_of_a_dead_letter_is_no_longer_than_the_first() -> None:
    rejection = Rejection(HERE, raw(b"{"), RejectionReason.NOT_JSON, "detail")
    first = dead_letter_record(rejection, RULES)
    again = ("firstseen-redeliveries", b"1")
    resent = raw(b"{", headers=(*first.headers, again))
    second = dead_letter_record(msgspec.structs.replace(rejection, record=resent), RULES)
    assert second.headers == (again, *first.headers)


# ---- the outputs of shards become one batch


def arrived(offset: int, key: bytes | None = b"key") -> PendingRecord:
    return PendingRecord(SourcePosition("raw", 0, offset), raw(b"value %d" % offset, key))


def packet(*documents: Made, first: int = 7) -> Packet:
    return packet_of(documents, first=first)


def ready(
    outputs: Sequence[Output[PendingRecord]], next_offset: int, partition: int = 0
) -> ShardReady[PendingRecord]:
    progress = Progress(CHAIN, next_offset, 20, NO_CONTROL)
    return ShardReady(partition, Ready(list(outputs), [], next_offset), progress)


async def committed(
    output: Output[PendingRecord], rules: OutputRules = RULES
) -> list[ProducerRecord]:
    batch = await output_batch([ready([output], 50)], rules, {0: NO_CHANGE}, EPOCHS)
    *records, progress = batch.records
    assert progress.topic == rules.topics.changelog
    return records


async def test_a_commit_has_the_offset_of_each_shard_even_without_outputs() -> None:
    """Kafka checks the generation only for partitions whose offsets are in the commit."""
    document = Output(arrived(7), Verdict(packet(Made(FINGERPRINT)), 0, None))
    shards = [ready([document], 8), ready([], 41, partition=1), ready([], 300, partition=2)]
    changes = {0: NO_CHANGE, 1: NO_CHANGE, 2: StoreChange((), Removal((), ()), removed=1)}
    batch = await output_batch(shards, RULES, changes, EPOCHS)
    idle = await output_batch(shards[1:], RULES, changes, EPOCHS)
    assert batch.offsets == {0: 8, 1: 41, 2: 300}
    assert idle.offsets == {1: 41, 2: 300}
    assert [record.partition for record in batch.records] == [None, 0, 1, 2]
    assert batch.changelog_bytes == sum(record.size for record in batch.records[1:])
    assert all(record.key and not record.about for record in idle.records)
    assert (idle.removed, idle.counts(), batch.ends) == (1, {}, {})


@pytest.mark.parametrize(("late", "next_offset"), [(0, 50), (3, 40)], ids=["in place", "late"])
async def test_a_late_commit_without_a_transaction_leaves_the_progress_as_it_was(
    late: int, next_offset: int
) -> None:
    """Its outputs and entries do not count either, or are there twice."""
    before = Progress(CHAIN, 40, 11, NO_CONTROL)
    change = StoreChange((), place=Place(b"w" * WRITER_BYTES, 8, before))
    batch = await output_batch([ready([], 50)], RULES, {0: change}, EPOCHS)
    assert batch.ends == {0: 9}
    (record,) = batch.records
    read = decode_records([record.key], [record.value], [8 + late], str)
    assert [(each.progress.next, each.leader_epoch) for each in read.progress] == [(next_offset, 7)]


async def test_the_document_of_a_record_is_what_its_packet_says() -> None:
    first, second = packet(Made(FINGERPRINT), Made(b"")), packet(Made(FINGERPRINT), first=9)
    waiting = [arrived(7), arrived(8), arrived(9)]
    outputs = [
        Output(waiting[0], Verdict(first, 0, None)),
        Output(waiting[1], Verdict(first, 1, None)),
        Output(waiting[2], Verdict(second, 0, MATCH)),
    ]

    batch = await output_batch([ready(outputs, 10)], RULES, {0: NO_CHANGE}, EPOCHS)

    assert [each.document_id for each in waiting] == ["document 7", "document 8", "document 9"]
    assert [each.event_time_ms for each in waiting] == [1_007, 1_008, 1_009]
    assert [each.fingerprint for each in waiting] == [FINGERPRINT, b"", FINGERPRINT]
    assert waiting[0].verdict == Unique()
    assert isinstance(waiting[2].verdict, DuplicateOf)
    assert batch.outputs == waiting
    assert batch.counts() == {"unique": 1, "undecidable": 1, "near_duplicate": 1}
    topics = RULES.topics
    assert [record.topic for record in batch.records] == [
        *(topics.unique, topics.unique, topics.duplicates, topics.changelog)
    ]
    assert [record.about for record in batch.records] == [*((each.source,) for each in waiting), ()]


async def test_an_output_has_the_fingerprint_without_the_mask_of_its_scope() -> None:
    scoped = packet(Made(FINGERPRINT, scope="tenant"))
    (record,) = await committed(Output(arrived(7), Verdict(scoped, 0, None)))
    assert dict(record.headers)["firstseen-fingerprint"] == FINGERPRINT.hex().encode()


@pytest.mark.parametrize(
    ("rules", "put", "topics"),
    [
        (RULES, True, ["unique"]),
        (RULES, False, []),
        (TAG_RULES, True, ["tagged"]),
        (TAG_RULES, False, ["tagged"]),
    ],
)
async def test_a_tombstone_follows_a_delete_where_the_document_may_be(
    rules: OutputRules, put: bool, topics: list[str]
) -> None:
    records = await committed(
        Output(arrived(7), Deleted(packet(Made(b"")), 0, has_output=put)), rules
    )
    assert [record.topic for record in records] == topics
    for record in records:
        assert (record.key, record.value) == (b"key", None)
        assert dict(record.headers)["firstseen-id"] == b"document 7"
        assert dict(record.headers)["firstseen-verdict"] == b"deleted"


@pytest.mark.parametrize(
    ("key", "verdicts"), [(b"key", [b"replaced", b"duplicate"]), (None, [b"duplicate"])]
)
async def test_a_tombstone_precedes_a_duplicate_that_replaced_a_unique_document(
    key: bytes | None, verdicts: list[bytes]
) -> None:
    decided = Output(arrived(7, key), Verdict(packet(Made(FINGERPRINT)), 0, MATCH, replaced=True))
    records = await committed(decided)
    (tagged,) = await committed(decided, TAG_RULES)
    assert [dict(each.headers)["firstseen-verdict"] for each in records] == verdicts
    assert dict(tagged.headers)["firstseen-replaced"] == b"true", "the id is in a header"


async def test_a_duplicate_may_have_replaced_a_document_that_has_expired() -> None:
    unique, duplicate = (
        Output(arrived(7), Verdict(packet(Made(FINGERPRINT)), 0, match)) for match in (None, MATCH)
    )
    rules, tagging = (replace(each, replaces_expired=True) for each in (RULES, TAG_RULES))
    gone, _ = await committed(duplicate, rules)
    assert (gone.value, dict(gone.headers)["firstseen-verdict"]) == (None, b"replaced")
    (tagged,) = await committed(duplicate, tagging)
    assert dict(tagged.headers)["firstseen-replaced"] == b"true"
    assert [each.topic for each in await committed(unique, rules)] == ["unique"]


async def test_records_without_a_verdict_become_dead_letters_but_tombstones() -> None:
    unreadable, tombstone, otherwise = arrived(7), arrived(8), arrived(9)
    reason = RejectionReason.NOT_JSON
    unreadable.rejection = Rejection(unreadable.source, unreadable.record, reason, "a detail")
    outputs = [
        Output(unreadable, NoVerdict.NO_DOCUMENT),
        Output(tombstone, NoVerdict.NO_DOCUMENT),
        Output(otherwise, NoVerdict.READ_OTHERWISE),
    ]
    batch = await output_batch([ready(outputs, 10)], RULES, {0: NO_CHANGE}, EPOCHS)
    assert [each.reason for each in batch.rejections] == [reason, RejectionReason.READING_CHANGED]
    letters = [each.about for each in batch.records[:-1]]
    assert letters == [(unreadable.source,), (otherwise.source,)]
    assert batch.counts() == {"dead_letter": 2}
    assert batch.outputs == []


# ---- outputs that are older than the retention of their topic


def test_old_outputs_are_counted_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    day_ms = 86_400_000
    metrics = Metrics(CollectorRegistry())
    expired = ExpiredOutputs(replace(RULES, retention_ms={"unique": day_ms}), metrics)

    def note(topic: str, *ages_ms: int) -> None:
        about = (SourcePosition("raw", 3, 42),)
        records = [
            ProducerRecord(topic, b"k", b"v", None, NOW_MS - age_ms, (), about)
            for age_ms in ages_ms
        ]
        expired.note(records, NOW_MS)

    note("unique", -5, 0, day_ms)  # the limit itself is kept
    note("duplicate-of", 1000 * day_ms)
    expired.note([ProducerRecord("unique", b"k", b"v")], NOW_MS)
    assert caplog.messages == []
    note("unique", day_ms + 1, 365 * day_ms)
    note("unique", 365 * day_ms)
    value = metrics.registry.get_sample_value
    counted = {
        kind: value("firstseen_expired_outputs_total", {"output": kind}) for kind in OutputKind
    }
    assert counted == dict.fromkeys(OutputKind, 0) | {OutputKind.UNIQUE: 3}
    (line,) = caplog.messages
    for part in ("unique", "86400 s", "raw/3@42", "retention.ms", "topics check"):
        assert part in line
