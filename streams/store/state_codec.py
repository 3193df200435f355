"""State as rows: keys and values of a shard's store, as pure functions (docs/formats.md).

A key is one tag byte, then what names the thing; a value is what is known of it::

    tag  rest of the key        value
    e    sequence number (8)    an entry (``streams.store.entry_rows``)
    c    content digest (16)    sequence numbers (8 each) of undecidable documents of this content
    i    digest of an id (4)    sequence numbers (8 each) of entries whose id has this digest
    r    sequence number (8)    deletions in the changelog record that begins with this entry: what
                                is added to that number to get theirs (2 each)
    g    sequence number (8)    nothing: the entry was deleted, and may be in a segment file still
    s    number (4)             MessagePack of SourceName: a raw partition that entries name
    x                           version (1), MessagePack of ProgressRow
    n                           number of entries (8)
    I                           each id has an ``i`` row; from the first deletion on
    M                           format version (2), MessagePack of StoreIdentity

Numbers in keys have as many bytes as stands beside them, unsigned and big-endian, so that RocksDB,
which sorts keys as bytes, sorts by number: the last ``e`` has the highest sequence number.

Do not change tags or forms: bump ``FORMAT_VERSION``, and say how the old one is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, TypeVar

import msgspec
import numpy as np
from xxhash import xxh3_64_digest

from simhash_core.errors import ErrorReason, FirstseenError
from simhash_core.log.records import Progress

FORMAT_VERSION: Final = 4

ENTRY_TAG: Final = b"e"
CONTENT_TAG: Final = b"c"
ID_TAG: Final = b"i"
DELETIONS_TAG: Final = b"r"
GONE_TAG: Final = b"g"
SOURCE_TAG: Final = b"s"
PROGRESS_KEY: Final = b"x"
COUNT_KEY: Final = b"n"
IDS_KEY: Final = b"I"
IDENTITY_KEY: Final = b"M"
"""As in all earlier formats, so that each can tell the others."""

NUMBER_BYTES: Final = 8
_SOURCE_BYTES: Final = 4
ID_DIGEST_BYTES: Final = 4
_VERSION_BYTES: Final = 2
_BYTES_SHOWN: Final = 24

_Decoded = TypeVar("_Decoded")


class StateDecodeError(FirstseenError, ValueError):
    """A key or a value that no version of this codec has written: damage, or not our store."""

    reason = ErrorReason.FORMAT


class StoreIdentity(msgspec.Struct, frozen=True, array_like=True):
    """Whose state a store holds. It is checked at each opening, before anything else is read.

    ``changelog_id``: the id of the changelog topic that the store was filled from, so that the
    store of another cluster is noticed; "": not known, as without Kafka.
    """

    index_identity: str
    application_id: str
    partition: int
    changelog_id: str = ""


class SourceName(NamedTuple):
    """The raw partition that entries came from."""

    topic: str
    partition: int


class StoredProgress(msgspec.Struct, frozen=True, array_like=True):
    """How far a shard has come, as its store has it.

    ``changelog_offset``: the next offset of the changelog that the store has not read, and
    ``changelog_time_ms`` when the record before that was written, milliseconds since 1970; 0: none.
    ``identity``: of the index. ``reading``: by which rules raw records are read. ``run``: what a
    command that needs no broker remembers of its run. ``expired_before``: the sequence number below
    which no entry is left.
    """

    progress: Progress
    changelog_offset: int = 0
    changelog_time_ms: int = 0
    identity: str = ""
    reading: str = ""
    run: bytes = b""
    expired_before: int = 0


class ProgressRow(msgspec.Struct, frozen=True, array_like=True):
    """``StoredProgress`` that may have none yet: its changelog was not read to the end."""

    progress: Progress | None = None
    changelog_offset: int = 0
    changelog_time_ms: int = 0
    identity: str = ""
    reading: str = ""
    run: bytes = b""
    expired_before: int = 0


_encode = msgspec.msgpack.Encoder().encode
_decode_source = msgspec.msgpack.Decoder(SourceName).decode
_decode_progress = msgspec.msgpack.Decoder(ProgressRow).decode
_decode_identity = msgspec.msgpack.Decoder(StoreIdentity).decode
_VERSION: Final = bytes((FORMAT_VERSION,))


def after(tag: bytes) -> bytes:
    """Return the first key behind all those of a tag."""
    return bytes((tag[0] + 1,))


def entry_key(sequence: int) -> bytes:
    """Return the key of the entry with this sequence number."""
    return ENTRY_TAG + sequence.to_bytes(NUMBER_BYTES, "big")


def entry_sequence(key: bytes) -> int:
    """Return the sequence number in the key of an entry. Raises ``StateDecodeError``."""
    return _number_in(key, ENTRY_TAG, NUMBER_BYTES, "an entry")


def gone_key(sequence: int) -> bytes:
    """Return the key that says that an entry was deleted."""
    return GONE_TAG + sequence.to_bytes(NUMBER_BYTES, "big")


def gone_sequence(key: bytes) -> int:
    """Return the sequence number of a deleted entry. Raises ``StateDecodeError``."""
    return _number_in(key, GONE_TAG, NUMBER_BYTES, "a deleted entry")


def content_key(digest: bytes) -> bytes:
    """Return the key of the undecidable documents with this content digest."""
    return CONTENT_TAG + digest


def id_key(document_id: bytes) -> bytes:
    """Return the key of the entries with this id, and of others whose id has the same digest."""
    return ID_TAG + id_digest(document_id)


def id_digest(document_id: bytes) -> bytes:
    """Return the digest by which an id is looked up."""
    return xxh3_64_digest(document_id)[:ID_DIGEST_BYTES]


def deletions_key(first: int) -> bytes:
    """Return the key of the deletions in a changelog record; ``first``: of its entries."""
    return DELETIONS_TAG + first.to_bytes(NUMBER_BYTES, "big")


def deletions_first(key: bytes) -> int:
    """Return the first entry of the record in a key of deletions. Raises ``StateDecodeError``."""
    return _number_in(key, DELETIONS_TAG, NUMBER_BYTES, "deletions")


def source_key(number: int) -> bytes:
    """Return the key of the raw partition that entries name by this number."""
    return SOURCE_TAG + number.to_bytes(_SOURCE_BYTES, "big")


def source_number(key: bytes) -> int:
    """Return the number in the key of a raw partition. Raises ``StateDecodeError``."""
    return _number_in(key, SOURCE_TAG, _SOURCE_BYTES, "a raw partition")


def _number_in(key: bytes, tag: bytes, number_bytes: int, what: str) -> int:
    if len(key) != 1 + number_bytes or key[:1] != tag:
        raise StateDecodeError(f"{shown(key)} is no key of {what}")
    return int.from_bytes(key[1:], "big")


def encode_number(number: int) -> bytes:
    """Return the value that is a number."""
    return number.to_bytes(NUMBER_BYTES, "big")


def decode_number(value: bytes) -> int:
    """Return the number in a value. Raises ``StateDecodeError``."""
    if len(value) != NUMBER_BYTES:
        raise StateDecodeError(f"a number is {shown(value)}, which is not {NUMBER_BYTES} bytes")
    return int.from_bytes(value, "big")


def encode_numbers(numbers: Sequence[int]) -> bytes:
    """Return the value that is a list of numbers."""
    return b"".join([number.to_bytes(NUMBER_BYTES, "big") for number in numbers])


def decode_numbers(value: bytes) -> list[int]:
    """Return the list of numbers in a value. Raises ``StateDecodeError``."""
    if len(value) % NUMBER_BYTES:
        raise StateDecodeError(f"numbers are {shown(value)}, which is not a list of them")
    numbers: list[int] = np.frombuffer(value, dtype=">u8").tolist()
    return numbers


def encode_deletions(added: Iterable[int]) -> bytes:
    """Return the value of deletions: what is added to the first sequence number, below 65,536."""
    return np.array(sorted(added), dtype="<u2").tobytes()


def decode_deletions(value: bytes) -> list[int]:
    """Return the deletions in a value. Raises ``StateDecodeError``."""
    if len(value) % 2:
        raise StateDecodeError(f"deletions are {shown(value)}, which is not a list of them")
    deletions: list[int] = np.frombuffer(value, dtype="<u2").tolist()
    return deletions


def encode_source(name: SourceName) -> bytes:
    """Return the value of a raw partition."""
    return _encode(name)


def decode_source(value: bytes) -> SourceName:
    """Return the raw partition in a value. Raises ``StateDecodeError``."""
    return decoded(_decode_source, "raw partition", value)


def encode_progress(progress: StoredProgress | ProgressRow) -> bytes:
    """Return the value of the progress."""
    return _VERSION + _encode(progress)


def decode_progress(value: bytes) -> ProgressRow:
    """Return the progress in a value. Raises ``StateDecodeError``."""
    if value[:1] != _VERSION:
        raise StateDecodeError(f"the progress in {shown(value)} is not of version {FORMAT_VERSION}")
    return decoded(_decode_progress, "progress", value, 1)


def encode_identity(identity: StoreIdentity) -> bytes:
    """Return the value that says which format this is, and whose state."""
    return FORMAT_VERSION.to_bytes(_VERSION_BYTES, "big") + _encode(identity)


def format_version(value: bytes) -> int:
    """Return the format version in an identity's value. Raises ``StateDecodeError``."""
    if len(value) < _VERSION_BYTES:
        raise StateDecodeError(f"the identity of the store is {shown(value)}: it has no version")
    return int.from_bytes(value[:_VERSION_BYTES], "big")


def decode_identity(value: bytes) -> StoreIdentity:
    """Return the identity in a value of this ``FORMAT_VERSION``. Raises ``StateDecodeError``."""
    return decoded(_decode_identity, "identity of the store", value, _VERSION_BYTES)


def decoded(
    decode: Callable[[memoryview], _Decoded], kind: str, value: bytes, start: int = 0
) -> _Decoded:
    """Return what MessagePack holds; raises ``StateDecodeError``, which names its ``kind``."""
    try:
        return decode(memoryview(value)[start:])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StateDecodeError(f"the {kind} in {shown(value)} cannot be read: {error}") from error


def shown(raw: bytes) -> str:
    """Return bytes in hexadecimal, cut where they are many."""
    if not raw:
        return "no bytes"
    return raw[:_BYTES_SHOWN].hex() + ("…" if len(raw) > _BYTES_SHOWN else "")
