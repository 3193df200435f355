"""Records on `unique`: the raw record untouched, and the verdict in headers after its own."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given

from simhash_core.documents import RawRecord, SourcePosition
from simhash_core.index_digest import index_digest
from simhash_core.verdicts import Undecidable, UndecidableReason, Unique
from streams.output.output_records import OutputKind, unique_record
from streams.output.verdict_headers import Arrivals
from tests.unit.core.log.made_to_order import Made, packet_of
from tests.unit.documents.samples import FINGERPRINT, IDENTITY, any_records, arrival_of, raw


@given(any_records)
def test_the_raw_record_is_unchanged(record: RawRecord) -> None:
    """Given any record, then key, value, time and headers are its own; ours follow.

    Headers of an earlier filter are the only ones taken off.
    """
    own = tuple(pair for pair in record.headers if not pair[0].startswith("firstseen-"))

    unique = unique_record(arrival_of(record), Unique(), IDENTITY)

    assert unique.kind is OutputKind.UNIQUE
    assert (unique.key, unique.value) == (record.key, record.value)
    assert unique.timestamp_ms == record.timestamp_ms
    assert unique.headers[: len(own)] == own
    assert all(name.startswith("firstseen-") for name, _ in unique.headers[len(own) :])


def test_headers_of_a_unique_document() -> None:
    """Given a unique document, then these headers say so, each once, in this order."""
    record = raw(b"value", headers=(("trace", b"7f"), ("trace", None)))

    assert unique_record(arrival_of(record, "雪"), Unique(), IDENTITY).headers == (
        ("trace", b"7f"),
        ("trace", None),
        ("firstseen-verdict", b"unique"),
        ("firstseen-id", "雪".encode()),
        ("firstseen-source", b"raw-documents/3@42"),
        ("firstseen-fingerprint", b"9c3f00e1a7d2485b"),
        ("firstseen-index", b"f035ec2f58c1"),
    )


@pytest.mark.parametrize("reason", UndecidableReason)
def test_headers_of_an_undecidable_document(reason: UndecidableReason) -> None:
    """Given a document without a fingerprint, then a reason stands where that would."""
    arrival = arrival_of(raw(b"value"), undecidable=reason)

    assert unique_record(arrival, Undecidable(reason), IDENTITY).headers == (
        ("firstseen-verdict", b"undecidable"),
        ("firstseen-reason", reason.encode()),
        ("firstseen-id", b"weather"),
        ("firstseen-source", b"raw-documents/3@42"),
        ("firstseen-index", b"f035ec2f58c1"),
    )


def test_a_second_filter_replaces_the_headers_of_the_first() -> None:
    """Given a record that was unique in another filter, then it has one verdict: ours."""
    first = unique_record(
        arrival_of(raw(b"value"), undecidable=UndecidableReason.EMPTY),
        Undecidable(UndecidableReason.EMPTY),
        "firstseen-index/1 another",
    )

    second = unique_record(arrival_of(raw(b"value", headers=first.headers)), Unique(), IDENTITY)

    assert second == unique_record(arrival_of(raw(b"value")), Unique(), IDENTITY)


def test_the_index_is_named_by_a_digest() -> None:
    """Given an index identity, then its short name is the start of no longer digest: BLAKE2b-48."""
    digest = hashlib.blake2b(IDENTITY.encode(), digest_size=6).hexdigest()

    assert index_digest(IDENTITY) == digest == "f035ec2f58c1"
    assert index_digest(IDENTITY + " ") != digest


def test_what_a_packet_says_of_a_record() -> None:
    """Given a raw record and its row in a packet, then the output has that document's id, place,
    time and fingerprint; an undecidable document has no fingerprint.
    """
    packet = packet_of([Made(FINGERPRINT), Made(b"")], first=7)
    record = raw(b"value")
    arrivals = Arrivals()

    assert arrivals.of(record, packet.source(0), packet, 0) == arrival_of(
        record, "document 7", SourcePosition("raw", 0, 7), 1_007
    )
    assert arrivals.of(record, packet.source(1), packet, 1).fingerprint == b""
    other = packet_of([Made(b""), Made(FINGERPRINT)], first=9)
    assert arrivals.of(record, other.source(1), other, 1).document_id == "document 10"
