"""Encodes and decodes one row of a shard's store, or all rows of a packet (docs/formats.md)."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Final, NamedTuple, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from simhash_core.document_columns import DocumentColumns
from simhash_core.documents import Entry, SourcePosition
from simhash_core.errors import ErrorReason, FirstseenError
from simhash_core.fingerprints.bands import NO_BANDS, Bands
from simhash_core.index import key_filter
from simhash_core.index.prints import Prints, band_keys_at, joined_prints
from simhash_core.log.records import NO_EPOCH, Chain, Progress
from simhash_core.log.shard_stream import NewEntries
from streams.store.columns_codec import DIGEST_BYTES, WORD_BYTES
from streams.store.lineage import UNKNOWN, Lineage

# ---- Keys and values.
#
# docs/formats.md has their table, under "State on disk". A key is a tag byte and the name of a
# thing. Numbers in keys are unsigned and big-endian, so RocksDB, which sorts keys as bytes, sorts
# by number. Do not change tags or forms: bump ``FORMAT_VERSION``, and say how the old one is read.

FORMAT_VERSION: Final = 4

CONTENT_TAG: Final = b"c"
ID_TAG: Final = b"i"
PROGRESS_KEY: Final = b"x"
COUNT_KEY: Final = b"n"  # of entries
IDS_KEY: Final = b"I"  # each id has a row
IDS_BEFORE_KEY: Final = b"J"  # entries before a sequence number have rows by id
IDENTITY_KEY: Final = b"M"
"""The key is the same in all formats, so that each version recognises stores of the others."""

NUMBER_BYTES: Final = 8
_VERSION_BYTES: Final = 2
_FILED_NUMBERS: Final = 2
_BYTES_SHOWN: Final = 24

_Decoded = TypeVar("_Decoded")


class StateDecodeError(FirstseenError, ValueError):
    reason = ErrorReason.FORMAT


class NumberKeys(NamedTuple):
    """The keys of one tag, each with a number."""

    tag: bytes
    what: str
    number_bytes: int = NUMBER_BYTES

    @property
    def bounds(self) -> tuple[bytes, bytes]:
        return self.tag, after(self.tag)

    def key(self, number: int) -> bytes:
        return self.tag + number.to_bytes(self.number_bytes, "big")

    def between(self, first: int, end: int) -> tuple[bytes, bytes]:
        return self.key(first), self.key(end)

    def number(self, key: bytes) -> int:
        """Return the number in a key; raise ``StateDecodeError``."""
        if len(key) != 1 + self.number_bytes or key[:1] != self.tag:
            raise StateDecodeError(f"{shown(key)} is not a key of {self.what}")
        return int.from_bytes(key[1:], "big")


ENTRIES: Final = NumberKeys(b"e", "an entry")
DELETIONS: Final = NumberKeys(b"r", "deletions")
WRITTEN: Final = NumberKeys(b"k", "a record and its writer", 2 * NUMBER_BYTES + 1)
DELETED_ENTRIES: Final = NumberKeys(b"g", "a deleted entry")
FILED: Final = NumberKeys(b"f", "a range in a file")
COMMITS: Final = NumberKeys(b"w", "a commit")
SOURCES: Final = NumberKeys(b"s", "a raw partition", 4)


class StoreIdentity(msgspec.Struct, frozen=True, array_like=True):
    """The owner of a store, which is checked at each opening before anything else is read."""

    index_identity: str
    application_id: str
    partition: int
    # Of the topic that filled the store; "": unknown, for example without Kafka.
    changelog_id: str = ""


class SourceName(NamedTuple):
    topic: str
    partition: int


class ProgressRow(msgspec.Struct, frozen=True, array_like=True):
    """How far the store has read its changelog, and the shard's progress there."""

    progress: Progress | None = None  # None: its changelog was not read to its end
    changelog_offset: int = 0  # the offset to read next
    changelog_time_ms: int = 0  # the timestamp of the record before that offset; 0: none
    identity: str = ""
    reading: str = ""  # the rules by which raw records are read
    run: bytes = b""  # of a command without a broker
    expired_before: int = 0  # all entries below this sequence number are gone
    lineage: Lineage = UNKNOWN  # of the last commit
    leader_epoch: int = NO_EPOCH  # of the raw record before ``progress.next``


class StoredProgress(ProgressRow, frozen=True, array_like=True):
    progress: Progress = msgspec.field()


_encode = msgspec.msgpack.Encoder().encode
_decode_source = msgspec.msgpack.Decoder(SourceName).decode
_decode_progress = msgspec.msgpack.Decoder(ProgressRow).decode
_decode_identity = msgspec.msgpack.Decoder(StoreIdentity).decode
_VERSION: Final = bytes((FORMAT_VERSION,))


def after(tag: bytes) -> bytes:
    """Return the first key after all keys of a tag."""
    return bytes((tag[0] + 1,))


def encode_filed(last: int, checksum: int) -> bytes:
    return encode_number(last) + encode_number(checksum)


def decode_filed(key: bytes, value: bytes) -> tuple[int, int, int]:
    """Return the first and last sequence number, and the checksum of the file."""
    first = FILED.number(key)
    numbers = decode_numbers(value)
    if len(numbers) != _FILED_NUMBERS:
        raise StateDecodeError(f"{len(value)} bytes are not a range in a segment file")
    return first, numbers[0], numbers[1]


def content_key(digest: bytes) -> bytes:
    return CONTENT_TAG + digest


def id_key(document_id: bytes) -> bytes:
    """Return the key for all ids with the same digest."""
    return ID_TAG + key_filter.id_key(document_id)


def encode_number(number: int) -> bytes:
    return number.to_bytes(NUMBER_BYTES, "big")


def decode_number(value: bytes) -> int:
    if len(value) != NUMBER_BYTES:
        raise StateDecodeError(f"a number is {shown(value)}, which is not {NUMBER_BYTES} bytes")
    return int.from_bytes(value, "big")


def encode_numbers(numbers: Sequence[int]) -> bytes:
    return b"".join(map(encode_number, numbers))


def decode_numbers(value: bytes) -> list[int]:
    if len(value) % NUMBER_BYTES:
        raise StateDecodeError(f"numbers are {shown(value)}, which is not a list of them")
    numbers: list[int] = np.frombuffer(value, dtype=">u8").tolist()
    return numbers


def encode_deletions(added: Iterable[int]) -> bytes:
    """Encode offsets from the first sequence number of a record; all are below 65,536."""
    return np.array(sorted(added), dtype="<u2").tobytes()


def decode_deletions(value: bytes) -> list[int]:
    if len(value) % 2:
        raise StateDecodeError(f"deletions are {shown(value)}, which is not a list of them")
    deletions: list[int] = np.frombuffer(value, dtype="<u2").tolist()
    return deletions


def encode_source(name: SourceName) -> bytes:
    return _encode(name)


def decode_source(value: bytes) -> SourceName:
    return _decoded(_decode_source, "raw partition", value)


def encode_progress(progress: ProgressRow) -> bytes:
    return _VERSION + _encode(progress)


def decode_progress(value: bytes) -> ProgressRow:
    if value[:1] != _VERSION:
        raise StateDecodeError(f"the progress in {shown(value)} is not of version {FORMAT_VERSION}")
    return _decoded(_decode_progress, "progress", value, 1)


def encode_identity(identity: StoreIdentity) -> bytes:
    return FORMAT_VERSION.to_bytes(_VERSION_BYTES, "big") + _encode(identity)


def format_version(value: bytes) -> int:
    if len(value) < _VERSION_BYTES:
        raise StateDecodeError(f"the identity of the store is {shown(value)}: it has no version")
    return int.from_bytes(value[:_VERSION_BYTES], "big")


def decode_identity(value: bytes) -> StoreIdentity:
    return _decoded(_decode_identity, "identity of the store", value, _VERSION_BYTES)


def _decoded(
    decode: Callable[[memoryview], _Decoded], kind: str, value: bytes, start: int = 0
) -> _Decoded:
    """Decode MessagePack; raise ``StateDecodeError``, which names ``kind``."""
    try:
        return decode(memoryview(value)[start:])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StateDecodeError(f"the {kind} in {shown(value)} cannot be read: {error}") from error


def shown(raw: bytes) -> str:
    """Return bytes in hexadecimal, shortened to 24 bytes."""
    if not raw:
        return "no bytes"
    return raw[:_BYTES_SHOWN].hex() + ("…" if len(raw) > _BYTES_SHOWN else "")


# ---- The new entries of one packet as columns.


class EntryBlock(NamedTuple):
    """Entries of one packet. ``sequences``: uint64 (entries,), rising."""

    chain: Chain
    sequences: NDArray[np.uint64]
    columns: DocumentColumns

    def __len__(self) -> int:
        return len(self.sequences)

    def take(self, rows: NDArray[np.intp]) -> EntryBlock:
        return EntryBlock(self.chain, self.sequences[rows], self.columns.take(rows))


def entry_block(new: NewEntries) -> EntryBlock:
    columns = new.packet.columns
    if len(new.rows) < len(columns):
        columns = columns.take(new.rows)
    if columns.operations is not None:
        columns = replace(columns, operations=None)  # all entries are documents
    return EntryBlock(new.packet.chain, new.sequences, columns)


# ---- Rows of entries: fields of fixed size, id, sketch, and a scope with its length if it has one.

_KEY: Final = np.dtype([("tag", "S1"), ("sequence", ">u8")])
_HEAD_BYTES: Final = 3
_HAS_SCOPE: Final = 0x80
_LENGTH_BYTES: Final = 2


class EntryPrints(NamedTuple):
    """The prints of decidable entries; ``sequences``: uint64 (n,)."""

    sequences: NDArray[np.uint64]
    prints: Prints

    @staticmethod
    def joined(parts: Sequence[EntryPrints]) -> EntryPrints:
        return EntryPrints(
            np.concatenate([each.sequences for each in parts]),
            joined_prints([each.prints for each in parts]),
        )


@cache
def _fixed(words: int) -> np.dtype[np.void]:
    return np.dtype(
        [
            ("version", "u1"),
            ("words", "u1"),
            ("undecidable", "u1"),
            ("fingerprint", f"V{words * WORD_BYTES}"),
            ("digest", f"V{DIGEST_BYTES}"),
            ("source", "<u2"),
            ("offset", "<i8"),
            ("time_ms", "<i8"),
            ("id_bytes", "<u2"),
        ]
    )


@cache  # like _fixed, but for one entry
def _layout(words: int) -> struct.Struct:
    return struct.Struct(f"<BBB{words * WORD_BYTES}s{DIGEST_BYTES}sHqqH")


def encode_entry_rows(block: EntryBlock, source: int) -> tuple[list[bytes], list[bytes]]:
    """Return keys and values of entries; ``source`` is the number of their raw partition."""
    columns = block.columns
    count, words = columns.fingerprints.shape
    keys = np.empty(count, dtype=_KEY)
    keys["tag"] = ENTRIES.tag
    keys["sequence"] = block.sequences
    fixed = np.zeros(count, dtype=_fixed(words))
    fixed["version"] = FORMAT_VERSION
    fixed["words"] = words
    fixed["undecidable"] = columns.undecidable
    fixed["fingerprint"] = _as_void(columns.fingerprints)
    fixed["digest"] = _as_void(columns.digests)
    fixed["source"] = source
    scopes = [] if columns.scopes is None else list(columns.scopes)
    for row in (row for row, scope in enumerate(scopes) if scope):
        fixed["undecidable"][row] |= _HAS_SCOPE
    fixed["offset"] = columns.offsets
    fixed["time_ms"] = columns.times_ms
    fixed["id_bytes"] = np.diff(columns.ids.bounds)
    all_keys, all_fixed = keys.tobytes(), fixed.tobytes()
    size, key_size = fixed.itemsize, keys.itemsize
    values = [
        all_fixed[at : at + size] + document_id + sketch
        for at, document_id, sketch in zip(
            range(0, len(all_fixed), size), columns.ids, columns.sketches, strict=True
        )
    ]
    for row, scope in enumerate(scopes):
        if scope:
            values[row] += scope + len(scope).to_bytes(_LENGTH_BYTES, "little")
    return [all_keys[at : at + key_size] for at in range(0, len(all_keys), key_size)], values


def decode_entry(value: bytes, sources: Mapping[int, SourceName]) -> Entry:
    """Return the entry in a value; ``sources`` maps numbers to raw partitions."""
    _check_head(value)
    layout = _layout(value[1])
    try:
        (_, _, undecidable, fingerprint, digest, source, offset, time_ms, id_bytes) = (
            layout.unpack_from(value)
        )
        id_end = layout.size + id_bytes
        sketch_end, scope_end = len(value), len(value)
        if undecidable & _HAS_SCOPE:
            scope_end -= _LENGTH_BYTES
            sketch_end = scope_end - int.from_bytes(value[scope_end:], "little")
        if sketch_end < id_end:
            raise StateDecodeError(f"the entry in {shown(value)} has {len(value)} bytes")
        name = sources[source]
        document_id = value[layout.size : id_end].decode()
        scope = value[sketch_end:scope_end].decode()
    except (struct.error, KeyError, UnicodeDecodeError) as error:
        raise StateDecodeError(f"the entry in {shown(value)} cannot be read: {error}") from error
    return Entry(
        SourcePosition(name.topic, name.partition, offset),
        document_id,
        time_ms,
        b"" if undecidable & ~_HAS_SCOPE else fingerprint,
        digest,
        value[id_end:sketch_end],
        scope,
    )


def read_prints(
    keys: Sequence[bytes], values: Sequence[bytes], words: int, bands: Bands = NO_BANDS
) -> EntryPrints:
    """Read the prints of entries without decoding the rows.

    Raises ``StateDecodeError`` for a damaged row or a fingerprint of another width. Ids and scopes
    are not checked.
    """
    fixed = _fixed(words)
    size = fixed.itemsize
    joined = b"".join([value[:size] for value in values])
    # No slice is longer than its size, so if the sum is right, each slice is right.
    if len(joined) != size * len(values) or sum(map(len, keys)) != _KEY.itemsize * len(keys):
        for key, value in zip(keys, values, strict=True):
            ENTRIES.number(key)
            _check_head(value)
            if len(value) < size:
                raise StateDecodeError(f"the entry in {shown(value)} ends early")
    rows = np.frombuffer(joined, dtype=fixed)
    wrong = np.flatnonzero((rows["version"] != FORMAT_VERSION) | (rows["words"] != words))
    if len(wrong):
        at = int(wrong[0])
        _check_head(values[at])
        raise StateDecodeError(
            f"entry {ENTRIES.number(keys[at])} has a fingerprint of {values[at][1] * 64} bits, "
            f"here they have {words * 64}"
        )
    decidable = np.flatnonzero(rows["undecidable"] & ~np.uint8(_HAS_SCOPE) == 0)
    sequences = sequences_in(keys)
    fingerprints = np.frombuffer(rows["fingerprint"].tobytes(), dtype=np.uint64)
    prints = Prints(
        fingerprints.reshape(len(values), words)[decidable],
        _band_keys(rows[decidable], [values[at] for at in decidable.tolist()], bands),
        rows["time_ms"][decidable].astype(np.int64),
    )
    return EntryPrints(sequences[decidable], prints)


def _band_keys(rows: NDArray[np.void], values: Sequence[bytes], bands: Bands) -> NDArray[np.uint32]:
    """Return the keys of the bands of the sketches in rows, uint32 (rows, bands)."""
    if not bands.number:
        return np.empty((len(rows), 0), dtype=np.uint32)
    joined = b"".join(values)
    lengths = np.fromiter(map(len, values), dtype=np.intp, count=len(values))
    ends = np.cumsum(lengths)
    starts = ends - lengths + rows.dtype.itemsize + rows["id_bytes"]
    scoped = np.flatnonzero(rows["undecidable"] & _HAS_SCOPE)
    if len(scoped):
        at = ends[scoped, None] + np.arange(-_LENGTH_BYTES, 0)
        lengths_of_scopes = np.frombuffer(joined, dtype=np.uint8)[at].view("<u2")[:, 0]
        ends[scoped] -= _LENGTH_BYTES + lengths_of_scopes.astype(np.intp)
    return band_keys_at(joined, starts, ends, bands)


def sequences_in(keys: Sequence[bytes]) -> NDArray[np.uint64]:
    return np.frombuffer(b"".join(keys), dtype=_KEY)["sequence"].astype(np.uint64)


def ids_in(values: Sequence[bytes], words: int) -> list[bytes]:
    """Return the ids in rows, in UTF-8, without decoding other fields."""
    size = _fixed(words).itemsize
    at = size - _LENGTH_BYTES
    return [value[size : size + value[at] + 256 * value[at + 1]] for value in values]


def undecidable_code(value: bytes) -> int:
    """Return why an entry is undecidable, as a code of ``REASON_CODES``; 0 for a decidable one."""
    return value[_HEAD_BYTES - 1] & ~_HAS_SCOPE


def _check_head(value: bytes) -> None:
    if len(value) < _HEAD_BYTES or value[0] != FORMAT_VERSION:
        raise StateDecodeError(f"the entry in {shown(value)} is not of version {FORMAT_VERSION}")


def _as_void(rows: NDArray[np.uint64] | NDArray[np.uint8]) -> NDArray[np.void]:
    width = rows.shape[1] * rows.itemsize
    return np.ascontiguousarray(rows).view(f"V{width}").reshape(len(rows))
