"""Raw records to packets for the shards: read, fingerprint, address. No state, no Kafka client."""

from __future__ import annotations

from collections.abc import Sequence

from simhash_core.documents import Document, RawRecord, SourcePosition
from simhash_core.fingerprinter import Fingerprinter
from simhash_core.first_visit import first_visit
from simhash_core.placement import Placement
from simhash_core.probes import Message, Packet, Refuse, raw_sender
from simhash_core.rejections import Rejection
from simhash_core.shard import first_partition
from streams.metrics import Metrics
from streams.packing import pack
from streams.raw_documents import DocumentReader, record_bytes

RawInput = tuple[SourcePosition, RawRecord]


class FingerprintStage:
    """The work of the fingerprint agent on the records of one raw partition after another."""

    def __init__(
        self,
        reader: DocumentReader,
        fingerprinter: Fingerprinter,
        placement: Placement,
        packet_limit_bytes: int,
        metrics: Metrics,
    ) -> None:
        """``packet_limit_bytes`` bounds the raw bytes that one packet carries (or one document)."""
        self._reader = reader
        self._fingerprinter = fingerprinter
        self._placement = placement
        self._packet_limit_bytes = packet_limit_bytes
        self._metrics = metrics
        self._topic_ids: dict[str, str] = {}
        self._last_sent: dict[tuple[str, int], int] = {}

    def topic_id(self, topic: str) -> str | None:
        """Return the id that ``identify`` gave last; None where it did not."""
        return self._topic_ids.get(topic)

    def identify(self, topic: str, topic_id: str) -> None:
        """Take the id of a topic, as the broker tells it now."""
        self._topic_ids[topic] = topic_id

    def packets(self, inputs: Sequence[RawInput]) -> list[tuple[int, Packet]]:
        """Return packets with the partition that each is for; offsets of a partition must rise.

        A tombstone (null value under a key) ends here. Raises ``KeyError`` for a topic that was
        never identified.
        """
        read = [(source, record, self._reader.read(source, record)) for source, record in inputs]
        self._metrics.input_bytes(sum(record_bytes(record) for _, record in inputs))
        documents = [item for _, _, item in read if isinstance(item, Document)]
        with self._metrics.stage("fingerprint"):
            made = self._fingerprinter.fingerprint_batch([item.content for item in documents])
        self._placement.prepare(each.fingerprint for each in made)
        prints = iter(made)
        lots: dict[tuple[str, int], list[tuple[int, Message]]] = {}
        for source, record, item in read:
            message: Message
            if isinstance(item, Document):
                visit = first_visit(item, next(prints), record)
                message, target = visit, first_partition(visit.probe, self._placement)
            elif isinstance(item, Rejection):
                # Any fixed choice will do, so long as a raw partition keeps to it.
                message, target = Refuse(item), source.partition % self._placement.partitions
            else:
                continue
            sender = raw_sender(source.topic, source.partition, self._topic_ids[source.topic])
            lots.setdefault((sender, target), []).append((source.offset, message))
        return [
            (target, packet)
            for (sender, target), lot in lots.items()
            for packet in self._pack(sender, target, lot)
        ]

    def _pack(self, sender: str, target: int, lot: list[tuple[int, Message]]) -> list[Packet]:
        after = self._last_sent.get((sender, target), -1)
        if after >= lot[0][0]:
            after = -1  # read again after a rebalance: the chain begins anew
        self._last_sent[sender, target] = lot[-1][0]
        return pack(sender, after, lot, self._packet_limit_bytes)
