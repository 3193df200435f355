"""State on disk: the keys and values of a shard's store, as pure functions (docs/formats.md).

A key is one tag byte, then what names the thing; a value is what is known of it::

    tag  rest of the key                         value
    M                                            format version (2), MessagePack of StoreIdentity
    N                                            number of entries (8)
    G                                            MessagePack of Progress
    E    order (8)                               MessagePack of Entry
    B    bucket, order (8)                       fingerprint; nothing for a content bucket
    P    topic (UTF-8), partition (4), offset (8)   MessagePack of Entry: it is pending
    W    ticket (8)                              MessagePack of PutParked: it waits

Numbers have as many bytes as stands beside them, unsigned and big-endian, so that RocksDB, which
sorts keys as bytes, sorts by number: the rows of a bucket lie together in order of confirmation,
and the last ``E`` has the highest order.

**No two keys meet, and no row stands in the prefix of another bucket.** Within one store all
buckets of blocks have one length, the index and the value of a block; content buckets have another,
but they alone begin with 0xFF, and a block's index is below 128. So no bucket's name begins
another's. Other tags have one form of key each; the fixed tail of ``P`` keeps its topic apart.

Do not change tags or forms: bump ``FORMAT_VERSION``, and say how the old one is read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

import msgspec

from simhash_core.blocks import Bucket
from simhash_core.documents import SourcePosition
from simhash_core.entries import Entry, Progress, PutParked
from simhash_core.errors import FirstseenError, UsageError

FORMAT_VERSION: Final = 1

IDENTITY_KEY: Final = b"M"
COUNT_KEY: Final = b"N"
PROGRESS_KEY: Final = b"G"
ENTRY_TAG: Final = b"E"
BUCKET_TAG: Final = b"B"
PENDING_TAG: Final = b"P"
PARKED_TAG: Final = b"W"

ORDER_BYTES: Final = 8
HIGHEST_NUMBER: Final = 2 ** (8 * ORDER_BYTES) - 1
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


_encode = msgspec.msgpack.Encoder().encode
_decode_entry = msgspec.msgpack.Decoder(Entry).decode
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


def bucket_prefix(bucket: Bucket) -> bytes:
    """Return what the keys of all rows of a bucket begin with."""
    return BUCKET_TAG + bucket


def bucket_prefix_length(block_bits: int) -> int:
    """Return the length of ``bucket_prefix`` for buckets of blocks of ``block_bits`` bits."""
    return len(BUCKET_TAG) + 1 + (block_bits + 7) // 8


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


def encode_entry(entry: Entry) -> bytes:
    """Return the value of an entry, confirmed or pending."""
    return _encode(entry)


def decode_entry(value: bytes) -> Entry:
    """Return the entry in a value. Raises ``StateDecodeError``."""
    return _decoded(_decode_entry, "entry", value)


def encode_parked(parked: PutParked) -> bytes:
    """Return the value of a parked visit."""
    return _encode(parked)


def decode_parked(value: bytes) -> PutParked:
    """Return the parked visit in a value. Raises ``StateDecodeError``."""
    return _decoded(_decode_parked, "parked visit", value)


def encode_progress(progress: Progress) -> bytes:
    """Return the value of the progress."""
    return _encode(progress)


def decode_progress(value: bytes) -> Progress:
    """Return the progress in a value. Raises ``StateDecodeError``."""
    return _decoded(_decode_progress, "progress", value)


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
    return _decoded(_decode_identity, "identity of the store", value[_VERSION_BYTES:])


def _decoded(decode: Callable[[bytes], _Decoded], kind: str, value: bytes) -> _Decoded:
    try:
        return decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StateDecodeError(f"the {kind} in {_shown(value)} cannot be read: {error}") from error


def _shown(raw: bytes) -> str:
    """Return bytes in hexadecimal, cut where they are many."""
    if not raw:
        return "no bytes"
    return raw[:_BYTES_SHOWN].hex() + ("…" if len(raw) > _BYTES_SHOWN else "")
