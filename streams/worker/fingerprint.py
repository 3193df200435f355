"""Fingerprint: turns runs of raw records into batches of documents with fingerprints."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from simhash_core.documents import Document, RawRecord, SourcePosition
from simhash_core.log.columns import DELETED, PacketRows
from simhash_core.log.shard_stream import RawBatch
from simhash_core.text.fingerprinter import Fingerprinted, Fingerprinter
from simhash_core.verdicts import Rejection, Verdict
from streams.documents.raw_documents import DocumentReader, Tombstone, record_bytes
from streams.kafka.headers import headers_of
from streams.monitoring.metrics import Metrics

if TYPE_CHECKING:
    from confluent_kafka import Message

    from streams.kafka.raw_consumer import RawRecords
    from streams.worker.traces import DocumentTraces

# Memory per waiting record beyond its own bytes: columns, Python objects.
_OVERHEAD_BYTES: Final = 600

_TOGETHER: Final = 200  # documents fingerprinted per step of the event loop, about 30 ms


class PendingRecord(msgspec.Struct, gc=False, eq=False):
    """A raw record from its poll to its output, with its verdict once the log has one."""

    source: SourcePosition
    record: RawRecord
    rejection: Rejection | None = None  # why it cannot be read
    document_id: str = ""
    event_time_ms: int = 0
    fingerprint: bytes = b""  # empty for an undecidable document
    verdict: Verdict | None = None


_Read = tuple[PendingRecord, Document | Tombstone | None]
"""A raw record and its content; the content is None if it cannot be read."""


class RawBatches:
    """Reads raw records into batches; ``batch_bytes`` limits the columns of one batch."""

    def __init__(
        self,
        topic: str,
        reader: DocumentReader,
        fingerprinter: Fingerprinter,
        batch_bytes: int,
        metrics: Metrics,
        traces: DocumentTraces | None = None,
    ) -> None:
        self._topic = topic
        self.traces = traces
        self._reader = reader
        self._fingerprinter = fingerprinter
        self._batch_bytes = batch_bytes
        self._metrics = metrics
        self._words = fingerprinter.scheme.words

    async def read(
        self, records: Sequence[RawRecords]
    ) -> list[tuple[int, RawBatch[PendingRecord]]]:
        """Return batches, each with its partition, in order within each partition.

        A record that cannot be read has no row. The event loop gets turns in between.
        """
        with self._metrics.stage("read"):
            read = [[self._read(message) for message in run.messages] for run in records]
        documents = [item for run in read for _, item in run if isinstance(item, Document)]
        prints: list[Fingerprinted] = []
        while len(prints) < len(documents):
            if prints:
                await asyncio.sleep(0)
            part = documents[len(prints) : len(prints) + _TOGETHER]
            with self._metrics.stage("fingerprint"):
                prints += self._fingerprinter.fingerprint_batch([each.content for each in part])
        rest = iter(prints)
        batches = []
        for number, (run, items) in enumerate(zip(records, read, strict=True), start=1):
            batches += [(run.partition, part) for part in self._parts(items, rest)]
            if number % _TOGETHER == 0:
                await asyncio.sleep(0)
        return batches

    def _read(self, message: Message) -> _Read:
        source = SourcePosition(self._topic, message.partition() or 0, message.offset() or 0)
        headers = headers_of(message)
        record = RawRecord(message.key(), message.value(), message.timestamp()[1], headers or ())
        if record.headers and self.traces is not None:
            record = self.traces.begin(source, record)
        if headers is None:
            return PendingRecord(source, record, self._reader.without_headers(source, record)), None
        item = self._reader.read(source, record)
        if isinstance(item, Rejection):
            return PendingRecord(source, record, item), None
        return PendingRecord(source, record), item

    def _parts(
        self, items: Sequence[_Read], prints: Iterator[Fingerprinted]
    ) -> Iterator[RawBatch[PendingRecord]]:
        """Split a run where its columns would exceed the limit."""
        pending: list[PendingRecord] = []
        rows = PacketRows(self._words)
        size = 0
        for each, item in items:
            if item is not None:
                fingerprinted = next(prints) if isinstance(item, Document) else DELETED
                document_id = item.id if isinstance(item, Document) else item.document_id
                more = len(document_id) + len(fingerprinted.sketch) + len(fingerprinted.fingerprint)
                if len(rows) and size + more > self._batch_bytes:
                    yield self._batch(pending, rows)
                    pending, rows, size = [], PacketRows(self._words), 0
                size += more
                if isinstance(item, Document):
                    rows.add_document(item, fingerprinted)
                else:
                    rows.add_delete(item.source, document_id, item.record.timestamp_ms)
            pending.append(each)
        if pending:
            yield self._batch(pending, rows)

    def _batch(self, pending: list[PendingRecord], rows: PacketRows) -> RawBatch[PendingRecord]:
        sizes = [record_bytes(each.record) for each in pending]
        self._metrics.input_bytes(sum(sizes))
        return RawBatch(
            pending,
            [each.source.offset for each in pending],
            rows.columns(),
            pending[-1].source.offset,
            sum(sizes) + _OVERHEAD_BYTES * len(pending),
        )
