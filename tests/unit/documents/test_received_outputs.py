"""Output records read back: what was written is what is read, and nothing else is taken for one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simhash_core.documents import RawRecord, SourcePosition
from simhash_core.verdicts import (
    Rejection,
    RejectionReason,
    Undecidable,
    UndecidableReason,
    Verdict,
)
from streams.documents.output_records import (
    DeadLetterOutput,
    DuplicateOutput,
    ReceivedOutput,
    UniqueOutput,
    received_output,
    source_position,
)
from streams.kafka.producers import ProducerRecord
from streams.worker.fingerprint import PendingRecord
from streams.worker.outputs import dead_letter_record
from tests.unit.documents.samples import (
    HERE,
    NEAR,
    RULES,
    TAG_RULES,
    UNIQUE,
    WITH_BODY,
    any_records,
    header_lists,
    output_of,
    pending,
    raw,
)

ELSEWHERE = SourcePosition("raw-documents", 7, 9)


def read_back(record: ProducerRecord) -> ReceivedOutput | None:
    return received_output(record.value, record.headers)


@given(any_records)
def test_outputs_of_any_raw_record_are_read_back(record: RawRecord) -> None:
    def decided(verdict: Verdict) -> PendingRecord:
        return pending(record, verdict, "id/雪@1", ELSEWHERE)

    rejection = Rejection(ELSEWHERE, record, RejectionReason.NOT_JSON, "detail: 雪")
    reason = UndecidableReason.EMPTY

    assert read_back(output_of(decided(UNIQUE))) == UniqueOutput(ELSEWHERE, "id/雪@1", "")
    assert read_back(output_of(decided(Undecidable(reason)))) == UniqueOutput(
        ELSEWHERE, "id/雪@1", "empty"
    )
    assert read_back(output_of(decided(NEAR), WITH_BODY)) == DuplicateOutput(
        ELSEWHERE, "id/雪@1", HERE, "weather", 2, 64, 0.96875, "near"
    )
    assert read_back(output_of(decided(NEAR), TAG_RULES)) == DuplicateOutput(
        ELSEWHERE, "id/雪@1", HERE, "weather", 2, 64, 0.96875, "near"
    )
    assert read_back(output_of(decided(UNIQUE), TAG_RULES)) == UniqueOutput(
        ELSEWHERE, "id/雪@1", ""
    )
    assert read_back(dead_letter_record(rejection, RULES)) == DeadLetterOutput(
        ELSEWHERE, "not_json", "detail: 雪"
    )


@given(st.none() | st.binary(), header_lists)
def test_other_records_with_any_headers_are_no_outputs(
    value: bytes | None, headers: tuple[tuple[str, bytes | None], ...]
) -> None:
    assert received_output(value, headers) is None


def test_later_schema_is_not_read_as_this_one() -> None:
    record = output_of(pending(raw(b"{}"), NEAR))
    assert record.value is not None
    later = record.value.replace(b"firstseen.duplicate-of/2", b"firstseen.duplicate-of/3")
    assert received_output(later, record.headers) is None


@pytest.mark.parametrize("shown", ["", "t/1", "t@1", "t/1@", "t/@1", "/1@2", "t/-1@2", "t/1@x"])
def test_incomplete_source_positions_are_refused(shown: str) -> None:
    assert source_position(str(HERE)) == HERE
    with pytest.raises(ValueError, match="topic/partition@offset"):
        source_position(shown)
