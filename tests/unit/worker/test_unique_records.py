"""Records on `unique`: the raw record untouched, and the verdict in headers after its own."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest
from hypothesis import given

from simhash_core.documents import RawRecord
from simhash_core.text.profiles import index_digest
from simhash_core.verdicts import Undecidable, UndecidableReason
from tests.unit.documents.samples import (
    IDENTITY,
    RULES,
    any_records,
    output_of,
    pending,
    raw,
)


@given(any_records)
def test_the_raw_record_is_unchanged(record: RawRecord) -> None:
    """Given any record, then key, value, time and headers are its own; ours follow.

    Headers of an earlier filter are the only ones taken off.
    """
    own = tuple(pair for pair in record.headers if not pair[0].startswith("firstseen-"))

    unique = output_of(pending(record))

    assert unique.topic == RULES.topics.unique
    assert (unique.key, unique.value) == (record.key, record.value)
    assert unique.timestamp_ms == record.timestamp_ms
    assert unique.headers[: len(own)] == own
    assert all(name.startswith("firstseen-") for name, _ in unique.headers[len(own) :])


def test_headers_of_a_unique_document() -> None:
    """Given a unique document, then these headers say so, each once, in this order."""
    record = raw(b"value", headers=(("trace", b"7f"), ("trace", None)))

    assert output_of(pending(record, document_id="雪")).headers == (
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
    assert output_of(pending(raw(b"value"), Undecidable(reason))).headers == (
        ("firstseen-verdict", b"undecidable"),
        ("firstseen-reason", reason.encode()),
        ("firstseen-id", b"weather"),
        ("firstseen-source", b"raw-documents/3@42"),
        ("firstseen-index", b"f035ec2f58c1"),
    )


def test_a_second_filter_replaces_the_headers_of_the_first() -> None:
    """Given a record that was unique in another filter, then it has one verdict: ours."""
    other = replace(RULES, identity="firstseen-index/1 another")
    first = output_of(pending(raw(b"value"), Undecidable(UndecidableReason.EMPTY)), other)

    second = output_of(pending(raw(b"value", headers=tuple(first.headers))))

    assert second == output_of(pending(raw(b"value")))


def test_the_index_is_named_by_a_digest() -> None:
    """Given an index identity, then its short name is the start of no longer digest: BLAKE2b-48."""
    digest = hashlib.blake2b(IDENTITY.encode(), digest_size=6).hexdigest()

    assert index_digest(IDENTITY) == digest == "f035ec2f58c1"
    assert index_digest(IDENTITY + " ") != digest
