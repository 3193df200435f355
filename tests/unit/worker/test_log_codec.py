"""Log records are decoded without loss; those of another index, and garbage, are refused."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simhash_core.fingerprints.blocks import BlockScheme
from simhash_core.log.records import Bundle, ChainHeads, Control, Found, LogRecord, Query, Report
from simhash_core.log.versions import NEWEST, OLDEST, UnreadableVersionError
from streams.worker.log_codec import (
    NOT_DECODED,
    LogCodec,
    LogDecodeError,
    OtherIndexError,
    version_of,
    writer_of,
)
from tests.unit.formats.internal_samples import DECIDED, DELETED
from tests.unit.store.samples import CHAIN, INDEX, columns_of, packet_of, sample
from tests.unit.store.strategies import (
    bundles,
    chains,
    columns,
    names,
    offsets,
    same_bundle,
    same_columns,
)

CODEC: Final = LogCodec(INDEX)
OTHER_CODEC: Final = LogCodec(INDEX.replace("distance=3", "distance=2"))
WHERE: Final = "news.log/0@17"
OTHER_CHAIN: Final = CHAIN._replace(partition=4)
BUNDLE: Final = Bundle.of(
    [packet_of([sample(5), sample(6, undecidable=True)]), packet_of([sample(3)], OTHER_CHAIN)]
)
HEADS: Final = ChainHeads.of([(CHAIN, 6), (OTHER_CHAIN, 3)])
BUNDLE_BYTES: Final = CODEC.encode(BUNDLE)
REPORT_BYTES: Final = CODEC.encode_report(Report("w", [3], 4, 5, 6, [Found(5, [])], {3: 2}))
each_kind: Final = pytest.mark.parametrize(
    ("value", "decode"),
    [
        (BUNDLE_BYTES, LogCodec.decode),
        (CODEC.encode(Query("q", 5, columns_of([sample(0)]))), LogCodec.decode),
        (CODEC.encode(Control(3, "w.1", True, [], HEADS, 4)), LogCodec.decode),
        (REPORT_BYTES, LogCodec.decode_report),
    ],
    ids=["bundle", "query", "control", "report"],
)
Decode = Callable[[LogCodec, bytes | None, str], object]

DAMAGED: Final = [
    None,
    b"",
    b"garbage",
    BUNDLE_BYTES[:-1],  # not MessagePack
    BUNDLE_BYTES.replace(sample(6).document_id.encode(), b"\xff" * 5),  # not UTF-8
    OTHER_CODEC.encode(BUNDLE),
    REPORT_BYTES,
]
places = st.integers(-1, 2**63 - 1)
controls = st.builds(
    Control,
    places,
    names,
    st.booleans(),
    st.lists(st.sampled_from([*DECIDED.decisions, *DELETED.decisions]), max_size=3),
    st.dictionaries(chains, places, max_size=4).map(lambda heads: ChainHeads.of(heads.items())),
    offsets,
    st.sampled_from([OLDEST, NEWEST]),
    st.lists(st.tuples(names, st.lists(offsets, max_size=3).map(tuple)), max_size=2).map(tuple),
)
queries = st.builds(Query, names, st.integers(0, 100), columns(least=1, most=1))


def is_same(found: object, record: LogRecord) -> bool:
    if isinstance(record, Bundle):
        return same_bundle(found, record)
    if isinstance(record, Query) and isinstance(found, Query):
        same = (found.identifier, found.limit) == (record.identifier, record.limit)
        return same and same_columns(found.columns, record.columns)
    return found == record


@given(st.lists(bundles() | queries | controls | st.sampled_from(DAMAGED), max_size=6))
def test_records_come_back_alone_and_together(records: list[LogRecord | bytes | None]) -> None:
    values = [
        each if each is None or isinstance(each, bytes) else CODEC.encode(each, NEWEST)
        for each in records
    ]
    where = [f"{WHERE}{at}" for at in range(len(values))]
    together = CODEC.decode_many(values, where)
    for found, record, value, place in zip(together, records, values, where, strict=True):
        if isinstance(found, NOT_DECODED):
            assert record is value
            with pytest.raises(type(found)) as alone:
                CODEC.decode(value, place)
            assert str(alone.value) == str(found)
            assert place in str(found)
        else:
            assert not isinstance(record, bytes | None)
            assert is_same(found, record)
            assert is_same(CODEC.decode(value, place), record)


@given(controls)
def test_older_control_records_have_no_standbys(control: Control) -> None:
    expected = msgspec.structs.replace(control, standbys=())
    assert CODEC.decode(CODEC.encode(control, OLDEST), WHERE) == expected


def test_a_damaged_bundle_does_not_harm_those_decoded_with_it() -> None:
    value = CODEC.encode(replaced_bundle(offsets=np.array([6, 5, 3])))
    good, bad, other = CODEC.decode_many([BUNDLE_BYTES, value, BUNDLE_BYTES], ["a", "b", "c"])
    assert is_same(good, BUNDLE)
    assert is_same(other, BUNDLE)
    assert isinstance(bad, LogDecodeError)
    assert "record b is damaged" in str(bad)


@each_kind
def test_a_record_of_another_index_is_told_apart(value: bytes, decode: Decode) -> None:
    with pytest.raises(OtherIndexError, match=WHERE):
        decode(OTHER_CODEC, value, WHERE)


@each_kind
def test_a_record_that_is_cut_anywhere_is_refused(value: bytes, decode: Decode) -> None:
    for end in range(len(value)):
        with pytest.raises(LogDecodeError, match=WHERE):
            decode(CODEC, value[:end], WHERE)
    with pytest.raises(LogDecodeError, match="does another program write"):
        decode(CODEC, None, WHERE)


@each_kind
@given(data=st.data(), garbage=st.binary(max_size=80))
def test_a_record_with_garbage_is_decoded_or_refused(
    value: bytes, decode: Decode, data: st.DataObject, garbage: bytes
) -> None:
    at = data.draw(st.integers(0, len(value)))
    for each in (value[:at] + garbage + value[at + len(garbage) :], value[:18] + garbage, garbage):
        try:
            decode(CODEC, each, WHERE)
        except NOT_DECODED:
            continue


@each_kind
def test_a_record_that_is_nested_too_deep_is_refused(value: bytes, decode: Decode) -> None:
    """A reader ignores unknown fields at the end, but msgspec does not skip any depth."""
    body = msgspec.msgpack.encode(msgspec.msgpack.decode(value[18:]))
    # A control record without decisions has one field less.
    two_fields_more = bytes((body[0] + 2,)) + body[1:] + b"\x90"
    deep = value[:18] + two_fields_more + b"\x91" * 100_000 + b"\x01"
    with pytest.raises(LogDecodeError, match=f"{WHERE} is damaged: .*recursion"):
        decode(CODEC, deep, WHERE)
    assert CODEC.sender_of(deep) is None


@pytest.mark.parametrize("number", [-1, 2, 1 << 50])
def test_chains_without_their_partitions_are_refused(number: int) -> None:
    """Equal numbers take no bytes, so the number of chains could ask for any memory."""
    value = CODEC.encode(Control(3, "w.1", True, [], ChainHeads.of([(CHAIN, 6)]), 4))
    body = msgspec.msgpack.decode(value[18:])
    chains = msgspec.msgpack.decode(body[4])
    chains[0][2] = number
    body[4] = msgspec.msgpack.encode(chains)
    with pytest.raises(LogDecodeError, match=f"{WHERE} is damaged: "):
        CODEC.decode(value[:18] + msgspec.msgpack.encode(body), WHERE)


@pytest.mark.parametrize(
    "value", [BUNDLE_BYTES, CODEC.encode(Query("q", 5, columns_of([sample(0)])))]
)
def test_fingerprints_of_another_length_are_refused(value: bytes) -> None:
    """They could not be compared with those of the index."""
    LogCodec(INDEX, BlockScheme(bits=64, blocks=4, distance=3)).decode(value, WHERE)
    wider = LogCodec(INDEX, BlockScheme(bits=128, blocks=8, distance=3))
    with pytest.raises(LogDecodeError, match=f"{WHERE} is damaged: fingerprints of 1 words"):
        wider.decode(value, WHERE)


def test_another_version_is_refused_with_those_that_are_read() -> None:
    assert version_of(None) == version_of(b"") == 0
    for byte, version in ((NEWEST + 1, NEWEST + 1), (OLDEST, 0), (2, 2)):
        value = bytes((byte,)) + BUNDLE_BYTES[1:]
        assert version_of(value) == version
        said = f"version {version},.*{OLDEST} to {NEWEST}"
        with pytest.raises(UnreadableVersionError, match=said):
            CODEC.decode(value, WHERE)
        with pytest.raises(OtherIndexError):
            OTHER_CODEC.decode(value, WHERE)


def test_a_record_on_the_wrong_topic_is_refused() -> None:
    with pytest.raises(LogDecodeError, match="unknown kind"):
        CODEC.decode(REPORT_BYTES, WHERE)
    with pytest.raises(LogDecodeError, match="unknown kind"):
        CODEC.decode_report(BUNDLE_BYTES, WHERE)


def test_chains_come_back_after_other_ones() -> None:
    """A codec remembers the latest chains; a reader begins with none, and both follow changes."""
    reading = LogCodec(INDEX)
    few, more = ChainHeads.of([(CHAIN, 6)]), HEADS
    for heads in (few, few._replace(last=array("q", [7])), more, few, ChainHeads(), more):
        control = Control(3, "w.1", False, [], heads, 4)
        assert reading.decode(CODEC.encode(control), WHERE) == control


TOPIC, PARTITION, NUMBER, PREVIOUS, LAST, ROWS = range(6)  # of a segment (docs/formats.md)


@pytest.mark.parametrize(
    ("at", "changes", "message"),
    [
        (1, {PARTITION: CHAIN.partition}, "two packets of the same partition"),
        (0, {ROWS: 1}, "packets of other sizes than 3 documents"),
        (1, {ROWS: 2}, "packets of other sizes than 3 documents"),
        (0, {ROWS: 0}, "Expected `int` >= 1"),
        (0, {PREVIOUS: 6}, "behind offset 6 up to 6"),
        (0, {LAST: -1, PREVIOUS: -1}, "behind offset -1 up to -1"),
        (0, {PREVIOUS: -2}, "Expected `int` >= -1"),
        (0, {PREVIOUS: 2**64 - 2, LAST: 2**64 - 1}, f"Expected `int` <= {2**63 - 1}"),
        (0, {LAST: 5}, "documents beyond the offsets of their packet"),
        (0, {PREVIOUS: 5, LAST: 6}, "documents beyond the offsets of their packet"),
        (1, {PREVIOUS: 4, LAST: 4}, "behind offset 4 up to 4"),
        (1, {TOPIC: 1}, "a packet of topic 1"),
        (1, {TOPIC: -1}, "Expected `int` >= 0"),
        (1, {PARTITION: -1}, "Expected `int` >= 0"),
        (0, None, "Expected `array` of length >= 1"),
    ],
)
def test_a_bundle_whose_packets_cannot_be_is_refused(
    at: int, changes: dict[int, int] | None, message: str
) -> None:
    body = msgspec.msgpack.decode(BUNDLE_BYTES[18:])
    if changes is None:
        body[2] = []
    else:
        for field, changed in changes.items():
            body[2][at][field] = changed
    wrong = BUNDLE_BYTES[:18] + msgspec.msgpack.encode(body)
    with pytest.raises(LogDecodeError, match=f"{WHERE} is damaged: .*{message}"):
        CODEC.decode(wrong, WHERE)


def replaced_bundle(**changes: object) -> Bundle:
    columns = replace(BUNDLE.columns, **changes)  # type: ignore[arg-type]
    return Bundle(BUNDLE.worker, BUNDLE.segments, columns)


@pytest.mark.parametrize(
    ("offsets", "message"),
    [
        ((5, 5, 3), "do not ascend"),
        ((6, 5, 3), "do not ascend"),
        ((5, -(2**63) + 4, 3), "beyond the offsets"),  # 2**63 - 1 after the packet's first offset
    ],
)
def test_documents_at_offsets_that_cannot_be_are_refused(
    offsets: tuple[int, ...], message: str
) -> None:
    value = CODEC.encode(replaced_bundle(offsets=np.array(offsets)))
    with pytest.raises(LogDecodeError, match=message):
        CODEC.decode(value, WHERE)


@pytest.mark.parametrize(
    ("heads", "message"),
    [
        (ChainHeads(HEADS.chains[::-1], HEADS.last), "do not ascend"),
        (ChainHeads((CHAIN, CHAIN), HEADS.last), "do not ascend"),
        (ChainHeads(HEADS.chains, array("q", [6, 3, 9])), "are not 2 numbers"),
    ],
)
def test_heads_that_cannot_be_are_refused(heads: ChainHeads, message: str) -> None:
    with pytest.raises(LogDecodeError, match=f"{WHERE} is damaged: .*{message}"):
        LogCodec(INDEX).decode(CODEC.encode(Control(3, "w.1", False, [], heads, 4)), WHERE)


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
@pytest.mark.parametrize("codec", [CODEC, OTHER_CODEC])
def test_bundles_and_control_records_of_any_index_say_who_appended_them(
    codec: LogCodec, version: int
) -> None:
    control = Control(3, "news.4f1c.1", True, [], HEADS, 4)
    query = Query("q", 5, columns_of([sample(0)]))
    assert writer_of(codec.encode(BUNDLE, version)) == BUNDLE.worker
    assert writer_of(codec.encode(control, version)) == control.leader
    for other in (codec.encode(query, version), None, b"", b"\x00", b"\x03C garbage", b"\x03B"):
        assert writer_of(other) is None
