"""Records of the log as bytes: any come back; those of another index, and garbage, do not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simhash_core.errors import ProtocolError
from simhash_core.log.records import Control, LogRecord, Packet, PacketReport, Query, Report
from streams.worker.log_codec import (
    LOG_VERSION,
    LogCodec,
    LogDecodeError,
    LogVersionError,
    OtherIndexError,
)
from tests.unit.store.samples import INDEX, columns_of, packet_of, sample
from tests.unit.store.strategies import packets, same_columns
from tests.unit.worker.log_records import controls, queries, reports

CODEC: Final = LogCodec(INDEX)
WHERE: Final = "news.log/0@17"
PACKET: Final = packet_of([sample(5), sample(6, undecidable=True)])
EACH_KIND: Final[list[tuple[bytes, Callable[[bytes | None, str], object]]]] = [
    (CODEC.encode(PACKET), CODEC.decode),
    (CODEC.encode(Query("q", 5, columns_of([sample(0)]))), CODEC.decode),
    (CODEC.encode(Control(3, "w.1", True, [], [(PACKET.chain, 6)], 4)), CODEC.decode),
    (CODEC.encode_report(Report("w", [3], [PacketReport(5, 4, [])], {3: 2})), CODEC.decode_report),
]
KINDS: Final = ["packet", "query", "control", "report"]


def decoded(record: LogRecord) -> LogRecord:
    """The record after a way through the log."""
    return CODEC.decode(CODEC.encode(record), WHERE)


@given(packets())
def test_packets_come_back(packet: Packet) -> None:
    """Given a packet of any documents, or of none, then it comes back equal."""
    found = decoded(packet)

    assert isinstance(found, Packet)
    assert (found.chain, found.sender) == (packet.chain, packet.sender)
    assert (found.previous, found.last) == (packet.previous, packet.last)
    assert same_columns(found.columns, packet.columns)


@given(queries)
def test_queries_come_back(query: Query) -> None:
    """Given a query about any document, then it comes back equal."""
    found = decoded(query)

    assert isinstance(found, Query)
    assert (found.identifier, found.limit) == (query.identifier, query.limit)
    assert same_columns(found.columns, query.columns)


@given(controls)
def test_control_records_come_back(control: Control) -> None:
    """Given a control record with any decisions, of chains of several topics, then it comes back
    equal, its heads in order.
    """
    assert decoded(control) == control


@given(reports)
def test_reports_come_back(report: Report) -> None:
    """Given any report, then it comes back equal."""
    assert CODEC.decode_report(CODEC.encode_report(report), "news.reports/0@2") == report


@pytest.mark.parametrize(("value", "decode"), EACH_KIND, ids=KINDS)
def test_a_record_of_another_index(value: bytes, decode: Callable[..., object]) -> None:
    """Given a record of an index with another identity, then it can be told, and passed over."""
    other = LogCodec(INDEX.replace("distance=3", "distance=2"))
    reading = other.decode if decode == CODEC.decode else other.decode_report

    with pytest.raises(OtherIndexError, match=WHERE):
        reading(value, WHERE)


@pytest.mark.parametrize(("value", "decode"), EACH_KIND, ids=KINDS)
def test_truncation_is_refused(value: bytes, decode: Callable[..., object]) -> None:
    """Given a record without its end, wherever it is cut, then it is refused by its name."""
    for end in range(len(value)):
        with pytest.raises(LogDecodeError, match=WHERE):
            decode(value[:end], WHERE)


@pytest.mark.parametrize(("value", "decode"), EACH_KIND, ids=KINDS)
@given(data=st.data(), garbage=st.binary(max_size=80))
def test_garbage_never_crashes(
    value: bytes, decode: Callable[..., object], data: st.DataObject, garbage: bytes
) -> None:
    """Given garbage in place of some bytes, then the record is decoded or refused."""
    at = data.draw(st.integers(0, len(value)))
    for each in (value[:at] + garbage + value[at + len(garbage) :], value[:18] + garbage, garbage):
        try:
            decode(each, WHERE)
        except (LogDecodeError, OtherIndexError):
            continue


def test_no_value() -> None:
    """Given a record without a value, then it is refused: somebody else writes here."""
    for decode in (CODEC.decode, CODEC.decode_report):
        with pytest.raises(LogDecodeError, match="who else writes"):
            decode(None, WHERE)


def test_another_version() -> None:
    """Given a record of a later version, then both versions are in the message."""
    value = bytes((LOG_VERSION + 1,)) + EACH_KIND[0][0][1:]

    with pytest.raises(LogVersionError, match=f"version {LOG_VERSION + 1}.*{LOG_VERSION}"):
        CODEC.decode(value, WHERE)


def test_a_report_in_the_log_and_a_packet_among_reports() -> None:
    """Given a record on the wrong topic, then it is refused as a protocol error."""
    with pytest.raises(ProtocolError, match="unknown kind"):
        CODEC.decode(EACH_KIND[3][0], WHERE)
    with pytest.raises(ProtocolError, match="unknown kind"):
        CODEC.decode_report(EACH_KIND[0][0], WHERE)


@pytest.mark.parametrize("change", [{"last": 5}, {"previous": 5}, {"previous": 6}, {"last": 4}])
def test_a_packet_with_documents_beyond_its_offsets(change: dict[str, int]) -> None:
    """Given a packet that does not cover its documents, then it is refused."""
    bounds = {"previous": PACKET.previous, "last": PACKET.last, **change}
    wrong = Packet(PACKET.chain, PACKET.sender, columns=PACKET.columns, **bounds)

    with pytest.raises(LogDecodeError, match="damaged"):
        decoded(wrong)
