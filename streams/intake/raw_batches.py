"""Raw records to batches of documents with fingerprints, one batch for a run of one partition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from simhash_core.documents import Document, RawRecord, SourcePosition
from simhash_core.log.columns import DELETED, PacketRows
from simhash_core.log.outputs import RawBatch
from simhash_core.rejections import Rejection, RejectionReason
from simhash_core.text.fingerprinter import Fingerprinted, Fingerprinter
from streams.documents.raw_documents import DocumentReader, Tombstone, record_bytes
from streams.intake.raw_records import RawRecords
from streams.monitoring.metrics import Metrics

if TYPE_CHECKING:
    from confluent_kafka import Message

_OVERHEAD_BYTES: Final = 600
"""What a record that waits weighs beside its own bytes: columns and Python's objects, roughly."""

_WORD_BITS: Final = 64
_READ_OTHERWISE: Final = (
    "an earlier worker with other reading settings did not read this record as a document, but "
    "this one does: the settings changed while it was in flight; replay it with 'firstseen dlq "
    "replay'"
)


class RawArrival(NamedTuple):
    """A raw record that waits. ``rejection``: why it cannot be read; None for all others."""

    source: SourcePosition
    record: RawRecord
    rejection: Rejection | None

    def read_otherwise(self) -> Rejection:
        """Return the rejection of a document that the log holds to be none."""
        return Rejection(self.source, self.record, RejectionReason.READING_CHANGED, _READ_OTHERWISE)


_Read = tuple[RawArrival, Document | Tombstone | None]
"""A raw record and what it is read as; None for one that cannot be read."""


class RawBatches:
    """Reads and fingerprints raw records. No state, no Kafka client."""

    def __init__(
        self,
        topic: str,
        reader: DocumentReader,
        fingerprinter: Fingerprinter,
        packet_bytes: int,
        metrics: Metrics,
    ) -> None:
        """``packet_bytes`` bounds the columns of one batch; one document may exceed it."""
        self._topic = topic
        self._reader = reader
        self._fingerprinter = fingerprinter
        self._packet_bytes = packet_bytes
        self._metrics = metrics
        self._words = fingerprinter.scheme.bits // _WORD_BITS

    def read(self, records: Sequence[RawRecords]) -> Iterator[tuple[int, RawBatch[RawArrival]]]:
        """Yield batches with the partition of each, those of a partition in order.

        A record that cannot be read has no row in them.
        """
        with self._metrics.stage("read"):
            read = [[self._read(message) for message in run.messages] for run in records]
        documents = [item for run in read for _, item in run if isinstance(item, Document)]
        with self._metrics.stage("fingerprint"):
            prints = iter(
                self._fingerprinter.fingerprint_batch([each.content for each in documents])
            )
        for run, items in zip(records, read, strict=True):
            for part in self._parts(items, prints):
                yield run.partition, part

    def _read(self, message: Message) -> _Read:
        source = SourcePosition(self._topic, message.partition() or 0, message.offset() or 0)
        headers = cast("list[tuple[str, bytes | None]] | None", message.headers())
        record = RawRecord(
            message.key(), message.value(), message.timestamp()[1], tuple(headers or ())
        )
        item = self._reader.read(source, record)
        if isinstance(item, Rejection):
            return RawArrival(source, record, item), None
        return RawArrival(source, record, None), item

    def _parts(
        self, items: Sequence[_Read], prints: Iterator[Fingerprinted]
    ) -> Iterator[RawBatch[RawArrival]]:
        """Split a run where its columns would outgrow a packet."""
        arrivals: list[RawArrival] = []
        rows = PacketRows(self._words)
        size = 0
        for arrival, item in items:
            if item is not None:
                fingerprinted = next(prints) if isinstance(item, Document) else DELETED
                document_id = item.id if isinstance(item, Document) else item.document_id
                more = len(document_id) + len(fingerprinted.sketch) + len(fingerprinted.fingerprint)
                if len(rows) and size + more > self._packet_bytes:
                    yield self._batch(arrivals, rows)
                    arrivals, rows, size = [], PacketRows(self._words), 0
                size += more
                if isinstance(item, Document):
                    rows.add_document(item, fingerprinted)
                else:
                    rows.add_delete(item.source, document_id, item.record.timestamp_ms)
            arrivals.append(arrival)
        if arrivals:
            yield self._batch(arrivals, rows)

    def _batch(self, arrivals: list[RawArrival], rows: PacketRows) -> RawBatch[RawArrival]:
        sizes = [record_bytes(arrival.record) for arrival in arrivals]
        self._metrics.input_bytes(sum(sizes))
        return RawBatch(
            arrivals,
            [arrival.source.offset for arrival in arrivals],
            rows.columns(),
            arrivals[-1].source.offset,
            sum(sizes) + _OVERHEAD_BYTES * len(arrivals),
        )
