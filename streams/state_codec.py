"""State as rows: keys and values of a shard's store, as pure functions (docs/formats.md).

A key is one tag byte, then what names the thing; a value is what is known of it::

    tag  rest of the key                            value
    e    order (8)                                  an entry
    p    topic (UTF-8), partition (4), offset (8)   an entry: it is pending
    w    ticket (8)                                 MessagePack of PutParked: it waits
    x                                               MessagePack of Progress
    C    content digest, order (8)                  nothing: the entry has this content
    S    lowest order (8)                           MessagePack of SegmentRecord
    N                                               number of entries (8)
    M                                               format version (2), MessagePack of StoreIdentity

The rows with a small letter are the records of the changelog, byte for byte (that of ``x`` but for
the place in the changelog itself): a store is caught up by copying. Their values begin with a byte
of version. That of an entry has its fingerprint next, at a fixed place, so that it can be read for
thousands of entries without decoding them: length in bytes (1), fingerprint, MessagePack of the
rest.

Numbers have as many bytes as stands beside them, unsigned and big-endian, so that RocksDB, which
sorts keys as bytes, sorts by number: the last ``e`` has the highest order.

Do not change tags or forms: bump ``FORMAT_VERSION`` or ``ROW_VERSION``, and say how the old one is
read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

import msgspec

from simhash_core.blocks import Bucket
from simhash_core.documents import SourcePosition
from simhash_core.entries import Entry, Progress, PutParked
from simhash_core.errors import FirstseenError, UsageError

FORMAT_VERSION: Final = 2
ROW_VERSION: Final = 2
"""The first byte of the values that are in the changelog too."""

ENTRY_TAG: Final = b"e"
PENDING_TAG: Final = b"p"
PARKED_TAG: Final = b"w"
PROGRESS_KEY: Final = b"x"
CONTENT_TAG: Final = b"C"
SEGMENT_TAG: Final = b"S"
COUNT_KEY: Final = b"N"
IDENTITY_KEY: Final = b"M"

ORDER_BYTES: Final = 8
HIGHEST_NUMBER: Final = 2 ** (8 * ORDER_BYTES) - 1
ENTRY_HEAD_BYTES: Final = 2
"""Of the value of an entry, before its fingerprint: version, and length of the fingerprint."""
DIGEST_BYTES: Final = 16
PARTITION_BYTES: Final = 4
HIGHEST_PARTITION: Final = 2 ** (8 * PARTITION_BYTES) - 1
_VERSION_BYTES: Final = 2
_BYTES_SHOWN: Final = 24

_Decoded = TypeVar("_Decoded")


class StateDecodeError(FirstseenError, ValueError):
    """A key or a value that no version of this codec has written: damage, or not our store."""


class StoreIdentity(msgspec.Struct, frozen=True, array_like=True):
    """Whose state a store holds. It is checked at each opening, before anything else is read."""

    index_identity: str
    application_id: str
    partition: int
    partitions: int


class SegmentRecord(msgspec.Struct, frozen=True, array_like=True):
    """A file of buckets: the documents in it, the highest order, and the digest of its bytes."""

    documents: int
    last: int
    digest: bytes


class _EntryRest(msgspec.Struct, frozen=True, array_like=True):
    """What an entry holds beside its fingerprint."""

    source: SourcePosition
    document_id: str
    event_time_ms: int
    content_digest: bytes
    sketch: bytes = b""


_VERSION: Final = bytes((ROW_VERSION,))
_encode = msgspec.msgpack.Encoder().encode
_decode_rest = msgspec.msgpack.Decoder(_EntryRest).decode
_decode_segment = msgspec.msgpack.Decoder(SegmentRecord).decode
_decode_parked = msgspec.msgpack.Decoder(PutParked).decode
_decode_progress = msgspec.msgpack.Decoder(Progress).decode
_decode_identity = msgspec.msgpack.Decoder(StoreIdentity).decode


def after(tag: bytes) -> bytes:
    """Return the first key behind all those of a tag."""
    return bytes((tag[0] + 1,))


def order_bytes(order: int) -> bytes:
    """Return an order or a ticket as 8 bytes; raises ``UsageError`` below 0 or from 2**64 on."""
    try:
        return order.to_bytes(ORDER_BYTES, "big")
    except OverflowError:
        raise UsageError(
            f"the number {order} cannot be stored: it must be from 0 to {HIGHEST_NUMBER}"
        ) from None


def entry_key(order: int) -> bytes:
    """Return the key of the entry with this order."""
    return ENTRY_TAG + order_bytes(order)


def entry_order(key: bytes) -> int:
    """Return the order in the key of an entry. Raises ``StateDecodeError``."""
    if len(key) != 1 + ORDER_BYTES or key[:1] != ENTRY_TAG:
        raise StateDecodeError(f"{_shown(key)} is no key of an entry")
    return int.from_bytes(key[1:], "big")


def content_prefix(bucket: Bucket) -> bytes:
    """Return what the keys of all rows of a content bucket begin with."""
    return CONTENT_TAG + bucket[1:]


CONTENT_PREFIX_BYTES: Final = len(CONTENT_TAG) + DIGEST_BYTES


def segment_key(first: int) -> bytes:
    """Return the key of the record of a segment whose lowest order is ``first``."""
    return SEGMENT_TAG + order_bytes(first)


def segment_first(key: bytes) -> int:
    """Return the lowest order in the key of a segment's record. Raises ``StateDecodeError``."""
    if len(key) != 1 + ORDER_BYTES or key[:1] != SEGMENT_TAG:
        raise StateDecodeError(f"{_shown(key)} is no key of a segment")
    return int.from_bytes(key[1:], "big")


def pending_key(source: SourcePosition) -> bytes:
    """Return the key of a pending entry.

    Raises ``UsageError`` for a partition or an offset that is out of range.
    """
    if not 0 <= source.partition <= HIGHEST_PARTITION:
        raise UsageError(
            f"{source} cannot be stored: a partition must be from 0 to {HIGHEST_PARTITION}"
        )
    partition = source.partition.to_bytes(PARTITION_BYTES, "big")
    return PENDING_TAG + source.topic.encode() + partition + order_bytes(source.offset)


def pending_source(key: bytes) -> SourcePosition:
    """Return the source in the key of a pending entry. Raises ``StateDecodeError``."""
    topic_end = len(key) - PARTITION_BYTES - ORDER_BYTES
    if topic_end < len(PENDING_TAG) or key[:1] != PENDING_TAG:
        raise StateDecodeError(f"{_shown(key)} is no key of a pending entry")
    try:
        topic = key[1:topic_end].decode()
    except UnicodeDecodeError as error:
        raise StateDecodeError(f"the topic in the key {_shown(key)} is not UTF-8") from error
    partition = int.from_bytes(key[topic_end:-ORDER_BYTES], "big")
    return SourcePosition(topic, partition, int.from_bytes(key[-ORDER_BYTES:], "big"))


def parked_key(ticket: int) -> bytes:
    """Return the key of a parked visit."""
    return PARKED_TAG + order_bytes(ticket)


def parked_ticket(key: bytes) -> int:
    """Return the ticket in the key of a parked visit. Raises ``StateDecodeError``."""
    if len(key) != 1 + ORDER_BYTES or key[:1] != PARKED_TAG:
        raise StateDecodeError(f"{_shown(key)} is no key of a visit that waits")
    return int.from_bytes(key[1:], "big")


def encode_entry(entry: Entry) -> bytes:
    """Return the value of an entry, confirmed or pending."""
    source, document_id, time_ms = entry.source, entry.document_id, entry.event_time_ms
    rest = _EntryRest(source, document_id, time_ms, entry.content_digest, entry.sketch)
    head = bytes((ROW_VERSION, len(entry.fingerprint)))
    return head + entry.fingerprint + _encode(rest)


def decode_entry(value: bytes) -> Entry:
    """Return the entry in a value. Raises ``StateDecodeError``."""
    body = _body("entry", value)
    if not body:
        raise StateDecodeError(f"the entry in {_shown(value)} ends before its fingerprint")
    end = ENTRY_HEAD_BYTES + body[0]
    fingerprint = value[ENTRY_HEAD_BYTES:end]
    if len(fingerprint) < body[0]:
        raise StateDecodeError(f"the entry in {_shown(value)} ends in its fingerprint")
    rest = _decoded(_decode_rest, "entry", value, end)
    return Entry(
        rest.source,
        rest.document_id,
        rest.event_time_ms,
        fingerprint,
        rest.content_digest,
        rest.sketch,
    )


def encode_parked(parked: PutParked) -> bytes:
    """Return the value of a parked visit."""
    return _VERSION + _encode(parked)


def decode_parked(value: bytes) -> PutParked:
    """Return the parked visit in a value. Raises ``StateDecodeError``."""
    _body("parked visit", value)
    return _decoded(_decode_parked, "parked visit", value, 1)


def encode_progress(progress: Progress) -> bytes:
    """Return the value of the progress."""
    return _VERSION + _encode(progress)


def decode_progress(value: bytes) -> Progress:
    """Return the progress in a value. Raises ``StateDecodeError``."""
    _body("progress", value)
    return _decoded(_decode_progress, "progress", value, 1)


def encode_segment(record: SegmentRecord) -> bytes:
    """Return the value of the record of a segment."""
    return _encode(record)


def decode_segment(value: bytes) -> SegmentRecord:
    """Return the record of a segment in a value. Raises ``StateDecodeError``."""
    return _decoded(_decode_segment, "record of a segment", value)


def encode_count(count: int) -> bytes:
    """Return the value of the number of entries."""
    return order_bytes(count)


def decode_count(value: bytes) -> int:
    """Return the number of entries in a value. Raises ``StateDecodeError``."""
    if len(value) != ORDER_BYTES:
        raise StateDecodeError(f"the number of entries is {_shown(value)}, which is not 8 bytes")
    return int.from_bytes(value, "big")


def encode_identity(identity: StoreIdentity) -> bytes:
    """Return the value that says which format this is, and whose state."""
    return FORMAT_VERSION.to_bytes(_VERSION_BYTES, "big") + _encode(identity)


def format_version(value: bytes) -> int:
    """Return the format version in an identity's value. Raises ``StateDecodeError``."""
    if len(value) < _VERSION_BYTES:
        raise StateDecodeError(f"the identity of the store is {_shown(value)}: it has no version")
    return int.from_bytes(value[:_VERSION_BYTES], "big")


def decode_identity(value: bytes) -> StoreIdentity:
    """Return the identity in a value of this ``FORMAT_VERSION``. Raises ``StateDecodeError``."""
    return _decoded(_decode_identity, "identity of the store", value, _VERSION_BYTES)


def _body(kind: str, value: bytes) -> bytes:
    """Return what follows the version in a value; raises ``StateDecodeError`` for another one."""
    if value[:1] != _VERSION:
        raise StateDecodeError(f"the {kind} in {_shown(value)} is not of version {ROW_VERSION}")
    return value[1:]


def _decoded(
    decode: Callable[[memoryview], _Decoded], kind: str, value: bytes, start: int = 0
) -> _Decoded:
    try:
        return decode(memoryview(value)[start:])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StateDecodeError(f"the {kind} in {_shown(value)} cannot be read: {error}") from error


def _shown(raw: bytes) -> str:
    """Return bytes in hexadecimal, cut where they are many."""
    if not raw:
        return "no bytes"
    return raw[:_BYTES_SHOWN].hex() + ("…" if len(raw) > _BYTES_SHOWN else "")
