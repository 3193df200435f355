"""Keys sort as what they name, no key meets another, and what is not ours is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simhash_core.blocks import MOST_BLOCKS, content_bucket
from simhash_core.documents import SourcePosition
from simhash_core.entries import Entry, Progress
from simhash_core.errors import UsageError
from streams import state_codec as codec
from streams.state_codec import StateDecodeError, StoreIdentity
from tests.block_table.samples import entry_of, fingerprint_of, parked

numbers = st.one_of(
    st.integers(0, 2**64 - 1),
    st.sampled_from([0, 255, 256, 2**16 - 1, 2**16, 2**32 - 1, 2**32, 2**63, 2**64 - 1]),
)
sources = st.builds(SourcePosition, st.text(max_size=8), st.integers(0, 2**32 - 1), numbers)
IDENTITY = StoreIdentity("firstseen-index/1 …", "news", 3, 16)


@given(numbers, numbers)
def test_orders_and_tickets_sort_as_numbers(a: int, b: int) -> None:
    """Given two numbers, then their keys compare as they do."""
    assert (codec.entry_key(a) < codec.entry_key(b)) == (a < b)
    assert (codec.parked_key(a) < codec.parked_key(b)) == (a < b)
    assert codec.entry_order(codec.entry_key(a)) == a


@given(numbers, numbers)
def test_pending_entries_of_a_partition_sort_by_offset(a: int, b: int) -> None:
    """Given two arrivals of one partition, then their keys compare as their offsets do."""
    keys = [codec.pending_key(SourcePosition("raw", 7, offset)) for offset in (a, b)]
    assert (keys[0] < keys[1]) == (a < b)


@given(sources, sources)
def test_pending_keys_are_distinct_and_read_back(a: SourcePosition, b: SourcePosition) -> None:
    """Given two arrivals, whatever their topics, then their keys are equal only if they are, and
    give them back.
    """
    assert (codec.pending_key(a) == codec.pending_key(b)) == (a == b)
    assert codec.pending_source(codec.pending_key(a)) == a


@given(st.binary(min_size=16, max_size=16), st.binary(min_size=16, max_size=16))
def test_no_content_begins_another(a: bytes, b: bytes) -> None:
    """Given two digests, then the prefixes of their buckets have the length that RocksDB's filters
    are made for, and are equal only if the digests are.
    """
    prefixes = [codec.content_prefix(content_bucket(each)) for each in (a, b)]
    assert {len(prefix) for prefix in prefixes} == {codec.CONTENT_PREFIX_BYTES}
    assert (prefixes[0] == prefixes[1]) == (a == b)


def test_index_of_a_content_bucket_is_no_block() -> None:
    """Given the most blocks that a scheme can have, then none is named as a content bucket is."""
    assert content_bucket(b"")[0] > MOST_BLOCKS - 1


def test_tags_are_distinct() -> None:
    """Given all tags, then no two are equal, and the ranges that are read end before the next."""
    tags = [
        codec.IDENTITY_KEY,
        codec.COUNT_KEY,
        codec.PROGRESS_KEY,
        codec.ENTRY_TAG,
        codec.CONTENT_TAG,
        codec.SEGMENT_TAG,
        codec.PENDING_TAG,
        codec.PARKED_TAG,
    ]
    assert len(set(tags)) == len(tags)
    for tag in tags:
        inside = [t for t in tags if tag <= t < codec.after(tag)]
        assert inside == [tag]


def test_values_read_back() -> None:
    """Given each kind of value, then it decodes to what was encoded."""
    entry, visit = entry_of(7, fingerprint_of(1, 2)), parked(3, SourcePosition("t", 1, 2))
    progress = Progress(9, {"raw/t/0": 8}, {1: 2}, 3, 4, 5)
    assert codec.decode_entry(codec.encode_entry(entry)) == entry
    assert codec.decode_parked(codec.encode_parked(visit)) == visit
    assert codec.decode_progress(codec.encode_progress(progress)) == progress
    segment = codec.SegmentRecord(16_384, 2**40, bytes(16))
    assert codec.decode_segment(codec.encode_segment(segment)) == segment
    assert codec.decode_count(codec.encode_count(2**40)) == 2**40
    assert codec.decode_identity(codec.encode_identity(IDENTITY)) == IDENTITY
    assert codec.format_version(codec.encode_identity(IDENTITY)) == codec.FORMAT_VERSION


@given(st.binary(max_size=40))
def test_garbage_is_refused_or_read_but_never_breaks(raw: bytes) -> None:
    """Given any bytes for a key or a value, then a decoder reads them, or says what they are."""
    decoders = (
        codec.decode_entry,
        codec.decode_parked,
        codec.decode_progress,
        codec.decode_count,
        codec.decode_identity,
        codec.format_version,
        codec.entry_order,
        codec.pending_source,
        codec.parked_ticket,
        codec.segment_first,
        codec.decode_segment,
    )
    for decode in decoders:
        try:
            decode(raw)
        except StateDecodeError as error:
            # Of an identity, the two bytes of the version are not shown.
            message = str(error)
            assert raw[2:8].hex() in message or "no bytes" in message


def test_a_cut_value_is_refused() -> None:
    """Given every beginning of an entry's value, then none but the whole is read."""
    whole = codec.encode_entry(entry_of(7, fingerprint_of(1, 2)))
    for length in range(len(whole)):
        with pytest.raises(StateDecodeError, match="entry"):
            codec.decode_entry(whole[:length])


def test_an_entry_that_grew_is_read() -> None:
    """Given an entry with a field that a later version added at its end, then the others are
    read; so fields may be added without a new format version.
    """
    entry = entry_of(7, fingerprint_of(1))
    value = codec.encode_entry(entry)
    rest = codec.ENTRY_HEAD_BYTES + len(entry.fingerprint)
    longer = value[:rest] + bytes((value[rest] + 1,)) + value[rest + 1 :] + b"\x2a"

    assert isinstance(codec.decode_entry(longer), Entry)
    assert codec.decode_entry(longer) == entry


@pytest.mark.parametrize(
    "source",
    [SourcePosition("t", -1, 0), SourcePosition("t", 2**32, 0), SourcePosition("t", 0, -1)],
)
def test_sources_out_of_range_are_refused(source: SourcePosition) -> None:
    """Given a source that its key has no room for, then the caller is told, not the store."""
    with pytest.raises(UsageError, match=r"cannot be stored: .* must be from 0 to"):
        codec.pending_key(source)
