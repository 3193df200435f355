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

from simhash_core.documents import SourcePosition
from simhash_core.errors import ProtocolError
from simhash_core.log.records import (
    Bundle,
    ChainHeads,
    Control,
    Decision,
    Found,
    LogRecord,
    Query,
    Removal,
    Report,
)
from simhash_core.log.versions import NEWEST, OLDEST, UnreadableVersionError
from simhash_core.verdicts import Answer, Match, Neighbour
from streams.worker.log_codec import (
    NOT_DECODED,
    LogCodec,
    LogDecodeError,
    OtherIndexError,
    version_of,
)
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
WHERE: Final = "news.log/0@17"
OTHER_CHAIN: Final = CHAIN._replace(partition=4)
BUNDLE: Final = Bundle.of(
    [packet_of([sample(5), sample(6, undecidable=True)]), packet_of([sample(3)], OTHER_CHAIN)]
)
HEADS: Final = ChainHeads.of([(CHAIN, 6), (OTHER_CHAIN, 3)])
EACH_KIND: Final[list[tuple[bytes, Callable[[bytes | None, str], object]]]] = [
    (CODEC.encode(BUNDLE), CODEC.decode),
    (CODEC.encode(Query("q", 5, columns_of([sample(0)]))), CODEC.decode),
    (CODEC.encode(Control(3, "w.1", True, [], HEADS, 4)), CODEC.decode),
    (CODEC.encode_report(Report("w", [3], 4, 5, 6, [Found(5, [])], {3: 2})), CODEC.decode_report),
]
each_kind: Final = pytest.mark.parametrize(
    ("value", "decode"), EACH_KIND, ids=["bundle", "query", "control", "report"]
)

numbers = st.integers(0, 2**63 - 1)
places = st.integers(-1, 2**63 - 1)
sources = st.builds(SourcePosition, names, st.integers(0, 2**31 - 1), offsets)
matches = st.builds(
    Match,
    row=st.integers(0, 65_535),
    distance=st.integers(0, 512),
    sequence=st.integers(0, 2**64 - 1),
    original_id=names,
    source=sources,
    event_time_ms=st.integers(-(2**63), 2**63 - 1),
    block=st.none() | st.integers(0, 127),
    exact=st.booleans(),
    similarity=st.none() | st.floats(0, 1),
)
match_lists = st.lists(matches, max_size=3)
answers = st.builds(
    Answer,
    match=st.none() | matches,
    neighbours=st.lists(st.builds(Neighbour, matches, st.booleans()), max_size=2),
    candidates=numbers,
    fullest_bucket=numbers,
)
removals = st.lists(
    st.builds(Removal, st.integers(0, 65_535), st.integers(0, 1000), st.integers(0, 2**64 - 1)),
    max_size=2,
)
decisions = st.builds(
    Decision,
    numbers,
    match_lists,
    st.none() | answers,
    removals,
    st.lists(st.integers(0, 65_535), max_size=2),
)
controls = st.builds(
    Control,
    previous=places,
    leader=names,
    leads=st.booleans(),
    decisions=st.lists(decisions, max_size=3),
    heads=st.dictionaries(chains, places, max_size=4).map(
        lambda heads: ChainHeads.of(heads.items())
    ),
    next=numbers,
    version=st.sampled_from([OLDEST, NEWEST]),
    standbys=st.dictionaries(names, st.lists(st.integers(0, 1000), max_size=3), max_size=2).map(
        lambda standbys: tuple((name, tuple(shards)) for name, shards in standbys.items())
    ),
)
queries = st.builds(Query, names, st.integers(0, 100), columns(least=1, most=1))
reports = st.builds(
    Report,
    worker=names,
    shards=st.lists(st.integers(0, 1000), max_size=3),
    control=places,
    first=numbers,
    end=numbers,
    found=st.lists(
        st.builds(Found, numbers, match_lists, st.none() | answers, removals), max_size=3
    ),
    positions=st.dictionaries(st.integers(0, 1000), places, max_size=3),
    reads=st.sampled_from([OLDEST, NEWEST]),
)


def decoded(record: LogRecord) -> LogRecord:
    return CODEC.decode(CODEC.encode(record), WHERE)


@given(bundles())
def test_bundles_come_back(bundle: Bundle) -> None:
    assert same_bundle(decoded(bundle), bundle)


def outcome_of(value: bytes | None, where: str) -> object:
    try:
        return CODEC.decode(value, where)
    except NOT_DECODED as error:
        return error


DAMAGED: Final = [
    None,
    b"garbage",
    CODEC.encode(BUNDLE)[:-1],  # not MessagePack
    CODEC.encode(BUNDLE).replace(sample(6).document_id.encode(), b"\xff" * 5),  # not UTF-8
    LogCodec("another").encode(BUNDLE),
    bytes((NEWEST + 1,)) + CODEC.encode(BUNDLE)[1:],
]


@given(st.lists(st.one_of(bundles(), queries, controls, st.sampled_from(DAMAGED)), max_size=6))
def test_records_are_decoded_together_as_one_by_one(
    records: list[LogRecord | bytes | None],
) -> None:
    values = [
        each if each is None or isinstance(each, bytes) else CODEC.encode(each) for each in records
    ]
    where = [f"{WHERE}{at}" for at in range(len(values))]
    together = CODEC.decode_many(values, where)
    for found, value, place in zip(together, values, where, strict=True):
        alone = outcome_of(value, place)
        assert type(found) is type(alone)
        if isinstance(alone, Bundle):
            assert same_bundle(found, alone)
        elif isinstance(alone, Query):
            assert isinstance(found, Query)
            assert same_columns(found.columns, alone.columns)
        else:
            assert str(found) == str(alone)


@given(queries)
def test_queries_come_back(query: Query) -> None:
    found = decoded(query)
    assert isinstance(found, Query)
    assert (found.identifier, found.limit) == (query.identifier, query.limit)
    assert same_columns(found.columns, query.columns)


@given(controls)
def test_control_records_come_back(control: Control) -> None:
    assert CODEC.decode(CODEC.encode(control, NEWEST), WHERE) == control
    assert decoded(control) == msgspec.structs.replace(control, standbys=())


@given(reports)
def test_reports_come_back(report: Report) -> None:
    assert CODEC.decode_report(CODEC.encode_report(report), "news.reports/0@2") == report


@each_kind
def test_a_record_of_another_index_is_told_apart(
    value: bytes, decode: Callable[..., object]
) -> None:
    other = LogCodec(INDEX.replace("distance=3", "distance=2"))
    reading = other.decode if decode == CODEC.decode else other.decode_report
    with pytest.raises(OtherIndexError, match=WHERE):
        reading(value, WHERE)


@each_kind
def test_a_record_that_is_cut_anywhere_is_refused(
    value: bytes, decode: Callable[..., object]
) -> None:
    for end in range(len(value)):
        with pytest.raises(LogDecodeError, match=WHERE):
            decode(value[:end], WHERE)


@each_kind
@given(data=st.data(), garbage=st.binary(max_size=80))
def test_a_record_with_garbage_is_decoded_or_refused(
    value: bytes, decode: Callable[..., object], data: st.DataObject, garbage: bytes
) -> None:
    at = data.draw(st.integers(0, len(value)))
    for each in (value[:at] + garbage + value[at + len(garbage) :], value[:18] + garbage, garbage):
        try:
            decode(each, WHERE)
        except NOT_DECODED:
            continue


def test_a_record_without_a_value_is_refused() -> None:
    for decode in (CODEC.decode, CODEC.decode_report):
        with pytest.raises(LogDecodeError, match="does another program write"):
            decode(None, WHERE)


def test_another_version_is_refused_with_those_that_are_read() -> None:
    for byte, version in ((NEWEST + 1, NEWEST + 1), (OLDEST, 0), (2, 2)):
        value = bytes((byte,)) + EACH_KIND[0][0][1:]
        assert version_of(value) == version
        with pytest.raises(
            UnreadableVersionError, match=f"version {version},.*{OLDEST} to {NEWEST}"
        ):
            CODEC.decode(value, WHERE)
        with pytest.raises(OtherIndexError):
            LogCodec("another").decode(value, WHERE)


def test_a_value_that_is_no_record_has_no_version() -> None:
    assert [version_of(value) for value in (None, b"")] == [0, 0]


def test_a_record_on_the_wrong_topic_is_refused() -> None:
    with pytest.raises(ProtocolError, match="unknown kind"):
        CODEC.decode(EACH_KIND[3][0], WHERE)
    with pytest.raises(ProtocolError, match="unknown kind"):
        CODEC.decode_report(EACH_KIND[0][0], WHERE)


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
    ],
)
def test_a_bundle_whose_packets_cannot_be_is_refused(
    at: int, changes: dict[int, int], message: str
) -> None:
    value = CODEC.encode(BUNDLE)
    body = msgspec.msgpack.decode(value[18:])
    for field, changed in changes.items():
        body[2][at][field] = changed
    wrong = value[:18] + msgspec.msgpack.encode(body)
    with pytest.raises(LogDecodeError, match=f"{WHERE} is damaged: .*{message}"):
        CODEC.decode(wrong, WHERE)


def test_a_bundle_without_packets_is_refused() -> None:
    value = CODEC.encode(BUNDLE)
    worker, topics, _, columns = msgspec.msgpack.decode(value[18:])
    none = msgspec.msgpack.encode([worker, topics, [], columns])
    with pytest.raises(LogDecodeError, match="Expected `array` of length >= 1"):
        CODEC.decode(value[:18] + none, WHERE)


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
    columns = replace(BUNDLE.columns, offsets=np.array(offsets))
    with pytest.raises(LogDecodeError, match=message):
        decoded(Bundle(BUNDLE.worker, BUNDLE.segments, columns))


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
