"""From the effects of a shard to the records that go out, and the changes that stay."""

from __future__ import annotations

from collections.abc import Iterable

from simhash_core.effects import Effect, Emit, EmitDeadLetter, Remember, Send
from simhash_core.entries import Change
from simhash_core.probes import Message, shard_sender
from simhash_core.verdicts import DuplicateOf
from streams.acked_producer import Outgoing
from streams.output_records import (
    OutputKind,
    OutputRecord,
    dead_letter_record,
    duplicate_record,
    unique_record,
)
from streams.packet_codec import PacketCodec
from streams.packing import pack
from streams.settings import Settings


class Outbox:
    """Collects what one batch of one shard puts out."""

    def __init__(
        self, partition: int, identity: str, bits: int, codec: PacketCodec, settings: Settings
    ) -> None:
        """Begin empty; ``partition`` is that of the shard, the sender of internal messages."""
        self._sender = shard_sender(partition)
        self._identity = identity
        self._bits = bits
        self._codec = codec
        self._settings = settings
        self._topics = {
            OutputKind.UNIQUE: settings.topics.unique,
            OutputKind.DUPLICATE_OF: settings.topics.duplicates,
            OutputKind.DEAD_LETTER: settings.topics.dead_letters,
        }
        self._outputs: list[Outgoing] = []
        self.effects: list[Effect] = []
        self._messages: dict[int, list[tuple[int, Message]]] = {}
        self.changes: list[Change] = []

    def add(self, effects: Iterable[Effect]) -> None:
        """Take in effects, in order."""
        for effect in effects:
            self.effects.append(effect)
            match effect:
                case Emit(probe, DuplicateOf() as verdict):
                    self._output(
                        duplicate_record(
                            probe,
                            verdict,
                            self._identity,
                            self._bits,
                            include_body=self._settings.include_body,
                        )
                    )
                case Emit(probe, verdict):
                    self._output(unique_record(probe, verdict, self._identity))
                case EmitDeadLetter(rejection):
                    self._output(dead_letter_record(rejection))
                case Send(partition, number, message):
                    self._messages.setdefault(partition, []).append((number, message))
                case Remember(change):
                    self.changes.append(change)

    def records(self) -> list[Outgoing]:
        """Return the records to send: outputs first, then packets for other shards."""
        limit = self._settings.batch.packet_bytes
        packets = [
            Outgoing(self._settings.topics.probes, None, self._codec.encode(packet), partition)
            for partition, messages in self._messages.items()
            for packet in pack(self._sender, messages[0][0] - 1, messages, limit)
        ]
        return self._outputs + packets

    def _output(self, record: OutputRecord) -> None:
        self._outputs.append(
            Outgoing(
                self._topics[record.kind],
                record.key,
                record.value,
                None,
                record.timestamp_ms,
                record.headers,
            )
        )
