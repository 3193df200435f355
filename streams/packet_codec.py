"""Packets to bytes and back: the values of the probes topic (docs/formats.md, "Probes").

One byte of format version, then a MessagePack array: index identity, number of partitions, sender,
number before, messages. Identity and partitions come first, so that a mismatch is found and named
before anything that depends on them is read.
"""

from __future__ import annotations

from typing import Final

import msgspec

from simhash_core.errors import FirstseenError, IndexMismatchError
from simhash_core.probes import Packet

PACKET_VERSION: Final = 2


class PacketFormatError(FirstseenError):
    """A value on the probes topic that this version cannot read."""


class _Framed(msgspec.Struct, frozen=True, gc=False, array_like=True):
    identity: str
    partitions: int
    packet: Packet


class PacketCodec:
    """Encodes and decodes the packets of one index."""

    def __init__(self, identity: str, partitions: int) -> None:
        """Both stand in every packet that is encoded, and are demanded of every one decoded."""
        self._identity = identity
        self._partitions = partitions
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(_Framed)

    def encode(self, packet: Packet) -> bytes:
        """Return the value of a probes record."""
        framed = _Framed(self._identity, self._partitions, packet)
        return bytes((PACKET_VERSION,)) + self._encoder.encode(framed)

    def decode(self, value: bytes | None, where: str) -> Packet:
        """Return the packet in the value of a probes record; ``where`` names it in errors.

        Raises ``PacketFormatError`` for an unknown version or damaged bytes, ``IndexMismatchError``
        for a packet of another index or another number of partitions.
        """
        if not value:
            raise PacketFormatError(
                f"the probes record {where} has no value: who else writes here?"
            )
        if value[0] != PACKET_VERSION:
            raise PacketFormatError(
                f"the probes record {where} has format version {value[0]}, this program reads "
                f"{PACKET_VERSION}: finish the upgrade of all workers, or go back to the newer one"
            )
        try:
            framed = self._decoder.decode(memoryview(value)[1:])
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise PacketFormatError(
                f"the probes record {where} is damaged: {error}. The probes topic is internal; "
                "no other program may write to it"
            ) from error
        if framed.identity != self._identity:
            raise IndexMismatchError(f"the probes record {where}", framed.identity, self._identity)
        if framed.partitions != self._partitions:
            raise PacketFormatError(
                f"the probes record {where} was made for {framed.partitions} partitions, the topic "
                f"has {self._partitions}: partitions of the probes topic cannot be added in place"
            )
        return framed.packet
