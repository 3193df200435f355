"""Encodes and decodes log records and reports (docs/formats.md, "Log" and "Reports").

A record of any version begins with 18 bytes: version, kind, and the digest of the index's identity.
So a reader can skip a record of another index before it decodes the rest, which is MessagePack.
Documents are columns (``streams.store.columns_codec``). A reader ignores unknown fields at the end.
``simhash_core.log.versions`` says which version is written when.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import blake2b
from itertools import groupby, pairwise
from typing import Annotated, Final, Generic, NamedTuple, TypeVar

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from simhash_core.document_columns import DocumentColumns
from simhash_core.errors import ErrorReason, FirstseenError, ProtocolError
from simhash_core.fingerprints.blocks import BlockScheme
from simhash_core.index.prints import with_bands
from simhash_core.log import versions
from simhash_core.log.records import (
    NO_OFFSET,
    Bundle,
    BundleSegment,
    Chain,
    ChainHeads,
    Control,
    Decision,
    LogRecord,
    Query,
    Report,
    Standbys,
)
from simhash_core.log.versions import UnreadableVersionError
from streams.store.columns_codec import (
    DECODE_ERRORS,
    ColumnsError,
    EncodedColumns,
    EncodedNumbers,
    decode_columns,
    decode_numbers,
    encode_columns,
    encode_numbers,
)

VERSION_BYTES: Final = {4: 3, 5: 5}
"""The first byte of records by version; records of version 4 had a separate numbering."""
_VERSION_OF: Final = {byte: version for version, byte in VERSION_BYTES.items()}

IDENTITY_DIGEST_BYTES: Final = 16

BUNDLE: Final = b"B"
QUERY: Final = b"Q"
CONTROL: Final = b"C"
REPORT: Final = b"R"

_INT64_MAX: Final = (1 << 63) - 1
_HEAD_BYTES: Final = 2
_BODY_AT: Final = _HEAD_BYTES + IDENTITY_DIGEST_BYTES


class LogDecodeError(ProtocolError):
    """A log record or a report cannot be read by this release; the message names it."""


class OtherIndexError(FirstseenError):
    """The record is of an index with another identity; readers skip it."""

    reason = ErrorReason.FORMAT


class _Segment(NamedTuple):
    topic: Annotated[int, Meta(ge=0)]  # index in the bundle's list
    partition: Annotated[int, Meta(ge=0, le=_INT64_MAX)]
    number: Annotated[int, Meta(ge=0, le=_INT64_MAX)]
    previous: Annotated[int, Meta(ge=NO_OFFSET)]
    last: Annotated[int, Meta(le=_INT64_MAX)]
    rows: Annotated[int, Meta(ge=1)]


class _BundleBody(msgspec.Struct, frozen=True, array_like=True):
    """A bundle; raw offsets in ``columns`` count from the one after the segment's ``previous``."""

    worker: str
    topics: list[tuple[str, str]]  # names and ids
    segments: Annotated[list[_Segment], Meta(min_length=1)]
    columns: EncodedColumns


class _BundleStart(msgspec.Struct, frozen=True, array_like=True):
    worker: str


class _ControlStart(msgspec.Struct, frozen=True, array_like=True):
    previous: int
    leader: str


class _QueryBody(msgspec.Struct, frozen=True, array_like=True):
    identifier: str
    limit: int
    columns: EncodedColumns


class _TopicChains(msgspec.Struct, frozen=True, array_like=True):
    """The chains of one topic, so that its name is written only once."""

    topic: str
    topic_id: str
    chains: Annotated[int, Meta(ge=0)]
    partitions: EncodedNumbers


class _ControlBody(msgspec.Struct, frozen=True, array_like=True):
    previous: int
    leader: str
    leads: bool
    decisions: list[Decision]
    chains: bytes  # ``_TopicChains``; readers need not decode them again while they are the same
    heads: EncodedNumbers
    next: int
    version: int = versions.OLDEST


class _StandbysControlBody(_ControlBody, frozen=True, array_like=True, kw_only=True):
    """The form of control records from version 5 on."""

    standbys: bytes  # ``Standbys``, which seldom change


class _DecidingControlBody(_ControlBody, frozen=True, array_like=True, kw_only=True):
    """The form of those with decisions, except from older releases."""

    checksums: tuple[int, ...] = ()


class _DecidingStandbysControlBody(
    _StandbysControlBody, frozen=True, array_like=True, kw_only=True
):
    """The same from version 5 on."""

    checksums: tuple[int, ...] = ()


def identity_digest(identity: str) -> bytes:
    return blake2b(identity.encode(), digest_size=IDENTITY_DIGEST_BYTES).digest()


def version_of(value: bytes | None) -> int:
    """Return the version of a record; 0 if it has none."""
    if not value or value[0] == versions.OLDEST:  # no record begins with that byte
        return 0
    return _VERSION_OF.get(value[0], value[0])


def writer_of(value: bytes | None) -> str | None:
    """Return who appended a bundle or control record of any index; None for other records."""
    kind, body = (value or b"")[1:_HEAD_BYTES], memoryview(value or b"")[_BODY_AT:]
    try:
        if kind == BUNDLE:
            return msgspec.msgpack.decode(body, type=_BundleStart).worker
        if kind == CONTROL:
            return msgspec.msgpack.decode(body, type=_ControlStart).leader
    except DECODE_ERRORS:
        pass
    return None


class LogCodec:
    def __init__(
        self,
        identity: str,
        scheme: BlockScheme | None = None,
        reads: int = versions.NEWEST,
    ) -> None:
        """``scheme``: compute the band keys of bundles that are decoded together.

        ``reads``: the newest version that can be decoded.
        """
        self._scheme = scheme
        self._reads = reads
        self._digest = identity_digest(identity)
        self._encode = msgspec.msgpack.Encoder().encode
        self._bundle = msgspec.msgpack.Decoder(_BundleBody)
        self._bundle_start = msgspec.msgpack.Decoder(_BundleStart)
        self._query = msgspec.msgpack.Decoder(_QueryBody)
        self._control = msgspec.msgpack.Decoder(_DecidingControlBody)
        self._control_5 = msgspec.msgpack.Decoder(_DecidingStandbysControlBody)
        self._report = msgspec.msgpack.Decoder(Report)
        no_chains: tuple[Chain, ...] = ()
        self._chains = _RememberingCodec(no_chains, _encode_chains, _decode_chains)
        no_standbys: Standbys = ()
        self._standbys = _RememberingCodec(
            no_standbys, self._encode, msgspec.msgpack.Decoder(Standbys).decode
        )

    def encode(self, record: LogRecord, version: int = versions.OLDEST) -> bytes:
        """``version`` is the one in force (``Participant.version``)."""
        match record:
            case Bundle():
                return self._framed(BUNDLE, _bundle_body(record), version)
            case Query():
                encoded = encode_columns(record.columns)
                body = _QueryBody(record.identifier, record.limit, encoded)
                return self._framed(QUERY, body, version)
            case Control():
                return self._framed(CONTROL, self._control_body(record, version), version)

    def decode(self, value: bytes | None, where: str) -> LogRecord:
        """Return the log record in a value; ``where`` names it in errors.

        Raises ``LogDecodeError``, ``OtherIndexError`` for a record of another index, and
        ``UnreadableVersionError``.
        """
        (record,) = self.decode_many([value], [where])
        if isinstance(record, NOT_DECODED):
            raise record
        return record

    def sender_of(self, value: bytes) -> str | None:
        """Return the worker that sent a bundle, without decoding it; None for other records."""
        if value[1:_HEAD_BYTES] != BUNDLE:
            return None
        try:
            return self._bundle_start.decode(memoryview(value)[_BODY_AT:]).worker
        except DECODE_ERRORS:
            return None

    def decode_many(
        self, values: Sequence[bytes | None], where: Sequence[str]
    ) -> list[DecodedRecord]:
        """Return for each value the record, or the error of ``decode``; faster than one by one."""
        read = [self._read(value, place) for value, place in zip(values, where, strict=True)]
        bodies = [each for each in read if isinstance(each, _BundleBody)]
        try:
            bundles = iter(_bundles(bodies, self._scheme))
        except ColumnsError as error:
            if len(read) == 1:
                return [_damaged(where[0], error)]
            alone = zip(values, where, strict=True)
            return [self.decode_many([value], [place])[0] for value, place in alone]
        return [next(bundles) if isinstance(each, _BundleBody) else each for each in read]

    def _read(self, value: bytes | None, where: str) -> DecodedRecord | _BundleBody:
        try:
            kind, body = self._opened(value, where)
            return self._body(kind, body, version_of(value), where)
        except NOT_DECODED as error:
            return error
        except DECODE_ERRORS as error:
            return _damaged(where, error)

    def _body(
        self, kind: bytes, body: memoryview, version: int, where: str
    ) -> LogRecord | _BundleBody:
        """Decode a record, but leave the columns of a bundle encoded."""
        match kind:
            case b"B":
                return self._bundle.decode(body)
            case b"Q":
                return _query(self._query.decode(body), self._scheme)
            case b"C" if version < versions.STANDBYS_SINCE:
                return self._read_control(self._control.decode(body), ())
            case b"C":
                control = self._control_5.decode(body)
                return self._read_control(control, self._standbys.decode(control.standbys))
        raise LogDecodeError(f"the log record {where} is of an unknown kind: {kind.hex()}")

    def encode_report(self, report: Report, version: int = versions.OLDEST) -> bytes:
        return self._framed(REPORT, report, version)

    def decode_report(self, value: bytes | None, where: str) -> Report:
        """Return the report in a value; raises the errors of ``decode``."""
        kind, body = self._opened(value, where)
        if kind != REPORT:
            raise LogDecodeError(f"the report {where} is of an unknown kind: {kind.hex()}")
        try:
            return self._report.decode(body)
        except DECODE_ERRORS as error:
            raise _damaged(where, error) from error

    def _control_body(self, control: Control, version: int) -> _ControlBody:
        chains, last = control.heads
        fields = (
            control.previous,
            control.leader,
            control.leads,
            control.decisions,
            self._chains.encode(chains),
            encode_numbers(np.array(last, dtype=np.int64)),
            control.next,
            control.version,
        )
        checksums = control.checksums
        if version < versions.STANDBYS_SINCE:
            if checksums:
                return _DecidingControlBody(*fields, checksums=checksums)
            return _ControlBody(*fields)
        standbys = self._standbys.encode(control.standbys)
        if checksums:
            return _DecidingStandbysControlBody(*fields, standbys=standbys, checksums=checksums)
        return _StandbysControlBody(*fields, standbys=standbys)

    def _read_control(
        self, body: _DecidingControlBody | _DecidingStandbysControlBody, standbys: Standbys
    ) -> Control:
        chains = self._chains.decode(body.chains)
        last = array("q", decode_numbers([body.heads], [len(chains)]).tobytes())
        heads = ChainHeads(chains, last)
        return Control(
            body.previous,
            body.leader,
            body.leads,
            body.decisions,
            heads,
            body.next,
            body.version,
            standbys,
            body.checksums,
        )

    def _framed(self, kind: bytes, body: msgspec.Struct, version: int) -> bytes:
        first = bytes((VERSION_BYTES[version],))
        return b"".join((first, kind, self._digest, self._encode(body)))

    def _opened(self, value: bytes | None, where: str) -> tuple[bytes, memoryview]:
        if value is None or len(value) < _BODY_AT:
            raise LogDecodeError(
                f"the record {where} is not a record of the log: does another program write to "
                "this topic?"
            )
        if value[_HEAD_BYTES:_BODY_AT] != self._digest:
            raise OtherIndexError(
                f"the record {where} is of an index with other settings: identity digest "
                f"{value[_HEAD_BYTES:_BODY_AT].hex()}, here {self._digest.hex()}"
            )
        version = version_of(value)
        if not versions.OLDEST <= version <= self._reads:
            raise UnreadableVersionError(f"the record {where}", version, self._reads)
        return value[1:_HEAD_BYTES], memoryview(value)[_BODY_AT:]


DecodedRecord = LogRecord | LogDecodeError | OtherIndexError | UnreadableVersionError
NOT_DECODED: Final = (LogDecodeError, OtherIndexError, UnreadableVersionError)


def _bundle_body(bundle: Bundle) -> _BundleBody:
    topics: dict[tuple[str, str], int] = {}
    segments = []
    for chain, number, previous, last, first, end in bundle.segments:
        topic = topics.setdefault((chain.topic, chain.topic_id), len(topics))
        segments.append(_Segment(topic, chain.partition, number, previous, last, end - first))
    columns = bundle.columns
    relative = replace(columns, offsets=columns.offsets - _before(segments))
    return _BundleBody(bundle.worker, [*topics], segments, encode_columns(relative))


def _before(segments: Sequence[_Segment]) -> NDArray[np.int64]:
    """Return for each row the first raw offset that its segment covers."""
    first = np.array([each.previous + 1 for each in segments], dtype=np.int64)
    return np.repeat(first, [each.rows for each in segments])


def _bundles(bodies: Sequence[_BundleBody], scheme: BlockScheme | None) -> list[Bundle]:
    """Decode bundles together; raise ``ColumnsError`` if any is damaged."""
    if not bodies:
        return []
    segments = [each for body in bodies for each in body.segments]
    for body in bodies:
        _check(body)
    columns = decode_columns([each.columns for each in bodies], [each.rows for each in segments])
    _check_words(columns, scheme)
    ends = np.cumsum([each.rows for each in segments]) - 1
    if np.any(columns.offsets[ends] > [each.last - each.previous - 1 for each in segments]):
        raise ColumnsError("documents beyond the offsets of their packet")
    columns = replace(columns, offsets=columns.offsets + _before(segments))
    if scheme is not None:
        columns = with_bands(scheme, columns)
    bundles = []
    first = 0
    for body in bodies:
        end = first + body.columns.documents
        of_body = columns if len(bodies) == 1 else columns.part(first, end)
        bundles.append(Bundle(body.worker, _segments(body), of_body))
        first = end
    return bundles


def _check_words(columns: DocumentColumns, scheme: BlockScheme | None) -> None:
    words = columns.fingerprints.shape[1]
    if scheme is not None and words != scheme.words:
        raise ColumnsError(f"fingerprints of {words} words, and this index has {scheme.bits} bits")


def _check(body: _BundleBody) -> None:
    for topic, _, _, previous, last, _ in body.segments:
        if topic >= len(body.topics) or previous >= last:
            raise ColumnsError(f"a packet of topic {topic}, behind offset {previous} up to {last}")
    if sum(each.rows for each in body.segments) != body.columns.documents:
        raise ColumnsError(f"packets of other sizes than {body.columns.documents} documents")
    if len({each.partition for each in body.segments}) != len(body.segments):
        raise ColumnsError("a bundle with two packets of the same partition")


def _segments(body: _BundleBody) -> list[BundleSegment]:
    segments = []
    first = 0
    for topic, partition, number, previous, last, rows in body.segments:
        chain = Chain(*body.topics[topic], partition)
        segments.append(BundleSegment(chain, number, previous, last, first, first + rows))
        first += rows
    return segments


def _query(body: _QueryBody, scheme: BlockScheme | None) -> Query:
    columns = decode_columns([body.columns])
    _check_words(columns, scheme)
    if len(columns) != 1:
        raise ColumnsError(f"a query about {len(columns)} documents")
    return Query(body.identifier, body.limit, columns)


_Value = TypeVar("_Value")


class _RememberingCodec(Generic[_Value]):
    """Encodes and decodes values that seldom change: it remembers the latest one."""

    def __init__(
        self, first: _Value, encode: Callable[[_Value], bytes], decode: Callable[[bytes], _Value]
    ) -> None:
        self._encode = encode
        self._decode = decode
        self._latest = first, encode(first)

    def encode(self, value: _Value) -> bytes:
        if value is not self._latest[0]:
            self._latest = value, self._encode(value)
        return self._latest[1]

    def decode(self, encoded: bytes) -> _Value:
        if encoded != self._latest[1]:
            self._latest = self._decode(encoded), encoded
        return self._latest[0]


_NOT_RISING: Final = "the chains of a control record do not ascend"


def _encode_chains(chains: tuple[Chain, ...]) -> bytes:
    topics = []
    for (topic, topic_id), group in groupby(chains, lambda each: each[:2]):
        partitions = np.array([chain.partition for chain in group], dtype=np.int64)
        topics.append(_TopicChains(topic, topic_id, len(partitions), encode_numbers(partitions)))
    return msgspec.msgpack.encode(topics)


def _decode_chains(encoded: bytes) -> tuple[Chain, ...]:
    chains: list[Chain] = []
    for each in msgspec.msgpack.decode(encoded, type=list[_TopicChains]):
        # Equal numbers take no bytes, so a few bytes could ask for any amount of memory.
        if each.chains > max(len(each.partitions.added), 1):
            raise ColumnsError(_NOT_RISING)
        partitions = decode_numbers([each.partitions], [each.chains])
        chains += [Chain(each.topic, each.topic_id, p) for p in partitions.tolist()]
    if any(not one < other for one, other in pairwise(chains)):
        raise ColumnsError(_NOT_RISING)
    return tuple(chains)


def _damaged(where: str, error: Exception) -> LogDecodeError:
    return LogDecodeError(
        f"the record {where} is damaged: {error}. The topic is internal; no other program may "
        "write to it"
    )
