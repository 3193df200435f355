"""docs/formats.md: the bytes of internal topics there are those that are sent, and are read."""

from __future__ import annotations

from typing import Final

import pytest

from simhash_core.log.records import LogRecord, Packet, Query
from streams.store.changelog_codec import (
    CHANGELOG_VERSION,
    ChangelogRecord,
    LoggedEnd,
    LoggedProgress,
    decode_record,
    encode_deletions,
    encode_end,
    encode_entries,
    encode_progress,
)
from streams.store.row_codec import EntryBlock
from streams.worker.log_codec import LOG_VERSION, LogCodec
from tests.unit.formats.internal_samples import (
    BEGUN,
    DECIDED,
    DELETED,
    DELETING,
    DELETIONS,
    ENTRIES,
    INDEX,
    PACKET,
    PAGE,
    PROGRESS,
    QUERY,
    READING,
    REPORT,
    WINDOWED,
    example,
)
from tests.unit.store.strategies import same_columns

CODEC: Final = LogCodec(INDEX)


@pytest.mark.parametrize(
    ("name", "records"),
    [
        ("packet", [PACKET]),
        ("packet with a delete", [DELETING]),
        ("query", [QUERY]),
        ("control records", [BEGUN, DECIDED, DELETED]),
    ],
)
def test_log_records_are_bytes_of_the_page_both_ways(name: str, records: list[LogRecord]) -> None:
    values = example(name)
    assert [CODEC.encode(record).hex() for record in records] == values
    for record, value in zip(records, values, strict=True):
        found = CODEC.decode(bytes.fromhex(value), "here")
        if isinstance(record, Packet | Query):
            assert isinstance(found, type(record))
            assert same_columns(found.columns, record.columns)
        else:
            assert found == record


def test_report_is_the_bytes_of_the_page_both_ways() -> None:
    (value,) = example("report")
    assert CODEC.encode_report(REPORT).hex() == value
    assert CODEC.decode_report(bytes.fromhex(value), "here") == REPORT


def test_changelog_records_are_the_bytes_of_the_page_both_ways() -> None:
    pairs = [line.partition("=") for line in example("changelog")]
    written = [
        ChangelogRecord(bytes.fromhex(key), bytes.fromhex(value) if value else None)
        for key, _, value in pairs
    ]
    first = DELETIONS.first

    assert written == [
        encode_entries(ENTRIES),
        encode_progress(PROGRESS, INDEX, READING),
        encode_deletions(DELETIONS),
        *encode_end(first),
        encode_progress(WINDOWED, INDEX, READING, "w-1", 18 << 16),
    ]
    block, progress, deletions, end, _, windowed = (
        decode_record(*record, "here") for record in written
    )
    assert isinstance(block, EntryBlock)
    assert block.sequences.tolist() == ENTRIES.sequences.tolist()
    assert same_columns(block.columns, ENTRIES.packet.columns)
    assert progress == LoggedProgress(PROGRESS, INDEX, READING)
    assert (deletions, end) == (DELETIONS, LoggedEnd(first))
    assert windowed == LoggedProgress(WINDOWED, INDEX, READING, "w-1", 18 << 16)


def test_versions_are_those_of_the_page() -> None:
    assert f"record of the log or of a report is {LOG_VERSION}" in PAGE
    assert f"record of the changelog is {CHANGELOG_VERSION}" in PAGE
