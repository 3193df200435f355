"""Entries and progress as records of the changelog, and back (docs/formats.md, "Changelog").

::

    key                             value
    e, first sequence number (8)    version (1), MessagePack: the new entries of one packet
    p                               version (1), MessagePack: progress, identity, reading rules

Entries are columns, so that a document adds nothing but its own bytes. Log compaction keeps all of
them, since no two records of entries have one key, and the last progress. There are no tombstones.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec
import numpy as np

from simhash_core.errors import FirstseenError
from simhash_core.log.packets import Chain
from simhash_core.log.records import Progress
from simhash_core.log.sequence import INDEX_BITS, PACKET_DOCUMENTS_LIMIT
from simhash_core.log.shard_stream import NewEntries
from streams.errors import StateMismatchError
from streams.store.columns_codec import (
    ColumnsError,
    EncodedColumns,
    EncodedNumbers,
    decode_columns,
    decode_numbers,
    encode_columns,
    encode_numbers,
)
from streams.store.entry_block import EntryBlock, entry_block
from streams.store.state_codec import NUMBER_BYTES

CHANGELOG_VERSION: Final = 3

ENTRIES_TAG: Final = b"e"
PROGRESS_KEY: Final = b"p"

_KEY_BYTES: Final = len(ENTRIES_TAG) + NUMBER_BYTES
_LOG_OFFSETS: Final = 1 << 64 - INDEX_BITS


class ChangelogFormatError(FirstseenError):
    """A changelog record that cannot be read; the message names it."""


class ChangelogVersionError(ChangelogFormatError, StateMismatchError):
    """A changelog record of another version of Firstseen."""


class ChangelogRecord(NamedTuple):
    """Key and value of a record."""

    key: bytes
    value: bytes


class LoggedProgress(msgspec.Struct, frozen=True, array_like=True):
    """How far a shard has come. ``identity``: of the index. ``reading``: rules of raw records.

    ``writer``: the transactional id of the worker that committed it, "" where it had none.
    """

    progress: Progress
    identity: str
    reading: str
    writer: str = ""


class _Entries(msgspec.Struct, frozen=True, array_like=True):
    """``rows``: of the entries in the packet at ``log_offset``."""

    chain: Chain
    log_offset: int
    rows: EncodedNumbers
    columns: EncodedColumns


_VERSION: Final = bytes((CHANGELOG_VERSION,))
_encode = msgspec.msgpack.Encoder().encode
_entries_decoder = msgspec.msgpack.Decoder(_Entries)
_progress_decoder = msgspec.msgpack.Decoder(LoggedProgress)


def encode_entries(new: NewEntries) -> ChangelogRecord:
    """Return the record of the new entries of one packet, of which there are some."""
    block = entry_block(new)
    encoded = _Entries(
        block.chain,
        new.log_offset,
        encode_numbers(new.rows.astype(np.int64)),
        encode_columns(block.columns),
    )
    first = int(block.sequences[0]).to_bytes(NUMBER_BYTES, "big")
    return ChangelogRecord(ENTRIES_TAG + first, _VERSION + _encode(encoded))


def encode_progress(
    progress: Progress, identity: str, reading: str, writer: str = ""
) -> ChangelogRecord:
    """Return the record of the progress: the last one of a transaction."""
    logged = LoggedProgress(progress, identity, reading, writer)
    return ChangelogRecord(PROGRESS_KEY, _VERSION + _encode(logged))


def decode_record(
    key: bytes | None, value: bytes | None, where: str
) -> EntryBlock | LoggedProgress:
    """Return what a record says; ``where`` names it in errors. Raises ``ChangelogFormatError``."""
    if not key or not value:
        raise ChangelogFormatError(
            f"the changelog record {where} has no key or no value: who else writes to this topic?"
        )
    if value[:1] != _VERSION:
        raise ChangelogVersionError(
            f"the changelog record {where} has format version {value[0]}, this program reads "
            f"{CHANGELOG_VERSION}: use the program that wrote it, or begin a new index: a new "
            "application id and an empty state directory"
        )
    body = memoryview(value)[1:]
    try:
        if key == PROGRESS_KEY:
            return _progress_decoder.decode(body)
        if len(key) == _KEY_BYTES and key[:1] == ENTRIES_TAG:
            return _block(_entries_decoder.decode(body))
    except (msgspec.DecodeError, UnicodeDecodeError, ColumnsError) as error:
        raise ChangelogFormatError(
            f"the changelog record {where} is damaged: {error}. The changelog is internal; no "
            "other program may write to it"
        ) from error
    raise ChangelogFormatError(f"the changelog record {where} has an unknown key {key.hex()}")


def _block(entries: _Entries) -> EntryBlock:
    columns = decode_columns(entries.columns)
    rows = decode_numbers(entries.rows, len(columns))
    if not 0 <= entries.log_offset < _LOG_OFFSETS:
        raise ColumnsError(f"{entries.log_offset} is no offset of the log")
    if not len(rows) or rows[0] < 0 or rows[-1] >= PACKET_DOCUMENTS_LIMIT:
        raise ColumnsError("entries without their rows in a packet")
    if not bool(np.all(rows[1:] > rows[:-1])):
        raise ColumnsError("the rows of entries do not rise")
    first = np.uint64(entries.log_offset << INDEX_BITS)
    return EntryBlock(entries.chain, first + rows.astype(np.uint64), columns)
