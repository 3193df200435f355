"""What shards have ready becomes the records of one commit."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from simhash_core.document_columns import BytesColumn
from simhash_core.documents import SourcePosition, masked
from simhash_core.log.participant import ShardReady
from simhash_core.log.records import NO_CONTROL, Packet, Progress
from simhash_core.log.shard_stream import Deleted, NoVerdict, Output, Ready, Verdict
from simhash_core.verdicts import DuplicateOf, Match, Rejection, RejectionReason, Unique
from streams.kafka.producers import ProducerRecord
from streams.store.entry_batch import Removal, StoreChange
from streams.worker.fingerprint import PendingRecord
from streams.worker.outputs import OutputRules, output_batch
from tests.unit.core.log.made_to_order import CHAIN, Made, packet_of
from tests.unit.documents.samples import FINGERPRINT, NOW_MS, RULES, TAG_RULES, raw

NO_CHANGE = StoreChange(())
MATCH = Match(0, 2, 99, "first", SourcePosition("raw", 1, 5), NOW_MS, 1, False, None)


def arrived(offset: int, key: bytes | None = b"key") -> PendingRecord:
    """A raw record that waits for its verdict."""
    return PendingRecord(SourcePosition("raw", 0, offset), raw(b"value %d" % offset, key))


def packet(*documents: Made, first: int = 7) -> Packet:
    """A packet of documents at the raw offsets from ``first`` on."""
    return packet_of(documents, first=first)


def ready(
    outputs: Sequence[Output[PendingRecord]], next_offset: int, partition: int = 0
) -> ShardReady[PendingRecord]:
    """What a shard has ready, up to an offset."""
    progress = Progress(CHAIN, next_offset, 20, NO_CONTROL)
    return ShardReady(partition, Ready(list(outputs), [], next_offset), progress)


def put_out(
    *outputs: Output[PendingRecord], rules: OutputRules = RULES
) -> tuple[ProducerRecord, ...]:
    """The records of one shard, without that of its progress."""
    batch = asyncio.run(output_batch([ready(outputs, 50)], rules, {0: NO_CHANGE}))
    *records, progress = batch.records
    assert progress.topic == rules.topics.changelog
    return tuple(records)


def test_a_commit_without_outputs_has_offsets_of_every_shard() -> None:
    """Given a shard with an output, one with its position alone, and one with a removal alone, then
    each has the next offset of its progress in the commit: Kafka checks the generation of what it
    gets offsets of, and of nothing else.
    """
    document = Output(arrived(7), Verdict(packet(Made(FINGERPRINT)), 0, None))
    shards = [ready([document], 8), ready([], 41, partition=1), ready([], 300, partition=2)]
    changes = {0: NO_CHANGE, 1: NO_CHANGE, 2: StoreChange((), Removal((), ()), removed=1)}

    batch = asyncio.run(output_batch(shards, RULES, changes))
    idle = asyncio.run(output_batch(shards[1:], RULES, changes))

    assert batch.offsets == {0: 8, 1: 41, 2: 300}
    assert idle.offsets == {1: 41, 2: 300}
    assert [record.partition for record in idle.records] == [1, 2]
    assert (idle.removed, idle.counts()) == (1, {})


def test_what_a_packet_says_is_collected() -> None:
    """Given raw records and their rows in two packets, then each has that document's id, time,
    fingerprint and verdict, whatever it was read as here; an undecidable one has no fingerprint.
    """
    first, second = packet(Made(FINGERPRINT), Made(b"")), packet(Made(FINGERPRINT), first=9)
    waiting = [arrived(7), arrived(8), arrived(9)]
    outputs = [
        Output(waiting[0], Verdict(first, 0, None)),
        Output(waiting[1], Verdict(first, 1, None)),
        Output(waiting[2], Verdict(second, 0, MATCH)),
    ]

    batch = asyncio.run(output_batch([ready(outputs, 10)], RULES, {0: NO_CHANGE}))

    assert [each.document_id for each in waiting] == ["document 7", "document 8", "document 9"]
    assert [each.event_time_ms for each in waiting] == [1_007, 1_008, 1_009]
    assert [each.fingerprint for each in waiting] == [FINGERPRINT, b"", FINGERPRINT]
    assert waiting[0].verdict == Unique()
    assert isinstance(waiting[2].verdict, DuplicateOf)
    assert batch.outputs == waiting
    assert batch.counts() == {"unique": 1, "undecidable": 1, "near_duplicate": 1}
    assert [record.topic for record in batch.records] == [
        *(RULES.topics.unique, RULES.topics.unique, RULES.topics.duplicates),
        RULES.topics.changelog,
    ]
    assert [record.about for record in batch.records] == [*((each.source,) for each in waiting), ()]


def test_the_mask_of_a_scope_is_taken_off() -> None:
    """Given a document with a scope, whose fingerprint the log holds masked, then its output has
    the fingerprint of its text.
    """
    plain = packet(Made(masked(FINGERPRINT, "tenant")))
    scopes = BytesColumn.of([b"tenant"])
    scoped = replace(plain, columns=replace(plain.columns, scopes=scopes))

    (record,) = put_out(Output(arrived(7), Verdict(scoped, 0, None)))

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
def test_deletes(rules: OutputRules, put: bool, topics: list[str]) -> None:
    """Given a delete, then a tombstone follows where the document may have been unique, and always
    where one topic has everything.
    """
    delete = Output(arrived(7), Deleted(packet(Made(b"")), 0, put_out=put))

    records = put_out(delete, rules=rules)

    assert [record.topic for record in records] == topics
    for record in records:
        assert (record.key, record.value) == (b"key", None)
        assert dict(record.headers)["firstseen-id"] == b"document 7"
        assert dict(record.headers)["firstseen-verdict"] == b"deleted"


@pytest.mark.parametrize(
    ("key", "verdicts"), [(b"key", [b"replaced", b"duplicate"]), (None, [b"duplicate"])]
)
def test_a_duplicate_that_replaced_a_unique_document(
    key: bytes | None, verdicts: list[bytes]
) -> None:
    """Given a duplicate whose id was unique before, then a tombstone goes before it, if it has a
    key; where one topic has everything, a header says so.
    """
    decided = Output(arrived(7, key), Verdict(packet(Made(FINGERPRINT)), 0, MATCH, replaced=True))

    records = put_out(decided)
    (tagged,) = put_out(decided, rules=TAG_RULES)

    assert [dict(each.headers)["firstseen-verdict"] for each in records] == verdicts
    assert ("firstseen-replaced" in dict(tagged.headers)) is (key is not None)


def test_records_without_a_verdict() -> None:
    """Given a record that cannot be read, a tombstone without a document, and a document that the
    log holds to be none, then the first and the last become dead letters that say why.
    """
    unreadable, tombstone, otherwise = arrived(7), arrived(8), arrived(9)
    reason = RejectionReason.NOT_JSON
    unreadable.rejection = Rejection(unreadable.source, unreadable.record, reason, "a detail")
    outputs = [
        Output(unreadable, NoVerdict.NO_DOCUMENT),
        Output(tombstone, NoVerdict.NO_DOCUMENT),
        Output(otherwise, NoVerdict.READ_OTHERWISE),
    ]

    batch = asyncio.run(output_batch([ready(outputs, 10)], RULES, {0: NO_CHANGE}))

    assert [each.reason for each in batch.rejections] == [reason, RejectionReason.READING_CHANGED]
    assert [each.about for each in batch.records[:-1]] == [
        (unreadable.source,),
        (otherwise.source,),
    ]
    assert batch.counts() == {"dead_letter": 2}
    assert batch.outputs == []


def test_changelog_records_come_last_and_are_counted() -> None:
    """Given two shards, then the outputs of both stand before the progress of both, and the bytes
    of the changelog are those of its keys and values.
    """
    rows = packet(Made(FINGERPRINT), Made(FINGERPRINT))
    shards = [
        ready([Output(arrived(7), Verdict(rows, 0, None))], 8, partition=3),
        ready([Output(arrived(8), Verdict(rows, 1, None))], 9, partition=1),
    ]

    batch = asyncio.run(output_batch(shards, RULES, {3: NO_CHANGE, 1: NO_CHANGE}))

    assert [record.partition for record in batch.records] == [None, None, 3, 1]
    assert batch.changelog_bytes == sum(record.size for record in batch.records[2:])
    assert all(record.key and not record.about for record in batch.records[2:])
