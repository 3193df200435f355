"""Bytes of log records and reports (docs/formats.md, "Log" and "Reports").

A record begins with 18 bytes: version, kind, and the digest of the index's identity. So a reader
can skip a record of another index before it decodes anything. The rest is MessagePack; documents
are columns (``streams.store.columns_codec``).
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

import msgspec

from simhash_core.errors import ErrorReason, FirstseenError, ProtocolError
from simhash_core.log.records import (
    NO_OFFSET,
    Chain,
    Control,
    Decision,
    LogRecord,
    Packet,
    Query,
    Report,
    Sender,
)
from streams.store.columns_codec import ColumnsError, EncodedColumns, decode_columns, encode_columns

LOG_VERSION: Final = 2
IDENTITY_DIGEST_BYTES: Final = 16

PACKET: Final = b"P"
QUERY: Final = b"Q"
CONTROL: Final = b"C"
REPORT: Final = b"R"

_HEAD_BYTES: Final = 2
_BODY_AT: Final = _HEAD_BYTES + IDENTITY_DIGEST_BYTES


class LogDecodeError(ProtocolError):
    """This version cannot read a log record or a report; the message names it."""


class LogVersionError(LogDecodeError):
    """A record of another format version; none may skip it, because other readers act on it."""


class OtherIndexError(FirstseenError):
    """A record of an index with another identity; readers skip it."""

    reason = ErrorReason.FORMAT


class _PacketBody(msgspec.Struct, frozen=True, array_like=True):
    chain: Chain
    sender: Sender
    previous: int
    last: int
    columns: EncodedColumns


class _QueryBody(msgspec.Struct, frozen=True, array_like=True):
    identifier: str
    limit: int
    columns: EncodedColumns


class _TopicHeads(msgspec.Struct, frozen=True, array_like=True):
    """Heads of the chains of one topic, so that the topic is named once."""

    topic: str
    topic_id: str
    partitions: list[int]
    last: list[int]


class _ControlBody(msgspec.Struct, frozen=True, array_like=True):
    previous: int
    leader: str
    leads: bool
    decisions: list[Decision]
    heads: list[_TopicHeads]
    next: int


def identity_digest(identity: str) -> bytes:
    """Return the digest of an index's identity that is in each record, 16 bytes."""
    return blake2b(identity.encode(), digest_size=IDENTITY_DIGEST_BYTES).digest()


class LogCodec:
    def __init__(self, identity: str) -> None:
        self._digest = identity_digest(identity)
        self._encode = msgspec.msgpack.Encoder().encode
        self._packet = msgspec.msgpack.Decoder(_PacketBody)
        self._query = msgspec.msgpack.Decoder(_QueryBody)
        self._control = msgspec.msgpack.Decoder(_ControlBody)
        self._report = msgspec.msgpack.Decoder(Report)

    def encode(self, record: LogRecord) -> bytes:
        match record:
            case Packet(chain, sender, previous, last, columns):
                body = _PacketBody(chain, sender, previous, last, encode_columns(columns))
                return self._framed(PACKET, body)
            case Query():
                encoded = encode_columns(record.columns)
                return self._framed(QUERY, _QueryBody(record.identifier, record.limit, encoded))
            case Control():
                return self._framed(CONTROL, _control_body(record))

    def decode(self, value: bytes | None, where: str) -> LogRecord:
        """Return the log record in a value; ``where`` names it in errors.

        Raises ``OtherIndexError`` for another index, ``LogVersionError`` for another format
        version, ``LogDecodeError`` for anything else that is no log record.
        """
        kind, body = self._opened(value, where)
        try:
            match kind:
                case b"P":
                    return _packet(self._packet.decode(body))
                case b"Q":
                    return _query(self._query.decode(body))
                case b"C":
                    return _control(self._control.decode(body))
        except (msgspec.DecodeError, UnicodeDecodeError, ColumnsError) as error:
            raise _damaged(where, error) from error
        raise LogDecodeError(f"the log record {where} is of an unknown kind: {kind.hex()}")

    def encode_report(self, report: Report) -> bytes:
        return self._framed(REPORT, report)

    def decode_report(self, value: bytes | None, where: str) -> Report:
        """Return the report in a value; raises what ``decode`` raises."""
        kind, body = self._opened(value, where)
        if kind != REPORT:
            raise LogDecodeError(f"the report {where} is of an unknown kind: {kind.hex()}")
        try:
            return self._report.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise _damaged(where, error) from error

    def _framed(self, kind: bytes, body: msgspec.Struct) -> bytes:
        return b"".join((bytes((LOG_VERSION,)), kind, self._digest, self._encode(body)))

    def _opened(self, value: bytes | None, where: str) -> tuple[bytes, memoryview]:
        if value is None or len(value) < _BODY_AT:
            raise LogDecodeError(
                f"the record {where} is no record of the log: who else writes to this topic?"
            )
        if value[0] != LOG_VERSION:
            raise LogVersionError(
                f"the record {where} has format version {value[0]}, this program reads "
                f"{LOG_VERSION}: use the program that wrote it, or a newer one"
            )
        if value[_HEAD_BYTES:_BODY_AT] != self._digest:
            raise OtherIndexError(
                f"the record {where} is of an index with other settings: identity digest "
                f"{value[_HEAD_BYTES:_BODY_AT].hex()}, and here it is {self._digest.hex()}"
            )
        return value[1:_HEAD_BYTES], memoryview(value)[_BODY_AT:]


def _packet(body: _PacketBody) -> Packet:
    columns = decode_columns([body.columns])
    if not NO_OFFSET <= body.previous < body.last:
        raise ColumnsError(f"a packet from offset {body.previous} to {body.last}")
    offsets = columns.offsets
    if len(offsets) and not body.previous < offsets[0] <= offsets[-1] <= body.last:
        raise ColumnsError(f"documents beyond the offsets {body.previous} to {body.last}")
    return Packet(body.chain, body.sender, body.previous, body.last, columns)


def _query(body: _QueryBody) -> Query:
    columns = decode_columns([body.columns])
    if len(columns) != 1:
        raise ColumnsError(f"a query about {len(columns)} documents")
    return Query(body.identifier, body.limit, columns)


def _control_body(control: Control) -> _ControlBody:
    by_topic: dict[tuple[str, str], _TopicHeads] = {}
    for chain, last in control.heads:
        name = chain.topic, chain.topic_id
        heads = by_topic.setdefault(name, _TopicHeads(*name, [], []))
        heads.partitions.append(chain.partition)
        heads.last.append(last)
    topics = list(by_topic.values())
    return _ControlBody(
        control.previous, control.leader, control.leads, control.decisions, topics, control.next
    )


def _control(body: _ControlBody) -> Control:
    heads: list[tuple[Chain, int]] = []
    for each in body.heads:
        if len(each.partitions) != len(each.last):
            raise ColumnsError(f"{len(each.partitions)} chains with {len(each.last)} heads")
        heads += [
            (Chain(each.topic, each.topic_id, partition), last)
            for partition, last in zip(each.partitions, each.last, strict=True)
        ]
    return Control(body.previous, body.leader, body.leads, body.decisions, heads, body.next)


def _damaged(where: str, error: Exception) -> LogDecodeError:
    return LogDecodeError(
        f"the record {where} is damaged: {error}. The topic is internal; no other program may "
        "write to it"
    )
