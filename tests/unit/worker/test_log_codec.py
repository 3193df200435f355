"""Records of the log as bytes: any come back; those of another index, and garbage, do not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simhash_core.documents import SourcePosition
from simhash_core.errors import ProtocolError
from simhash_core.log.records import (
    Control,
    Decision,
    LogRecord,
    Packet,
    PacketReport,
    Query,
    Report,
)
from simhash_core.verdicts import Answer, Match, Neighbour
from streams.worker.log_codec import (
    LOG_VERSION,
    LogCodec,
    LogDecodeError,
    LogVersionError,
    OtherIndexError,
)
from tests.unit.store.samples import INDEX, columns_of, packet_of, sample
from tests.unit.store.strategies import chains, columns, names, offsets, packets, same_columns

CODEC: Final = LogCodec(INDEX)
WHERE: Final = "news.log/0@17"
PACKET: Final = packet_of([sample(5), sample(6, undecidable=True)])
EACH_KIND: Final[list[tuple[bytes, Callable[[bytes | None, str], object]]]] = [
    (CODEC.encode(PACKET), CODEC.decode),
    (CODEC.encode(Query("q", 5, columns_of([sample(0)]))), CODEC.decode),
    (CODEC.encode(Control(3, "w.1", True, [], [(PACKET.chain, 6)], 4)), CODEC.decode),
    (CODEC.encode_report(Report("w", [3], [PacketReport(5, 4, [])], {3: 2})), CODEC.decode_report),
]
each_kind: Final = pytest.mark.parametrize(
    ("value", "decode"), EACH_KIND, ids=["packet", "query", "control", "report"]
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
decisions = st.builds(Decision, numbers, st.none() | match_lists, st.none() | answers)
controls = st.builds(
    Control,
    previous=places,
    leader=names,
    leads=st.booleans(),
    decisions=st.lists(decisions, max_size=3),
    heads=st.dictionaries(chains, places, max_size=4).map(lambda heads: sorted(heads.items())),
    next=numbers,
)
queries = st.builds(Query, names, st.integers(0, 100), columns(least=1, most=1))
reports = st.builds(
    Report,
    worker=names,
    shards=st.lists(st.integers(0, 1000), max_size=3),
    packets=st.lists(
        st.builds(PacketReport, numbers, places, match_lists, st.none() | answers), max_size=3
    ),
    positions=st.dictionaries(st.integers(0, 1000), places, max_size=3),
)


def decoded(record: LogRecord) -> LogRecord:
    return CODEC.decode(CODEC.encode(record), WHERE)


@given(packets())
def test_packets_come_back(packet: Packet) -> None:
    found = decoded(packet)
    assert isinstance(found, Packet)
    assert (found.chain, found.sender) == (packet.chain, packet.sender)
    assert (found.previous, found.last) == (packet.previous, packet.last)
    assert same_columns(found.columns, packet.columns)


@given(queries)
def test_queries_come_back(query: Query) -> None:
    found = decoded(query)
    assert isinstance(found, Query)
    assert (found.identifier, found.limit) == (query.identifier, query.limit)
    assert same_columns(found.columns, query.columns)


@given(controls)
def test_control_records_come_back(control: Control) -> None:
    assert decoded(control) == control


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
        except (LogDecodeError, OtherIndexError):
            continue


def test_a_record_without_a_value_is_refused() -> None:
    for decode in (CODEC.decode, CODEC.decode_report):
        with pytest.raises(LogDecodeError, match="who else writes"):
            decode(None, WHERE)


def test_a_later_version_is_refused_with_both_versions() -> None:
    value = bytes((LOG_VERSION + 1,)) + EACH_KIND[0][0][1:]
    with pytest.raises(LogVersionError, match=f"version {LOG_VERSION + 1}.*{LOG_VERSION}"):
        CODEC.decode(value, WHERE)


def test_a_record_on_the_wrong_topic_is_refused() -> None:
    with pytest.raises(ProtocolError, match="unknown kind"):
        CODEC.decode(EACH_KIND[3][0], WHERE)
    with pytest.raises(ProtocolError, match="unknown kind"):
        CODEC.decode_report(EACH_KIND[0][0], WHERE)


@pytest.mark.parametrize("change", [{"last": 5}, {"previous": 5}, {"previous": 6}, {"last": 4}])
def test_a_packet_that_does_not_cover_its_documents_is_refused(change: dict[str, int]) -> None:
    bounds = {"previous": PACKET.previous, "last": PACKET.last, **change}
    wrong = Packet(PACKET.chain, PACKET.sender, columns=PACKET.columns, **bounds)
    with pytest.raises(LogDecodeError, match="damaged"):
        decoded(wrong)
