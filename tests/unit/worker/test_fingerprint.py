"""Raw records become batches of documents with fingerprints, each from one partition."""

from __future__ import annotations

import asyncio
import json

from confluent_kafka import Message
from prometheus_client import CollectorRegistry

from simhash_core.document_columns import DELETE, DOCUMENT
from simhash_core.documents import RawRecord, SourcePosition
from simhash_core.log.shard_stream import RawBatch
from simhash_core.text.fingerprinter import Fingerprinter
from simhash_core.verdicts import RejectionReason
from streams.documents.raw_documents import DocumentReader
from streams.kafka.raw_consumer import RawRecords, message_bytes
from streams.monitoring.metrics import Metrics
from streams.settings.settings import Settings
from streams.worker.fingerprint import PendingRecord, RawBatches
from tests.unit.documents.samples import DEFAULT_FIELDS, NOW_MS

FINGERPRINTER = Fingerprinter(Settings().index_profile())
TEXT = (
    "The ferry to the northern islands is cancelled today because of strong winds and high waves. "
    "Passengers may use their tickets on any later crossing this week, or ask for their money back "
    "at the harbour office, which stays open until the last boat has returned from the mainland."
)


def message(offset: int, value: bytes | None, key: bytes | None = None) -> Message:
    return Message(
        topic="raw",
        partition=3,
        offset=offset,
        key=key,
        value=value,
        timestamp=(1, NOW_MS + offset),
        headers=[("trace", b"7f"), ("empty", None)],
    )


def document(offset: int, text: str = TEXT) -> Message:
    value = json.dumps({"id": f"d{offset}", "text": f"{text} {offset}"}).encode()
    return message(offset, value, b"k%d" % offset)


def read(
    *messages: Message, batch_bytes: int = 1 << 20, metrics: Metrics | None = None
) -> list[RawBatch[PendingRecord]]:
    batches = RawBatches(
        "raw",
        DocumentReader(DEFAULT_FIELDS),
        FINGERPRINTER,
        batch_bytes,
        metrics or Metrics(CollectorRegistry()),
    )
    run = RawRecords(3, 1, list(messages), sum(map(message_bytes, messages)))
    partitions, parts = zip(*asyncio.run(batches.read([run])), strict=True)
    assert set(partitions) == {3}
    return list(parts)


def test_each_record_waits_and_each_document_has_a_row() -> None:
    metrics = Metrics(CollectorRegistry())
    came = [document(4), message(6, b"{"), message(7, None, b"gone"), message(9, None)]

    (batch,) = read(*came, metrics=metrics)

    headers = (("trace", b"7f"), ("empty", None))
    assert [each.source for each in batch.records] == [
        SourcePosition("raw", 3, offset) for offset in (4, 6, 7, 9)
    ]
    assert [each.record for each in batch.records] == [
        RawRecord(each.key(), each.value(), NOW_MS + (each.offset() or 0), headers) for each in came
    ]
    assert [each.rejection and each.rejection.reason for each in batch.records] == [
        *(None, RejectionReason.NOT_JSON, None, RejectionReason.NULL_VALUE),
    ]
    assert all(each.verdict is None for each in batch.records)
    assert (batch.offsets, batch.last) == ([4, 6, 7, 9], 9)
    columns = batch.columns
    assert columns.offsets.tolist() == [4, 7]
    assert [*columns.ids] == [b"d4", b"gone"]
    assert columns.operations is not None
    assert columns.operations.tolist() == [DOCUMENT, DELETE]
    assert not columns.undecidable[0]
    size = metrics.registry.get_sample_value("firstseen_input_bytes_total")
    assert size is not None
    assert batch.size > size > 0


def test_a_run_is_split_where_its_columns_outgrow_a_packet() -> None:
    came = [document(0), message(1, b"{"), document(2), document(3), document(4), message(5, b"{")]
    (whole,) = read(*came)
    rows = len(whole.columns)
    row_bytes = (len(whole.columns.sketches.joined) + whole.columns.fingerprints.nbytes) // rows
    pairs = read(*came, batch_bytes=2 * row_bytes + 10)
    single = read(*came, batch_bytes=1)
    (without_rows,) = read(message(1, b"{"), message(2, b"[]"))
    assert [batch.columns.offsets.tolist() for batch in pairs] == [[0, 2], [3, 4]]
    assert [batch.offsets for batch in pairs] == [[0, 1, 2], [3, 4, 5]]
    assert [batch.last for batch in pairs] == [2, 5]
    assert [batch.offsets for batch in single] == [[0, 1], [2], [3], [4, 5]]
    assert sum(batch.size for batch in pairs) == whole.size
    assert (without_rows.offsets, len(without_rows.columns)) == ([1, 2], 0)
