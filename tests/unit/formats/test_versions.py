"""Records of each format version can be read; their bytes in tests/formats never change."""

from __future__ import annotations

import re
from typing import Final

import msgspec
import pytest

from simhash_core.log.records import Bundle, Control, LogRecord, Query
from simhash_core.log.versions import NEWEST, OLDEST, UnreadableVersionError
from streams.store.changelog_codec import (
    ChangelogRecord,
    LoggedEnd,
    LoggedProgress,
    decode_record,
    encode_block,
    encode_deletions,
    encode_end,
    encode_progress,
    written_in,
)
from streams.store.row_codec import EntryBlock, entry_block
from streams.worker.log_codec import VERSION_BYTES, LogCodec, version_of
from tests.repository.source_tree import ROOT
from tests.unit.formats.internal_samples import (
    BEFORE,
    BEGUN,
    BUNDLE,
    CHECKED,
    DECIDED,
    DELETED,
    DELETING,
    DELETIONS,
    ENTRIES,
    INDEX,
    LINEAGE,
    PAGE,
    PROGRESS,
    QUERY,
    RAISED,
    READING,
    REPORT,
    WINDOWED,
    WRITER,
    example,
)
from tests.unit.store.strategies import same_bundle, same_columns

CODEC: Final = LogCodec(INDEX)
OLDER: Final = LogCodec(INDEX, reads=OLDEST)
VERSIONS: Final = (4, 5)
LOG: Final[dict[str, LogRecord]] = {
    "bundle": BUNDLE,
    "deleting": DELETING,
    "query": QUERY,
    "begun": BEGUN,
    "decided": DECIDED,
    "deleted": DELETED,
    "decided with checksums": CHECKED,
}
ENDS: Final = encode_end(DELETIONS.first)
ENDS_OF_A_WRITER: Final = encode_end(DELETIONS.first, WRITER)
# Each record with what is read from it.
BEGINNING: Final = LoggedProgress(PROGRESS, INDEX, READING)
OF_A_WORKER: Final = LoggedProgress(PROGRESS, INDEX, READING, "w-1")
OF_LEADERS: Final = LoggedProgress(PROGRESS, INDEX, READING, "w-1", leader_epoch=7)
OF_WORKERS: Final = {
    "progress with a window": LoggedProgress(WINDOWED, INDEX, READING, "w-1", 18 << 16),
    "progress with a lineage": LoggedProgress(PROGRESS, INDEX, READING, "w-1", 0, LINEAGE),
    "progress with a leader epoch": LoggedProgress(PROGRESS, INDEX, READING, "w-1", 0, LINEAGE, 7),
}
CHANGELOG: Final[dict[str, tuple[ChangelogRecord, object]]] = {
    "entries": (encode_block(entry_block(ENTRIES)), ENTRIES),
    "progress": (encode_progress(BEGINNING), BEGINNING),
    "deletions": (encode_deletions(DELETIONS), DELETIONS),
    "end of entries": (ENDS[0], LoggedEnd(DELETIONS.first)),
    "end of deletions": (ENDS[1], LoggedEnd(DELETIONS.first)),
    **{name: (encode_progress(logged), logged) for name, logged in OF_WORKERS.items()},
}
OF_A_WRITER: Final[dict[str, tuple[ChangelogRecord, object]]] = {
    "entries": (encode_block(entry_block(ENTRIES), WRITER, 30), ENTRIES),
    "progress": (encode_progress(OF_A_WORKER, 31, BEFORE), OF_A_WORKER),
    "progress with leader epochs": (encode_progress(OF_LEADERS, 31, BEFORE, 6), OF_LEADERS),
    "deletions": (encode_deletions(DELETIONS, WRITER), DELETIONS),
    "end of entries": (ENDS_OF_A_WRITER[0], LoggedEnd(DELETIONS.first, WRITER)),
    "end of deletions": (ENDS_OF_A_WRITER[1], LoggedEnd(DELETIONS.first, WRITER)),
}
CHANGELOGS: Final = {f"changelog {name}": row for name, row in CHANGELOG.items()} | {
    f"changelog {name} of a writer": row for name, row in OF_A_WRITER.items()
}
EXAMPLES: Final = {
    "bundle": ["bundle"],
    "bundle with a delete": ["deleting"],
    "query": ["query"],
    "control records": ["begun", "decided", "deleted"],
    "control record with checksums": ["decided with checksums"],
    "raise": ["raised, in version 4", "begun"],
    "report": ["report"],
    "changelog": [f"changelog {name}" for name in CHANGELOG],
    "changelog without transactions": [f"changelog {name} of a writer" for name in OF_A_WRITER],
}
"""The examples of docs/formats.md, and the records in tests/formats that they show."""


def fixtures(version: int) -> dict[str, str]:
    """Return the records of a version by name, in hexadecimal."""
    text = (ROOT / "tests" / "formats" / f"version-{version}.txt").read_text("utf-8")
    found = re.findall(r"^([a-z][^\n]*):\n((?:  \S+\n)+)", text, re.MULTILINE)
    return {name: value.replace("\n", "").replace(" ", "") for name, value in found}


def in_version(control: Control, version: int) -> Control:
    """Return a control record with the fields that ``version`` has."""
    return control if version == 5 else msgspec.structs.replace(control, version=4, standbys=())


@pytest.mark.parametrize("version", VERSIONS)
def test_log_records_of_each_version_are_read(version: int) -> None:
    values = fixtures(version)
    for name, record in LOG.items():
        value = bytes.fromhex(values[name])
        found = CODEC.decode(value, "here")
        assert version_of(value) == version
        if isinstance(record, Bundle):
            assert same_bundle(found, record)
        elif isinstance(record, Query):
            assert isinstance(found, Query)
            assert (found.identifier, found.limit) == (record.identifier, record.limit)
            assert same_columns(found.columns, record.columns)
        else:
            assert found == in_version(record, version)


@pytest.mark.parametrize("version", VERSIONS)
def test_reports_of_each_version_are_read(version: int) -> None:
    found = CODEC.decode_report(bytes.fromhex(fixtures(version)["report"]), "here")
    assert found == msgspec.structs.replace(REPORT, reads=version)


@pytest.mark.parametrize("version", VERSIONS)
def test_changelog_records_of_each_version_are_read(version: int) -> None:
    for name, pair in fixtures(version).items():
        if name not in CHANGELOGS:
            continue
        key, _, value = pair.partition("=")
        found = decode_record(bytes.fromhex(key), bytes.fromhex(value) or None, "here")
        expected = CHANGELOGS[name][1]
        if expected is ENTRIES:
            assert isinstance(found, EntryBlock)
            assert found.sequences.tolist() == ENTRIES.sequences.tolist()
            assert same_columns(found.columns, ENTRIES.packet.columns)
        else:
            assert found == expected


def test_what_is_written_now_is_of_the_newest_version() -> None:
    """The record that raises the version is the last one in the previous version."""
    written = {name: CODEC.encode(record, NEWEST).hex() for name, record in LOG.items()}
    written["raised, in version 4"] = CODEC.encode(RAISED, OLDEST).hex()
    written["report"] = CODEC.encode_report(REPORT, NEWEST).hex()
    for name, (record, _) in CHANGELOGS.items():
        key, value = written_in(record, NEWEST)
        written[name] = f"{key.hex()}={(value or b'').hex()}"
    assert written == fixtures(NEWEST)


@pytest.mark.parametrize(("name", "records"), EXAMPLES.items())
def test_examples_of_the_page_are_records_of_the_newest_version(
    name: str, records: list[str]
) -> None:
    values = fixtures(NEWEST)
    assert example(name) == [values[each] for each in records]


def test_an_older_release_reads_the_raise_and_nothing_after_it() -> None:
    values = fixtures(NEWEST)
    raised = OLDER.decode(bytes.fromhex(values["raised, in version 4"]), "here")
    assert raised == RAISED
    for name in ("bundle", "query", "begun"):
        with pytest.raises(UnreadableVersionError, match=r"here has format version 5.*4 to 4"):
            OLDER.decode(bytes.fromhex(values[name]), "here")
    with pytest.raises(UnreadableVersionError, match="here"):
        OLDER.decode_report(bytes.fromhex(values["report"]), "here")


def test_versions_of_changelog_records_that_are_unknown_are_refused() -> None:
    key, value = encode_progress(BEGINNING)
    assert value is not None
    for version, said in ((NEWEST + 1, "older than the workers"), (OLDEST - 1, "Upgrade first to")):
        record = written_in(ChangelogRecord(key, value), version)
        with pytest.raises(UnreadableVersionError, match=f"version {version}.*{said}"):
            decode_record(*record, "here")


def test_table_of_versions_is_that_of_the_code() -> None:
    section = PAGE.partition("### Versions\n")[2].partition("\n### ")[0]
    rows = re.findall(r"^\| (\d) \| first byte (\d\d).*\| first byte (\d\d)", section, re.MULTILINE)
    key, value = encode_progress(BEGINNING)
    assert [(int(version), int(log, 16), int(other, 16)) for version, log, other in rows] == [
        (each, VERSION_BYTES[each], (written_in(ChangelogRecord(key, value), each).value or b"")[0])
        for each in (OLDEST, NEWEST)
    ]
    assert f"two format versions, {OLDEST} and {NEWEST}" in section
