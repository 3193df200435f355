"""Packing: many messages to a record, since Kafka, Faust and Python all charge by the record."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from simhash_core.documents import SourcePosition
from simhash_core.probes import Message, Packet, Refuse, Visit
from streams.raw_documents import record_bytes

_MESSAGE_BYTES: Final = 128
"""What a message weighs at the least: numbers, digest, framing."""

_PASSED_BYTES: Final = 5
_DETAIL_BYTES: Final = 1024


def weight_bytes(message: Message) -> int:
    """Return about how many bytes a message takes in a packet."""
    match message:
        case Visit(probe, passed):
            names = len(probe.document_id.encode()) + len(probe.source.topic)
            own = len(probe.fingerprint) + names + _PASSED_BYTES * len(passed)
            return _MESSAGE_BYTES + own + record_bytes(probe.record)
        case Refuse(rejection):
            return _MESSAGE_BYTES + _DETAIL_BYTES + record_bytes(rejection.record)
        case _:
            return _MESSAGE_BYTES


def pack(
    sender: str, after: int, messages: Iterable[tuple[int, Message]], limit_bytes: int
) -> list[Packet]:
    """Pack the messages of one sender to one shard, each packet up to ``limit_bytes``.

    A message larger than the limit has a packet to itself. ``after``: the number sent before.
    """
    packets: list[Packet] = []
    lot: list[tuple[int, Message]] = []
    held_bytes = 0
    for number, message in messages:
        size_bytes = weight_bytes(message)
        if lot and held_bytes + size_bytes > limit_bytes:
            packets.append(Packet(sender, after, tuple(lot)))
            after, lot, held_bytes = lot[-1][0], [], 0
        lot.append((number, message))
        held_bytes += size_bytes
    if lot:
        packets.append(Packet(sender, after, tuple(lot)))
    return packets


def sources_of(packet: Packet) -> list[SourcePosition]:
    """Return the raw records that a packet carries."""
    found = []
    for _, message in packet.messages:
        match message:
            case Visit(probe):
                found.append(probe.source)
            case Refuse(rejection):
                found.append(rejection.source)
    return found
