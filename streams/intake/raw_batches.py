"""Raw records to batches of documents with fingerprints, one batch for a run of one partition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from simhash_core.documents import Document, RawRecord, SourcePosition
from simhash_core.log.columns import document_columns
from simhash_core.log.shard_stream import RawBatch
from simhash_core.rejections import Rejection, RejectionReason
from simhash_core.text.fingerprinter import Fingerprinted, Fingerprinter
from streams.documents.raw_documents import DocumentReader, record_bytes
from streams.intake.raw_records import RawRecords
from streams.monitoring.metrics import Metrics

if TYPE_CHECKING:
    from confluent_kafka import Message

_OVERHEAD_BYTES: Final = 600
"""What a record that waits weighs beside its own bytes: columns and Python's objects, roughly."""

_WORD_BITS: Final = 64
_READ_OTHERWISE: Final = (
    "the worker that sent this record's packet to the log did not read it as a document, and this "
    "one does: the settings by which records are read changed while it was under way; replay it "
    "with 'firstseen dlq replay'"
)


class RawArrival(NamedTuple):
    """A raw record that waits. ``rejection``: why it cannot be read; None for all others."""

    source: SourcePosition
    record: RawRecord
    rejection: Rejection | None

    def read_otherwise(self) -> Rejection:
        """Return the rejection of a document that the log holds to be none."""
        return Rejection(self.source, self.record, RejectionReason.READING_CHANGED, _READ_OTHERWISE)


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

        A record without a document (it cannot be read, or is a tombstone) has no row in them.
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

    def _read(self, message: Message) -> tuple[RawArrival, Document | None]:
        source = SourcePosition(self._topic, message.partition() or 0, message.offset() or 0)
        record = RawRecord(
            message.key(),
            message.value(),
            message.timestamp()[1],
            tuple(cast("list[tuple[str, bytes | None]]", message.headers() or ())),
        )
        item = self._reader.read(source, record)
        if isinstance(item, Document):
            return RawArrival(source, record, None), item
        return RawArrival(source, record, item if isinstance(item, Rejection) else None), None

    def _parts(
        self,
        items: Sequence[tuple[RawArrival, Document | None]],
        prints: Iterator[Fingerprinted],
    ) -> Iterator[RawBatch[RawArrival]]:
        """Split a run where its columns would outgrow a packet."""
        arrivals: list[RawArrival] = []
        documents: list[Document] = []
        fingerprints: list[Fingerprinted] = []
        size = 0
        for arrival, document in items:
            if document is not None:
                made = next(prints)
                more = len(document.id) + len(made.sketch) + len(made.fingerprint)
                if documents and size + more > self._packet_bytes:
                    yield self._batch(arrivals, documents, fingerprints)
                    arrivals, documents, fingerprints, size = [], [], [], 0
                size += more
                documents.append(document)
                fingerprints.append(made)
            arrivals.append(arrival)
        if arrivals:
            yield self._batch(arrivals, documents, fingerprints)

    def _batch(
        self,
        arrivals: list[RawArrival],
        documents: list[Document],
        fingerprints: list[Fingerprinted],
    ) -> RawBatch[RawArrival]:
        sizes = [record_bytes(arrival.record) for arrival in arrivals]
        self._metrics.input_bytes(sum(sizes))
        return RawBatch(
            arrivals,
            [arrival.source.offset for arrival in arrivals],
            document_columns(documents, fingerprints, self._words),
            arrivals[-1].source.offset,
            sum(sizes) + _OVERHEAD_BYTES * len(arrivals),
        )
