"""Entries and progress as records of the changelog, and back (docs/formats.md, "Changelog").

::

    key                             value
    e, first sequence number (8)    version (1), MessagePack: the new entries of one packet
    p                               version (1), MessagePack: progress, identity, reading rules

Entries are columns, so that a document adds nothing but its own bytes. Log compaction keeps all of
them, since no two records of entries have one key, and the last progress. There are no tombstones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

import msgspec
import numpy as np

from simhash_core.errors import ErrorReason, FirstseenError
from simhash_core.log.packets import Chain
from simhash_core.log.records import Progress
from simhash_core.log.sequence import INDEX_BITS, PACKET_DOCUMENTS_LIMIT
from simhash_core.log.shard_stream import NewEntries
from streams.errors import StateMismatchError
from streams.store.columns_codec import (
    ColumnsError,
    EncodedColumns,
    EncodedNumbers,
    check_rising,
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

_JOINED_ENTRIES: Final = 4096
_KEY_BYTES: Final = len(ENTRIES_TAG) + NUMBER_BYTES
_LOG_OFFSETS: Final = 1 << 64 - INDEX_BITS


class ChangelogFormatError(FirstseenError):
    """A changelog record that cannot be read; the message names it."""

    reason = ErrorReason.FORMAT


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

    def follows(self, other: _Entries) -> bool:
        """Whether both can be one block: of one raw partition, rising in the log."""
        return (
            self.log_offset > other.log_offset
            and self.columns.words == other.columns.words
            and self.chain == other.chain
        )


class Decoded(NamedTuple):
    """What records say: entries in their order, and the last progress."""

    blocks: list[EntryBlock]
    progress: LoggedProgress | None


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
    found = _opened(key, value, lambda: where)
    if isinstance(found, LoggedProgress):
        return found
    try:
        return _block([found])
    except ColumnsError as error:
        raise _damaged(where, error) from error


def decode_records(
    keys: Sequence[bytes | None], values: Sequence[bytes | None], where: Callable[[int], str]
) -> Decoded:
    """Return what records say; ``where`` names one by its index. Raises ``ChangelogFormatError``.

    Entries of packets that follow each other are joined: most of the cost is that of a block, and
    packets are small where few documents come.
    """
    progress: LoggedProgress | None = None
    runs: list[list[_Entries]] = []
    documents = 0
    for index, (key, value) in enumerate(zip(keys, values, strict=True)):
        found = _opened(key, value, partial(where, index))
        if isinstance(found, LoggedProgress):
            progress = found
            continue
        if not runs or documents > _JOINED_ENTRIES or not found.follows(runs[-1][-1]):
            runs.append([])
            documents = 0
        runs[-1].append(found)
        documents += found.columns.documents
    try:
        return Decoded([_block(run) for run in runs], progress)
    except ColumnsError:
        for index, (key, value) in enumerate(zip(keys, values, strict=True)):
            decode_record(key, value, where(index))  # one of them raises, and names its record
        raise


def _opened(
    key: bytes | None, value: bytes | None, where: Callable[[], str]
) -> _Entries | LoggedProgress:
    """Return what MessagePack says in a record of this version."""
    if not key or not value:
        raise ChangelogFormatError(
            f"the changelog record {where()} has no key or no value: who else writes to this topic?"
        )
    if value[:1] != _VERSION:
        raise ChangelogVersionError(
            f"the changelog record {where()} has format version {value[0]}, this program reads "
            f"{CHANGELOG_VERSION}: use the program that wrote it, or begin a new index: a new "
            "application id and an empty state directory"
        )
    body = memoryview(value)[1:]
    try:
        if key == PROGRESS_KEY:
            return _progress_decoder.decode(body)
        if len(key) == _KEY_BYTES and key[:1] == ENTRIES_TAG:
            return _entries_decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _damaged(where(), error) from error
    raise ChangelogFormatError(f"the changelog record {where()} has an unknown key {key.hex()}")


def _block(run: Sequence[_Entries]) -> EntryBlock:
    """Return the entries of packets that follow each other."""
    columns = decode_columns([each.columns for each in run])
    counts = [each.columns.documents for each in run]
    rows = decode_numbers([each.rows for each in run], counts)
    check_rising(rows, counts)
    if 0 in counts or rows.max() >= PACKET_DOCUMENTS_LIMIT:
        raise ColumnsError("entries without their rows in a packet")
    offsets = [each.log_offset for each in run]
    if min(offsets) < 0 or max(offsets) >= _LOG_OFFSETS:
        raise ColumnsError(f"{min(offsets)} or {max(offsets)} is no offset of the log")
    first = np.repeat(np.array(offsets, dtype=np.uint64) << np.uint64(INDEX_BITS), counts)
    return EntryBlock(run[0].chain, first + rows.astype(np.uint64), columns)


def _damaged(where: str, error: Exception) -> ChangelogFormatError:
    return ChangelogFormatError(
        f"the changelog record {where} is damaged: {error}. The changelog is internal; no other "
        "program may write to it"
    )
