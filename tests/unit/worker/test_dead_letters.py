"""Dead letters: the raw record as it came, and headers that Kafka Connect's tools can read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simhash_core.documents import RawRecord
from simhash_core.verdicts import Rejection, RejectionReason
from streams.documents.raw_documents import record_bytes
from streams.worker.outputs import dead_letter_record
from tests.unit.documents.samples import HERE, RULES, any_records, raw, read

reasons = st.sampled_from(RejectionReason)


@given(any_records, reasons)
def test_the_raw_record_is_unchanged(record: RawRecord, reason: RejectionReason) -> None:
    """Given any record, then key, value, time and headers are its own; the reason follows.

    Only what an earlier filter or dead letter said is taken off, but never how often the record
    was sent again.
    """
    letter = dead_letter_record(Rejection(HERE, record, reason, "detail"), RULES)

    own = tuple(
        pair
        for pair in record.headers
        if pair[0] == "firstseen-redeliveries"
        or not pair[0].startswith(("firstseen-", "__connect.errors."))
    )
    assert letter.topic == RULES.topics.dead_letters
    assert (letter.key, letter.timestamp_ms) == (record.key, record.timestamp_ms)
    assert letter.value == (None if reason is RejectionReason.TOO_LARGE else record.value)
    assert letter.headers[: len(own)] == own
    assert letter.headers[-1] == ("firstseen-reason", reason.encode())
    assert len(letter.headers) == len(own) + 8


def test_headers_of_a_dead_letter() -> None:
    """Given a record that is not JSON, then these headers say where it was and what is wrong."""
    rejection = read(raw(b"{", headers=(("trace", b"7f"),)))
    assert isinstance(rejection, Rejection)

    assert dead_letter_record(rejection, RULES).headers == (
        ("trace", b"7f"),
        ("__connect.errors.topic", b"raw-documents"),
        ("__connect.errors.partition", b"3"),
        ("__connect.errors.offset", b"42"),
        ("__connect.errors.stage", b"VALUE_CONVERTER"),
        ("__connect.errors.class.name", b"firstseen.DocumentReader"),
        ("__connect.errors.exception.class.name", b"firstseen.NotJson"),
        ("__connect.errors.exception.message", b"not JSON: Input data was truncated"),
        ("firstseen-reason", b"not_json"),
    )


def test_each_reason_has_a_class_name_of_its_own() -> None:
    """Connect's tools group by class name: two reasons never share one."""
    names = {
        dict(dead_letter_record(Rejection(HERE, raw(b""), reason, "x"), RULES).headers)[
            "__connect.errors.exception.class.name"
        ]
        for reason in RejectionReason
    }

    assert len(names) == len(RejectionReason)
    assert b"firstseen.BadCloudevent" in names


def test_a_dead_letter_of_a_dead_letter_has_one_reason() -> None:
    """Given a dead letter that was sent again and fails again, then it is the same, and no longer.

    The count of redeliveries is the sender's, and stays.
    """
    again = ("firstseen-redeliveries", b"1")
    rejection = Rejection(HERE, raw(b"{"), RejectionReason.NOT_JSON, "detail")
    first = dead_letter_record(rejection, RULES)

    second = dead_letter_record(
        Rejection(
            HERE, raw(b"{", headers=(*first.headers, again)), RejectionReason.NOT_JSON, "detail"
        ),
        RULES,
    )

    assert second.headers == (again, *first.headers)


@pytest.mark.parametrize("value", [b"{", b'{"text": 1}', b"\xff"])
def test_size_stays_in_its_bound(value: bytes) -> None:
    """Given a record that is refused, then its dead letter is little larger, as the page says."""
    record = raw(value)
    rejection = read(record)
    assert isinstance(rejection, Rejection)

    letter = dead_letter_record(rejection, RULES)

    assert letter.size <= record_bytes(record) + 8_192
