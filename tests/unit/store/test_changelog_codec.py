"""Changelog records and their columns are decoded without loss; damaged ones are refused."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simhash_core.document_columns import DocumentColumns
from simhash_core.documents import Entry
from simhash_core.log.records import Chain, Packet, Progress, Sender, entry_of
from simhash_core.log.shard_stream import NewEntries
from simhash_core.log.versions import NEWEST, UnreadableVersionError
from streams.store.changelog_codec import (
    ChangelogFormatError,
    ChangelogRecord,
    Decoded,
    LoggedDeletions,
    LoggedEnd,
    LoggedProgress,
    decode_record,
    encode_deletions,
    encode_end,
    encode_progress,
)
from streams.store.columns_codec import (
    ColumnsError,
    EncodedColumns,
    EncodedNumbers,
    decode_columns,
    decode_numbers,
    encode_columns,
    encode_numbers,
)
from streams.store.row_codec import EntryBlock
from tests.unit.store.samples import (
    INDEX,
    READING,
    batch_of,
    columns_of,
    encode_entries,
    new_entries,
    packet_of,
    progress_at,
    sample,
)
from tests.unit.store.strategies import (
    chains,
    columns,
    names,
    offsets,
    packets,
    same_columns,
)

HERE = "changelog/3@7"


def progress_record(following: int) -> ChangelogRecord:
    return encode_progress(LoggedProgress(progress_at(following).progress, INDEX, READING))


def decoded(records: Sequence[ChangelogRecord]) -> Decoded:
    return batch_of(records, range(len(records))).decoded()


@given(packets, st.integers(0, 2**48 - 1), st.data())
def test_entries_of_packets_come_back(packet: Packet, log_offset: int, data: st.DataObject) -> None:
    documents = np.flatnonzero(packet.columns.are_documents).tolist()
    if not documents:
        return
    rows = sorted(data.draw(st.sets(st.sampled_from(documents), min_size=1)))
    new = NewEntries(log_offset, packet, np.array(rows, dtype=np.intp))
    block = decode_record(*encode_entries(new), HERE)
    assert isinstance(block, EntryBlock)
    assert block.chain == packet.chain
    assert block.sequences.tolist() == [log_offset << 16 | packet.first + row for row in rows]
    entries = dataclasses.replace(packet.columns.take(np.array(rows)), operations=None)
    assert same_columns(block.columns, entries)


@given(chains, offsets, offsets, st.integers(-1, 2**63 - 1), names, names)
def test_progress_comes_back(
    chain: Chain, following: int, position: int, control: int, identity: str, reading: str
) -> None:
    logged = LoggedProgress(Progress(chain, following, position, control), identity, reading)
    assert decode_record(*encode_progress(logged), HERE) == logged


def test_records_of_one_packet_have_keys_of_their_own() -> None:
    """So compaction keeps both records. All progress has one key."""
    samples = [sample(offset) for offset in range(4)]
    first, second = (encode_entries(new_entries(9, samples, rows)) for rows in ([0, 1], [2, 3]))
    assert first.key != second.key
    assert progress_record(1).key == progress_record(2).key


VALUE = progress_record(1).value


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *((key, VALUE) for key in (None, b"", b"x", b"e", b"e1234567", b"p1", b"e123456789")),
        (b"p", None),
    ],
)
def test_unknown_keys_are_refused(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(ChangelogFormatError, match=HERE):
        decode_record(key, value, HERE)


def test_records_of_other_programs_are_named_and_can_be_taken_back() -> None:
    """Their first byte is no version."""
    foreign = ChangelogRecord(b"key", b'{"text": "hello"}')
    ours = [progress_record(1), progress_record(2)]
    with pytest.raises(ChangelogFormatError, match=r"unknown key 6b6579: does another program"):
        decoded([ours[0], foreign, ours[1]])
    taken_back = foreign._replace(value=None)
    assert decoded([ours[0], taken_back, ours[1]]) == decoded(ours)
    assert decoded([ours[0], foreign, taken_back, ours[1]]) == decoded(ours)


@pytest.mark.parametrize(
    "added", [[], [3, 1], [0, 0], [-1], [1 << 16]], ids=["none", "falling", "twice", "-1", "far"]
)
def test_invalid_deletions_are_refused(added: list[int]) -> None:
    numbers = encode_numbers(np.array(added, dtype=np.int64))
    body = msgspec.msgpack.encode([len(added), msgspec.structs.astuple(numbers)])
    with pytest.raises(ChangelogFormatError, match=HERE):
        decode_record(b"d" + bytes(8), bytes((NEWEST,)) + body, HERE)


RECORDS = [
    encode_entries(new_entries(9, [sample(5), sample(6, undecidable=True)])),
    progress_record(1),
    encode_deletions(LoggedDeletions(9 << 16, [9 << 16 | 1, 9 << 16 | 40_000])),
]


@pytest.mark.parametrize("record", RECORDS, ids=["entries", "progress", "deletions"])
def test_record_that_is_cut_anywhere_is_refused(record: ChangelogRecord) -> None:
    value = record.value or b""
    for end in range(len(value)):
        with pytest.raises(ChangelogFormatError, match=HERE):
            decode_record(record.key, value[:end], HERE)


@given(st.sampled_from(RECORDS), st.binary(max_size=120), st.data())
def test_garbage_is_decoded_or_refused(
    record: ChangelogRecord, garbage: bytes, data: st.DataObject
) -> None:
    whole = record.value or b""
    at = data.draw(st.integers(0, len(whole)))
    value = whole[:at] + garbage + whole[at + len(garbage) :]
    for each in (value, whole[:1] + garbage):
        with contextlib.suppress(ChangelogFormatError, UnreadableVersionError):
            decode_record(record.key, each, HERE)


def entries_in(blocks: Sequence[EntryBlock]) -> list[tuple[int, Entry]]:
    return [
        (int(sequence), entry_of(Packet(block.chain, Sender("", 0), -1, 0, block.columns), row))
        for block in blocks
        for row, sequence in enumerate(block.sequences)
    ]


@given(found=st.lists(st.tuples(st.integers(0, 9), packets), max_size=8), in_order=st.booleans())
def test_records_are_decoded_together_as_one_by_one(
    found: list[tuple[int, Packet]], *, in_order: bool
) -> None:
    if in_order:
        found.sort(key=lambda each: each[0])
    new = [NewEntries(at, each, np.arange(len(each), dtype=np.intp)) for at, each in found]
    records = [encode_entries(each) for each in new]
    deletions = LoggedDeletions(9 << 16 | 2, [9 << 16 | 2, 9 << 16 | 5])
    records[1:1] = [progress_record(1), encode_deletions(deletions), *encode_end(99 << 16)]
    records.append(progress_record(2))
    together = decoded(records)
    each = [decode_record(*record, HERE) for record in records]
    blocks = [one for one in each if isinstance(one, EntryBlock)]
    assert entries_in(together.blocks) == entries_in(blocks)
    assert together.progress == [one for one in each if isinstance(one, LoggedProgress)]
    assert len(together.progress) == 2
    assert together.deletions == [deletions]
    assert together.ends == [LoggedEnd(99 << 16)] * 2
    for block in together.blocks:
        assert all(block.sequences[1:] > block.sequences[:-1])


def negative_offset() -> bytes | None:
    packet = packet_of([sample(7)])
    wrong = dataclasses.replace(packet.columns, offsets=np.array([-7]))
    packet = dataclasses.replace(packet, columns=wrong)
    return encode_entries(NewEntries(7, packet, np.arange(1))).value


RIGHT = encode_entries(new_entries(7, [sample(7)])).value or b""


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (RIGHT[:-1], HERE),
        (RIGHT[:-8], HERE),
        (RIGHT[:1] + b"\x90", HERE),
        (negative_offset(), f"record {HERE} is damaged: offsets or rows"),
    ],
    ids=["cut a little", "cut", "without fields", "negative offset"],
)
def test_invalid_record_among_many_is_named(wrong: bytes | None, said: str) -> None:
    records = [encode_entries(new_entries(at, [sample(at)])) for at in range(20)]
    records[7] = records[7]._replace(value=wrong)
    with pytest.raises(ChangelogFormatError, match=said):
        decoded(records)


def test_many_small_packets_make_one_block() -> None:
    records = [encode_entries(new_entries(at, [sample(at)])) for at in range(1000)]
    assert len(decoded(records).blocks) == 1


@given(columns())
def test_any_columns_come_back_with_their_types(documents: DocumentColumns) -> None:
    packed = msgspec.msgpack.encode(encode_columns(documents))
    found = decode_columns([msgspec.msgpack.decode(packed, type=EncodedColumns)])
    assert same_columns(found, documents)


@pytest.mark.parametrize(
    ("values", "width"),
    [
        *(([5, 5, 5], 0), ([-3, 252], 1), ([-3, 253], 2)),
        *(([0, 2**16], 4), ([0, 2**32], 8), ([-(2**63), 2**63 - 1], 8)),
    ],
)
def test_numbers_take_as_few_bytes_as_they_need(values: list[int], width: int) -> None:
    encoded = encode_numbers(np.array(values, dtype=np.int64))
    assert (encoded.base, encoded.width) == (min(values), width)
    assert len(encoded.added) == width * len(values)
    assert decode_numbers([encoded], [len(values)]).tolist() == values


def test_document_adds_little_beside_its_own_bytes() -> None:
    encoded = encode_columns(columns_of([sample(offset) for offset in range(1000, 1250)]))
    own = len(encoded.ids) + len(encoded.digests) + len(encoded.fingerprints)
    assert len(msgspec.msgpack.encode(encoded)) - own < 4 * 250 + 100


WRONG = {
    "too many documents": {"documents": 65_537},
    "a negative number of documents": {"documents": -1},
    "no words": {"words": 0},
    "too many words": {"words": 9},
    "fewer words than bytes": {"words": 2},
    "offsets of another number": {"offsets": EncodedNumbers(5, 1, b"\0")},
    "offsets that do not rise": {"offsets": EncodedNumbers(5, 0, b"")},
    "offsets below zero": {"offsets": EncodedNumbers(-5, 1, b"\0\1")},
    "offsets that run over": {"offsets": EncodedNumbers(2**63 - 1, 1, b"\0\1")},
    "a width that is none": {"times_ms": EncodedNumbers(0, 3, bytes(6))},
    "a base beyond 64 bits": {"times_ms": EncodedNumbers(2**63, 0, b"")},
    "an unknown reason": {"undecidable": EncodedNumbers(4, 0, b"")},
    "ids longer than they are": {"id_bytes": EncodedNumbers(9, 0, b"")},
    "ids of negative length": {"id_bytes": EncodedNumbers(-1, 1, b"\0\3")},
    "ids that are not UTF-8": {"ids": b"\xff\xff"},
    "ids cut within a character": {"ids": "é".encode()},
    "a digest that is cut": {"digests": bytes(31)},
    "a fingerprint that is cut": {"fingerprints": bytes(15)},
    "sketches that are not there": {"sketch_bytes": EncodedNumbers(1, 0, b"")},
}


@pytest.mark.parametrize("changed", WRONG.values(), ids=WRONG.keys())
def test_invalid_columns_are_refused(changed: dict[str, object]) -> None:
    right = EncodedColumns(
        documents=2,
        words=1,
        offsets=EncodedNumbers(5, 1, b"\0\1"),
        times_ms=EncodedNumbers(0, 0, b""),
        undecidable=EncodedNumbers(0, 0, b""),
        id_bytes=EncodedNumbers(1, 0, b""),
        ids=b"ab",
        sketch_bytes=EncodedNumbers(0, 0, b""),
        sketches=b"",
        digests=bytes(32),
        fingerprints=bytes(16),
    )
    assert len(decode_columns([right])) == 2
    with pytest.raises(ColumnsError):
        decode_columns([msgspec.structs.replace(right, **changed)])
