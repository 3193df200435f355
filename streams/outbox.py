"""From the effects of a shard to the records that go out, and the changes that stay."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from simhash_core.documents import SourcePosition
from simhash_core.effects import Effect, Emit, EmitDeadLetter, Remember, Send
from simhash_core.entries import Change
from simhash_core.probes import Message, Packet, Probe, shard_sender
from simhash_core.verdicts import DuplicateOf, Undecidable, Unique
from streams.acked_producer import Outgoing
from streams.output.output_records import (
    Arrival,
    OutputKind,
    OutputRecord,
    dead_letter_record,
    duplicate_record,
    unique_record,
)
from streams.packet_codec import PacketCodec
from streams.packing import pack, sources_of


@dataclass(frozen=True, slots=True)
class OutboxRules:
    """How effects become records: the same for all shards of a worker."""

    identity: str
    bits: int
    codec: PacketCodec
    output_topics: Mapping[OutputKind, str]
    probes_topic: str
    packet_bytes: int
    include_body: bool


class Outbox:
    """Collects what one batch of one shard puts out."""

    def __init__(self, partition: int, rules: OutboxRules) -> None:
        """Begin empty; ``partition`` is that of the shard, the sender of internal messages."""
        self._sender = shard_sender(partition)
        self._rules = rules
        self._outputs: list[Outgoing] = []
        self._messages: dict[int, list[tuple[int, Message]]] = {}
        self.effects: list[Effect] = []
        self.changes: list[Change] = []

    def add(self, effects: Iterable[Effect]) -> None:
        """Take in effects, in order."""
        rules = self._rules
        for effect in effects:
            self.effects.append(effect)
            match effect:
                case Emit(probe, DuplicateOf() as verdict):
                    self._output(
                        duplicate_record(
                            _arrival(probe),
                            verdict,
                            rules.identity,
                            rules.bits,
                            include_body=rules.include_body,
                        ),
                        probe.source,
                    )
                case Emit(probe, (Unique() | Undecidable()) as verdict):
                    self._output(
                        unique_record(_arrival(probe), verdict, rules.identity), probe.source
                    )
                case EmitDeadLetter(rejection):
                    self._output(dead_letter_record(rejection), rejection.source)
                case Send(partition, number, message):
                    self._messages.setdefault(partition, []).append((number, message))
                case Remember(change):
                    self.changes.append(change)

    def records(self) -> list[Outgoing]:
        """Return the records to send: outputs first, then packets for other shards."""
        rules = self._rules
        packets = [
            packet_record(packet, partition, rules)
            for partition, messages in self._messages.items()
            for packet in pack(self._sender, messages[0][0] - 1, messages, rules.packet_bytes)
        ]
        return self._outputs + packets

    def _output(self, record: OutputRecord, source: SourcePosition) -> None:
        topic = self._rules.output_topics[record.kind]
        key, value, time_ms, headers = record.key, record.value, record.timestamp_ms, record.headers
        self._outputs.append(Outgoing(topic, key, value, None, time_ms, headers, (source,)))


def _arrival(probe: Probe) -> Arrival:
    return Arrival(
        probe.record, probe.source, probe.document_id, probe.event_time_ms, probe.fingerprint
    )


def packet_record(packet: Packet, partition: int, rules: OutboxRules) -> Outgoing:
    """Return the record that carries a packet to the shard of a partition."""
    value = rules.codec.encode(packet)
    return Outgoing(rules.probes_topic, None, value, partition, about=sources_of(packet))
