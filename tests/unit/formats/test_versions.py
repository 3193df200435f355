"""Records of each format version are read: their bytes stand in tests/formats and never change."""

from __future__ import annotations

import re
from typing import Final

import msgspec
import pytest

from simhash_core.log.records import Bundle, Control, Query
from simhash_core.log.versions import NEWEST, OLDEST, UnreadableVersionError
from streams.store.changelog_codec import (
    ChangelogRecord,
    LoggedEnd,
    LoggedProgress,
    decode_record,
    encode_block,
    encode_deletions,
    encode_end,
    encode_entries,
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
    DECIDED,
    DELETED,
    DELETING,
    DELETIONS,
    ENTRIES,
    INDEX,
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


def fixtures(version: int) -> dict[str, str]:
    """The records of a version by name, in hexadecimal."""
    text = (ROOT / "tests" / "formats" / f"version-{version}.txt").read_text("utf-8")
    found = re.findall(r"^([a-z][^\n]*):\n((?:  \S+\n)+)", text, re.MULTILINE)
    return {name: value.replace("\n", "").replace(" ", "") for name, value in found}


def in_version(control: Control, version: int) -> Control:
    """A control record as that version can say it."""
    return control if version == 5 else msgspec.structs.replace(control, version=4, standbys=())


@pytest.mark.parametrize("version", VERSIONS)
def test_log_records_of_each_version_are_read(version: int) -> None:
    values = fixtures(version)
    read = {
        name: CODEC.decode(bytes.fromhex(values[name]), "here")
        for name in ("bundle", "deleting", "query", "begun", "decided", "deleted")
    }
    for name, expected in (("bundle", BUNDLE), ("deleting", DELETING)):
        found = read[name]
        assert isinstance(found, Bundle)
        assert same_bundle(found, expected)
    query = read["query"]
    assert isinstance(query, Query)
    assert (query.identifier, query.limit) == (QUERY.identifier, QUERY.limit)
    assert same_columns(query.columns, QUERY.columns)
    for name, control in (("begun", BEGUN), ("decided", DECIDED), ("deleted", DELETED)):
        assert read[name] == in_version(control, version)
    assert {version_of(bytes.fromhex(values[name])) for name in read} == {version}


@pytest.mark.parametrize("version", VERSIONS)
def test_reports_of_each_version_are_read(version: int) -> None:
    found = CODEC.decode_report(bytes.fromhex(fixtures(version)["report"]), "here")
    assert found == msgspec.structs.replace(REPORT, reads=version)


@pytest.mark.parametrize("version", VERSIONS)
def test_changelog_records_of_each_version_are_read(version: int) -> None:
    values = {
        name.removeprefix("changelog "): value
        for name, value in fixtures(version).items()
        if name.startswith("changelog ")
    }
    read = {}
    for name, pair in values.items():
        key, _, value = pair.partition("=")
        read[name] = decode_record(bytes.fromhex(key), bytes.fromhex(value) or None, "here")
    for name in [name for name in read if name.startswith("entries")]:
        entries = read.pop(name)
        assert isinstance(entries, EntryBlock)
        assert entries.sequences.tolist() == ENTRIES.sequences.tolist()
        assert same_columns(entries.columns, ENTRIES.packet.columns)
    end = LoggedEnd(DELETIONS.first)
    of_writers = {
        "progress of a writer": LoggedProgress(PROGRESS, INDEX, READING, "w-1"),
        "deletions of a writer": DELETIONS,
        "end of entries of a writer": LoggedEnd(DELETIONS.first, WRITER),
    }
    assert read == (of_writers if version == NEWEST else {}) | {
        "progress": LoggedProgress(PROGRESS, INDEX, READING),
        "deletions": DELETIONS,
        "end of entries": end,
        "end of deletions": end,
        "progress with a window": LoggedProgress(WINDOWED, INDEX, READING, "w-1", 18 << 16),
    }


def test_what_is_written_now_is_of_the_newest_version() -> None:
    """And the raise is the last that is written in the version before."""
    values = fixtures(NEWEST)
    for name, record in (
        ("bundle", BUNDLE),
        ("deleting", DELETING),
        ("query", QUERY),
        ("begun", BEGUN),
        ("decided", DECIDED),
        ("deleted", DELETED),
    ):
        assert CODEC.encode(record, NEWEST).hex() == values[name]
    assert CODEC.encode(RAISED, OLDEST).hex() == values["raised, in version 4"]
    assert CODEC.encode_report(REPORT, NEWEST).hex() == values["report"]
    first, *_ = encode_end(DELETIONS.first)
    for name, changed in (
        ("entries", encode_entries(ENTRIES)),
        ("progress", encode_progress(PROGRESS, INDEX, READING)),
        ("deletions", encode_deletions(DELETIONS)),
        ("end of entries", first),
        ("entries of a writer", encode_block(entry_block(ENTRIES), WRITER, 30)),
        (
            "progress of a writer",
            encode_progress(PROGRESS, INDEX, READING, "w-1", 0, 31, BEFORE),
        ),
        ("deletions of a writer", encode_deletions(DELETIONS, WRITER)),
        ("end of entries of a writer", encode_end(DELETIONS.first, WRITER)[0]),
    ):
        key, value = written_in(changed, NEWEST)
        assert f"{key.hex()}={(value or b'').hex()}" == values[f"changelog {name}"]


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
    key, value = encode_progress(PROGRESS, INDEX, READING)
    assert value is not None
    for version, said in ((NEWEST + 1, "older than the workers"), (OLDEST - 1, "Upgrade through")):
        record = written_in(ChangelogRecord(key, value), version)
        with pytest.raises(UnreadableVersionError, match=f"version {version}.*{said}"):
            decode_record(*record, "here")


def test_the_raise_of_the_page_is_what_is_written() -> None:
    """docs/formats.md, "Versions"."""
    raised, first = example("raise")
    assert CODEC.encode(RAISED, OLDEST).hex() == raised
    assert CODEC.encode(BEGUN, NEWEST).hex() == first


def test_table_of_versions_is_that_of_the_code() -> None:
    section = PAGE.partition("### Versions\n")[2].partition("\n### ")[0]
    rows = re.findall(r"^\| (\d) \| first byte (\d\d).*\| first byte (\d\d)", section, re.MULTILINE)
    key, value = encode_progress(PROGRESS, INDEX, READING)
    assert [(int(version), int(log, 16), int(other, 16)) for version, log, other in rows] == [
        (each, VERSION_BYTES[each], (written_in(ChangelogRecord(key, value), each).value or b"")[0])
        for each in (OLDEST, NEWEST)
    ]
    assert f"two format versions, {OLDEST} and {NEWEST}" in section
