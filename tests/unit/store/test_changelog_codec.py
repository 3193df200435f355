"""Records of the changelog: entries and progress come back, and nothing else is taken for them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simhash_core.documents import Entry
from simhash_core.log.records import Chain, Packet, Progress, Sender, entry_of
from simhash_core.log.shard_stream import NewEntries
from streams.errors import StateMismatchError
from streams.store.changelog_codec import (
    CHANGELOG_VERSION,
    ChangelogFormatError,
    ChangelogRecord,
    LoggedDeletions,
    LoggedEnd,
    LoggedProgress,
    decode_record,
    decode_records,
    encode_deletions,
    encode_end,
    encode_entries,
    encode_progress,
)
from streams.store.columns_codec import encode_numbers
from streams.store.row_codec import EntryBlock
from tests.unit.store.samples import INDEX, READING, new_entries, packet_of, progress_at, sample
from tests.unit.store.strategies import chains, names, offsets, packets, same_columns


@given(packets(), st.integers(0, 2**48 - 1), st.data())
def test_any_entries_of_a_packet_come_back(
    packet: Packet, log_offset: int, data: st.DataObject
) -> None:
    documents = np.flatnonzero(packet.columns.are_documents).tolist()
    if not documents:
        return
    rows = sorted(data.draw(st.sets(st.sampled_from(documents), min_size=1)))
    new = NewEntries(log_offset, packet, np.array(rows, dtype=np.intp))
    block = decode_record(*encode_entries(new), "changelog/3@7")
    assert isinstance(block, EntryBlock)
    assert block.chain == packet.chain
    assert block.sequences.tolist() == [log_offset << 16 | row for row in rows]
    entries = dataclasses.replace(packet.columns.take(np.array(rows)), operations=None)
    assert same_columns(block.columns, entries)


@given(chains, offsets, offsets, st.integers(-1, 2**63 - 1), names, names)
def test_progress_comes_back(
    chain: Chain, following: int, position: int, control: int, identity: str, reading: str
) -> None:
    progress = Progress(chain, following, position, control)
    found = decode_record(*encode_progress(progress, identity, reading), "changelog/3@7")
    assert found == LoggedProgress(progress, identity, reading)


def test_records_of_one_packet_have_keys_of_their_own() -> None:
    """Compaction keeps both records; all progress has one key."""
    samples = [sample(offset) for offset in range(4)]
    first, second = (encode_entries(new_entries(9, samples, rows)) for rows in ([0, 1], [2, 3]))
    progress = [encode_progress(progress_at(n).progress, INDEX, READING) for n in (1, 2)]
    assert first.key != second.key
    assert progress[0].key == progress[1].key


def test_record_takes_fewer_than_60_bytes_a_document() -> None:
    samples = [sample(n)._replace(document_id=f"document-{n:011d}") for n in range(250)]
    assert encode_entries(new_entries(9, samples)).size < 60 * 250


@pytest.mark.parametrize("key", [None, b"", b"x", b"e", b"e1234567", b"p1", b"e123456789"])
def test_unknown_keys_are_refused(key: bytes | None) -> None:
    value = encode_progress(progress_at(1).progress, INDEX, READING).value
    with pytest.raises(ChangelogFormatError, match="changelog/3@7"):
        decode_record(key, value, "changelog/3@7")


def test_a_tombstone_of_progress_is_refused() -> None:
    with pytest.raises(ChangelogFormatError, match="no value"):
        decode_record(b"p", None, "changelog/3@7")


def test_another_version_is_refused_in_one_line_with_the_fix() -> None:
    with pytest.raises(
        ChangelogFormatError, match="format version 2, this program reads"
    ) as caught:
        decode_record(b"x", b"\x02\x90", "changelog/3@7")
    assert isinstance(caught.value, StateMismatchError)
    assert "new application id" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_deletions_and_ends_come_back() -> None:
    first = 9 << 16 | 2
    deletions = LoggedDeletions(first, [first, first + 3])
    records = [
        encode_entries(new_entries(9, [sample(5), sample(6)])),
        encode_deletions(deletions),
        *encode_end(7 << 16),
    ]
    decoded = decode_records(*_columns(records), str)
    assert decoded.deletions == [deletions]
    assert decoded.ends == [LoggedEnd(7 << 16)] * 2
    assert [len(block) for block in decoded.blocks] == [2]
    assert decode_record(*records[1], "here") == deletions


@pytest.mark.parametrize(
    "added", [[], [3, 1], [0, 0], [-1], [1 << 16]], ids=["none", "falling", "twice", "-1", "far"]
)
def test_invalid_deletions_are_refused(added: list[int]) -> None:
    numbers = encode_numbers(np.array(added, dtype=np.int64))
    body = msgspec.msgpack.encode([len(added), msgspec.structs.astuple(numbers)])
    with pytest.raises(ChangelogFormatError, match="changelog/3@7"):
        decode_record(b"d" + bytes(8), bytes((CHANGELOG_VERSION,)) + body, "changelog/3@7")


RECORDS = [
    encode_entries(new_entries(9, [sample(5), sample(6, undecidable=True)])),
    encode_progress(progress_at(1).progress, INDEX, READING),
    encode_deletions(LoggedDeletions(9 << 16, [9 << 16 | 1, 9 << 16 | 40_000])),
]


@pytest.mark.parametrize("record", RECORDS, ids=["entries", "progress", "deletions"])
def test_record_that_is_cut_anywhere_is_refused(record: ChangelogRecord) -> None:
    value = record.value or b""
    for end in range(len(value)):
        with pytest.raises(ChangelogFormatError, match="changelog/3@7"):
            decode_record(record.key, value[:end], "changelog/3@7")


@given(st.sampled_from(RECORDS), st.binary(max_size=120), st.data())
def test_garbage_is_decoded_or_refused(
    record: ChangelogRecord, garbage: bytes, data: st.DataObject
) -> None:
    whole = record.value or b""
    at = data.draw(st.integers(0, len(whole)))
    value = whole[:at] + garbage + whole[at + len(garbage) :]
    for each in (value, whole[:1] + garbage):
        try:
            decode_record(record.key, each, "changelog/3@7")
        except ChangelogFormatError:
            continue


def entries_in(blocks: Sequence[EntryBlock]) -> list[tuple[int, Entry]]:
    return [
        (int(sequence), entry_of(Packet(block.chain, Sender("", 0), -1, 0, block.columns), row))
        for block in blocks
        for row, sequence in enumerate(block.sequences)
    ]


@given(found=st.lists(st.tuples(st.integers(0, 9), packets()), max_size=8), in_order=st.booleans())
def test_records_are_decoded_together_as_one_by_one(
    found: list[tuple[int, Packet]], *, in_order: bool
) -> None:
    if in_order:
        found.sort(key=lambda each: each[0])
    new = [NewEntries(at, p, np.arange(len(p), dtype=np.intp)) for at, p in found if len(p)]
    records = [encode_entries(each) for each in new]
    records[1:1] = [encode_progress(progress_at(n).progress, INDEX, READING) for n in (1, 2)]
    blocks, progress, _, _ = decode_records(*_columns(records), str)
    each = [decode_record(*record, "x") for record in records]
    assert entries_in(blocks) == entries_in([one for one in each if isinstance(one, EntryBlock)])
    assert progress == [LoggedProgress(progress_at(n).progress, INDEX, READING) for n in (1, 2)]
    for block in blocks:
        assert all(block.sequences[1:] > block.sequences[:-1])


@pytest.mark.parametrize("damage", [lambda v: v[:-1], lambda v: v[:-8], lambda v: v[:1] + b"\x90"])
def test_the_damaged_one_of_many_is_named(damage: Callable[[bytes], bytes]) -> None:
    records = [encode_entries(new_entries(at, [sample(at)])) for at in range(20)]
    records[7] = records[7]._replace(value=damage(records[7].value or b""))
    with pytest.raises(ChangelogFormatError, match="record 7 "):
        decode_records(*_columns(records), str)


def test_the_one_of_many_that_does_not_fit_is_named() -> None:
    records = [encode_entries(new_entries(at, [sample(at)])) for at in range(20)]
    wrong = sample(7)._replace(offset=-7)
    packet = packet_of([sample(7)])
    columns = dataclasses.replace(packet.columns, offsets=np.array([wrong.offset]))
    packet = dataclasses.replace(packet, columns=columns)
    records[7] = encode_entries(NewEntries(7, packet, np.arange(1)))
    with pytest.raises(ChangelogFormatError, match="record 7 is damaged: offsets or rows"):
        decode_records(*_columns(records), str)


def test_many_small_packets_make_one_block() -> None:
    records = [encode_entries(new_entries(at, [sample(at)])) for at in range(1000)]
    assert len(decode_records(*_columns(records), str).blocks) == 1


def _columns(
    records: Sequence[ChangelogRecord],
) -> tuple[list[bytes | None], list[bytes | None]]:
    return [record.key for record in records], [record.value for record in records]
