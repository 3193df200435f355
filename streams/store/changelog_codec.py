"""A shard's entries and progress as records of the changelog (docs/formats.md, "The changelog").

Entries are columns, so that a document adds only its own bytes. Log compaction keeps all records of
entries, because their keys differ. It keeps the last deletions of each record of entries, which
name all its deleted entries, and the last progress. When a packet has no entry left, its records
get tombstones (no value), and compaction removes them.

**Compare and append.** Without transactions, a paused worker or a late request can still write
after records of the shard's next owner. So a writer without transactions states the offset at which
it expects each record of entries and of progress; it has read everything before. A record at any
other offset never counts, for any reader. The acknowledgement tells its writer the real offset, and
the writer opens the shard again. Each opening has its own name in the keys of its entries and
deletions (*writer*, 8 bytes; none with transactions), so compaction never replaces a record that
counts by a late one. Deletions and tombstones are valid at any offset, because the log has decided
them.

A record has the version that is in force for its writer (``simhash_core.log.versions``). Records of
entries stay as they were written, so all versions ever released must be readable. Versions 4 and 5
have the same form. If the last progress record has version 5, a worker that only reads version 4
refuses the index before it joins the group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

import msgspec
import numpy as np
from msgspec.structs import astuple, replace

from simhash_core.errors import ErrorReason, FirstseenError
from simhash_core.log import versions
from simhash_core.log.records import (
    BUNDLE_DOCUMENTS_LIMIT,
    INDEX_BITS,
    NO_EPOCH,
    Chain,
    Progress,
    index_of,
    log_offset_of,
)
from simhash_core.log.versions import UnreadableVersionError
from streams.store.columns_codec import (
    DECODE_ERRORS,
    ColumnsError,
    EncodedColumns,
    EncodedNumbers,
    check_rising,
    decode_columns,
    decode_numbers,
    encode_columns,
    encode_numbers,
)
from streams.store.lineage import UNKNOWN, Lineage
from streams.store.row_codec import NUMBER_BYTES, EntryBlock

ENTRIES_TAG: Final = b"e"
DELETIONS_TAG: Final = b"d"
PROGRESS_KEY: Final = b"p"
WRITER_BYTES: Final = 8

NO_WRITER: Final = b""
"""The writer of records that were written in transactions or by earlier releases."""
ANYWHERE: Final = -1
"""The offset of records that count at any offset."""
_NO_EPOCHS: Final = (NO_EPOCH, NO_EPOCH)

_JOINED_ENTRIES: Final = 4096
_ENTRY_TAGS: Final = (ENTRIES_TAG, DELETIONS_TAG)
_KEY_BYTES: Final = len(ENTRIES_TAG) + NUMBER_BYTES
_KEYS_BYTES: Final = (_KEY_BYTES, _KEY_BYTES + WRITER_BYTES)
_LOG_OFFSETS: Final = 1 << 64 - INDEX_BITS


class ChangelogFormatError(FirstseenError):
    """A changelog record cannot be read; the message names it."""

    reason = ErrorReason.FORMAT


class ChangelogRecord(NamedTuple):
    """A record; a tombstone has the value None."""

    key: bytes
    value: bytes | None

    @property
    def size(self) -> int:
        return len(self.key) + len(self.value or b"")


class LoggedProgress(msgspec.Struct, frozen=True, array_like=True):
    """A shard's progress as the changelog has it."""

    progress: Progress
    identity: str  # of the index
    reading: str  # the rules of raw records
    writer: str = ""  # the transactional id of the worker; "": a command
    expired_before: int = 0  # all entries below this sequence number are gone
    lineage: Lineage = UNKNOWN
    leader_epoch: int = NO_EPOCH  # of the raw record before ``progress.next``


class _ProgressRecord(msgspec.Struct, frozen=True, array_like=True):
    """``LoggedProgress`` in its encoded form.

    It counts at one offset only; at any other offset, the progress ``before`` counts, if there is
    one.
    """

    progress: Progress
    identity: str
    reading: str
    writer: str = ""
    expired_before: int = 0
    offset: int = ANYWHERE
    before: Progress | None = None
    lineage: Lineage = UNKNOWN
    # Of the raw records before ``progress.next`` and ``before.next``.
    leader_epochs: tuple[int, int] = _NO_EPOCHS

    def at(self, offset: int) -> LoggedProgress | None:
        """Return the progress that a record means at an offset."""
        is_in_place = counts(self.offset, offset)
        progress = self.progress if is_in_place else self.before
        if progress is None:
            return None
        return LoggedProgress(
            progress,
            self.identity,
            self.reading,
            self.writer,
            self.expired_before,
            self.lineage if is_in_place else UNKNOWN,
            self.leader_epochs[0 if is_in_place else 1],
        )


class _Entries(msgspec.Struct, frozen=True, array_like=True):
    """``rows`` are the indexes of the entries in the packet at ``log_offset``."""

    chain: Chain
    log_offset: int
    rows: EncodedNumbers
    columns: EncodedColumns
    offset: int = ANYWHERE  # in the changelog: the only one at which they count

    def follows(self, other: _Entries) -> bool:
        """Return whether both fit in one block: the same raw partition, and later in the log."""
        return (
            self.log_offset > other.log_offset
            and self.columns.words == other.columns.words
            and self.chain == other.chain
        )


class _Deletions(msgspec.Struct, frozen=True, array_like=True):
    """``added`` has the offsets of ``count`` deleted entries from the first sequence number."""

    count: int
    added: EncodedNumbers


class LoggedDeletions(NamedTuple):
    """All deleted entries of the record of entries that begins with ``first``."""

    first: int
    sequences: list[int]


class LoggedEnd(NamedTuple):
    """The packet whose record began with ``first`` has no entry left.

    With a ``writer``, only the records of this writer are no longer needed. The packet has no entry
    left if no records of another writer count.
    """

    first: int
    writer: bytes = NO_WRITER


class Written(NamedTuple):
    """A record of entries or deletions that counts, from a writer without transactions."""

    first: int
    writer: bytes
    tag: bytes

    @property
    def end(self) -> LoggedEnd:
        return LoggedEnd(self.first, self.writer)


class Decoded(NamedTuple):
    """The contents of records that count; a deletion counts at any offset.

    ``late``: the keys of entries that do not count.
    """

    blocks: list[EntryBlock]
    progress: list[LoggedProgress]
    deletions: list[LoggedDeletions]
    ends: list[LoggedEnd]
    written: list[Written]
    late: list[bytes]


_VERSION: Final = bytes((versions.OLDEST,))  # until ``written_in``
_encode = msgspec.msgpack.Encoder().encode
_deletions_decoder = msgspec.msgpack.Decoder(_Deletions)
_entries_decoder = msgspec.msgpack.Decoder(_Entries)
_progress_decoder = msgspec.msgpack.Decoder(_ProgressRecord)


def counts(expected: int, offset: int) -> bool:
    """Return whether a record counts that its writer expected at an offset."""
    return expected in {ANYWHERE, offset}


def goes_back(read: LoggedProgress, known: Progress) -> bool:
    """Return whether a progress record is older than the one read before it.

    Without fencing, a worker that was paused while sending may write its records after those of the
    next owner. A record without a writer always counts, because a command wrote it while no worker
    ran.
    """
    progress = read.progress
    if not read.writer:
        return False
    if progress.chain != known.chain:
        return progress.chain.is_before(known.chain)
    return (progress.next, progress.position) < (known.next, known.position)


def furthest(
    known: LoggedProgress | None,
    records: Iterable[LoggedProgress],
    refused: Callable[[LoggedProgress, LoggedProgress], object] | None = None,
) -> LoggedProgress | None:
    """Return the last progress after ``known`` that does not go back; None if there is none.

    ``refused`` is called with each record that goes back, and the progress that counts instead.
    """
    for read in records:
        if known is None:
            known = read
            continue
        expired = max(known.expired_before, read.expired_before)
        if not goes_back(read, known.progress):
            known = replace(read, lineage=read.lineage if read.lineage.commit else known.lineage)
        elif refused is not None:
            refused(read, known)
        known = replace(known, expired_before=expired)
    return known


def encode_block(
    block: EntryBlock, writer: bytes = NO_WRITER, offset: int = ANYWHERE
) -> ChangelogRecord:
    """``offset``: where a ``writer`` without transactions expects the record in the changelog."""
    rows = (block.sequences & np.uint64(BUNDLE_DOCUMENTS_LIMIT - 1)).astype(np.int64)
    fields = (
        block.chain,
        log_offset_of(int(block.sequences[0])),
        encode_numbers(rows),
        encode_columns(block.columns),
        offset,
    )
    encoded = fields[:-1] if offset == ANYWHERE else fields
    key = _key(ENTRIES_TAG, int(block.sequences[0]), writer)
    return ChangelogRecord(key, _VERSION + _encode(encoded))


def encode_deletions(deletions: LoggedDeletions, writer: bytes = NO_WRITER) -> ChangelogRecord:
    added = np.array(deletions.sequences, dtype=np.int64) - deletions.first
    encoded = _Deletions(len(added), encode_numbers(np.sort(added)))
    key = _key(DELETIONS_TAG, deletions.first, writer)
    return ChangelogRecord(key, _VERSION + _encode(encoded))


def encode_end(first: int, writer: bytes = NO_WRITER) -> list[ChangelogRecord]:
    keys = _key(ENTRIES_TAG, first, writer), _key(DELETIONS_TAG, first, writer)
    return [ChangelogRecord(key, None) for key in keys]


def encode_progress(
    logged: LoggedProgress,
    offset: int = ANYWHERE,
    before: Progress | None = None,
    epoch_before: int = NO_EPOCH,
) -> ChangelogRecord:
    """Encode the last record of a commit.

    ``offset``: where a writer without transactions expects it. At any other offset, the record
    means the progress ``before``, which the shard has committed, with its leader epoch.
    """
    *fields, lineage, epoch = astuple(logged)
    epochs = epoch, epoch_before
    fields += [offset, before, lineage, epochs]
    # Fields at the end without information are left out, as in records of earlier releases.
    written = 9 if epochs != _NO_EPOCHS else 8 if lineage.commit else 7 if offset != ANYWHERE else 5
    return ChangelogRecord(PROGRESS_KEY, _VERSION + _encode(fields[:written]))


def written_in(record: ChangelogRecord, version: int) -> ChangelogRecord:
    """Return a record in another version, which has the same form."""
    if record.value is None or record.value[0] == version:
        return record
    return ChangelogRecord(record.key, bytes((version,)) + record.value[1:])


def _key(tag: bytes, first: int, writer: bytes) -> bytes:
    return tag + first.to_bytes(NUMBER_BYTES, "big") + writer


def first_sequence(key: bytes) -> int:
    """Return the sequence number in a key of entries or deletions, which may name a writer."""
    return int.from_bytes(key[1:_KEY_BYTES], "big")


def _written(key: bytes) -> Written:
    return Written(first_sequence(key), key[_KEY_BYTES:], key[:1])


def decode_record(
    key: bytes | None, value: bytes | None, where: str
) -> EntryBlock | LoggedProgress | LoggedDeletions | LoggedEnd:
    """Decode a record, even if it does not count; ``where`` names it in errors.

    Raises ``ChangelogFormatError``, and ``UnreadableVersionError``.
    """
    opened = _opened(key, value, lambda: where)
    if isinstance(opened, _ProgressRecord):
        logged = opened.at(opened.offset)
        assert logged is not None
        return logged
    if not isinstance(opened, _Entries):
        return opened
    try:
        return _block([opened])
    except ColumnsError as error:
        raise _damaged(where, error) from error


def decode_records(
    keys: Sequence[bytes | None],
    values: Sequence[bytes | None],
    offsets: Sequence[int],
    where: Callable[[int], str],
) -> Decoded:
    """Decode the records at ``offsets`` that count; ``where`` names one by its index.

    Raises as ``decode_record``. Tombstones with unknown keys take records of other programs back.

    Entries of consecutive packets are joined, because most of the cost is per block and packets may
    be small. Records with tombstones are skipped; other records of the same packet may follow and
    count.
    """
    decoded = Decoded([], [], [], [], [], [])
    entries: list[_Entries] = []
    ended = {key for key, value in zip(keys, values, strict=True) if value is None}
    for index, (key, value, offset) in enumerate(zip(keys, values, offsets, strict=True)):
        if value is None and key and not _is_known(key):
            continue
        if value is None or key not in ended:
            opened = _opened(key, value, partial(where, index))
            _note(decoded, entries, key or b"", opened, offset)
    try:
        return decoded._replace(blocks=[*map(_block, _runs_of(entries))])
    except ColumnsError:
        for index, (key, value) in enumerate(zip(keys, values, strict=True)):
            # This raises for one of them, and names its record.
            decode_record(key, value, where(index))
        raise


def _note(
    decoded: Decoded,
    entries: list[_Entries],
    key: bytes,
    opened: _Entries | _ProgressRecord | LoggedDeletions | LoggedEnd,
    offset: int,
) -> None:
    """Add the record at an offset to ``decoded`` or to ``entries``, if it counts."""
    match opened:
        case _ProgressRecord():
            if (progress := opened.at(offset)) is not None:
                decoded.progress.append(progress)
        case LoggedEnd():
            decoded.ends.append(opened)
        case _Entries() if not counts(opened.offset, offset):
            decoded.late.append(key)
        case _:
            if (written := _written(key)).writer:
                decoded.written.append(written)
            if isinstance(opened, LoggedDeletions):
                decoded.deletions.append(opened)
            else:
                entries.append(opened)


def _runs_of(entries: Iterable[_Entries]) -> Iterator[list[_Entries]]:
    """Yield entries together that fit in one block."""
    run: list[_Entries] = []
    documents = 0
    for each in entries:
        if run and (documents > _JOINED_ENTRIES or not each.follows(run[-1])):
            yield run
            run, documents = [], 0
        run.append(each)
        documents += each.columns.documents
    if run:
        yield run


def _opened(
    key: bytes | None, value: bytes | None, where: Callable[[], str]
) -> _Entries | _ProgressRecord | LoggedDeletions | LoggedEnd:
    if key and value is None and _is_of_entries(key):
        return _written(key).end
    if not key or not value:
        raise ChangelogFormatError(
            f"the changelog record {where()} has no key or no value: does another program write "
            "to this topic?"
        )
    if not _is_known(key):
        raise ChangelogFormatError(
            f"the changelog record {where()} has the unknown key {key.hex()}: does another program "
            'or a newer release write to this topic? The runbook for "unknown key" '
            "(docs/operations.md) says how to take the record back"
        )
    if not versions.OLDEST <= value[0] <= versions.NEWEST:
        raise UnreadableVersionError(f"the changelog record {where()}", value[0], versions.NEWEST)
    body = memoryview(value)[1:]
    try:
        if key == PROGRESS_KEY:
            return _progress_decoder.decode(body)
        if key[:1] == ENTRIES_TAG:
            return _entries_decoder.decode(body)
        return _deletions(_written(key).first, _deletions_decoder.decode(body))
    except DECODE_ERRORS as error:
        raise _damaged(where(), error) from error


def _is_known(key: bytes) -> bool:
    return key == PROGRESS_KEY or _is_of_entries(key)


def _is_of_entries(key: bytes) -> bool:
    return len(key) in _KEYS_BYTES and key[:1] in _ENTRY_TAGS


def _deletions(first: int, encoded: _Deletions) -> LoggedDeletions:
    if not 0 < encoded.count <= BUNDLE_DOCUMENTS_LIMIT:
        raise ColumnsError(f"{encoded.count} deletions of one packet")
    added = decode_numbers([encoded.added], [encoded.count])
    check_rising(added, [encoded.count])
    if index_of(first) + int(added[-1]) >= BUNDLE_DOCUMENTS_LIMIT:
        raise ColumnsError("a deletion beyond its packet")
    return LoggedDeletions(first, [first + each for each in added.tolist()])


def _block(run: Sequence[_Entries]) -> EntryBlock:
    columns = decode_columns([each.columns for each in run])
    counts = [each.columns.documents for each in run]
    rows = decode_numbers([each.rows for each in run], counts)
    check_rising(rows, counts)
    if 0 in counts or rows.max() >= BUNDLE_DOCUMENTS_LIMIT:
        raise ColumnsError("entries without their rows in a packet")
    offsets = [each.log_offset for each in run]
    if min(offsets) < 0 or max(offsets) >= _LOG_OFFSETS:
        raise ColumnsError(f"{min(offsets)} or {max(offsets)} is not an offset of the log")
    first = np.repeat(np.array(offsets, dtype=np.uint64) << np.uint64(INDEX_BITS), counts)
    return EntryBlock(run[0].chain, first + rows.astype(np.uint64), columns)


def _damaged(where: str, error: Exception) -> ChangelogFormatError:
    return ChangelogFormatError(
        f"the changelog record {where} is damaged: {error}. The changelog is internal; no other "
        "program may write to it"
    )
