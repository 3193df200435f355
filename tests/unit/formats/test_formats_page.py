"""docs/formats.md: the code produces its examples, and its tables are complete."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable

import msgspec
import pytest

from simhash_core.documents import RawRecord, SourcePosition
from simhash_core.verdicts import Rejection, RejectionReason, Undecidable, UndecidableReason
from streams.documents.fields import ID_BYTES_MAX, FieldSettings
from streams.documents.json_values import NESTING_MAX
from streams.kafka.producers import ProducerRecord
from streams.worker.outputs import (
    TombstoneReason,
    dead_letter_record,
    document_records,
    tombstone_record,
)
from tests.repository.source_tree import ROOT
from tests.unit.documents.samples import (
    HERE,
    NEAR,
    NOW_MS,
    RULES,
    STRUCTURED,
    TAG_RULES,
    UNIQUE,
    output_of,
    pending,
    raw,
    read,
    read_document,
    view,
)

PAGE = (ROOT / "docs" / "formats.md").read_text("utf-8")
RECORDS = PAGE.partition("\n## Internal topics\n")[0]
EXAMPLES = dict(re.findall(r"<!-- example: ([^\n]+) -->\n```json\n(.+?)```", RECORDS, re.DOTALL))
THERE = SourcePosition("raw-documents", 0, 7)
SHOWN = raw('{"text":"北京今天下雪了，地铁照常运行。"}'.encode(), headers=(("trace", b"7f"),))
DUPLICATE = output_of(pending(SHOWN, NEAR, "weather-2", THERE, NOW_MS + 300_000))
TAGGED = output_of(pending(SHOWN, NEAR, "weather-2", THERE), TAG_RULES)
TOMBSTONE = tombstone_record(pending(raw(None)), TombstoneReason.DELETED, RULES)


def section(title: str) -> str:
    level, _, _ = title.partition(" ")
    found = re.search(
        rf"^{re.escape(title)}\n(.+?)(?=^{level} |\Z)", PAGE, re.DOTALL | re.MULTILINE
    )
    assert found, title
    return found[1]


def dead_letter() -> ProducerRecord:
    rejection = read(msgspec.structs.replace(SHOWN, value=b'{"text":'))
    assert isinstance(rejection, Rejection)
    return dead_letter_record(rejection, RULES)


@pytest.mark.parametrize(
    ("given_name", "read_name", "record"),
    [
        ("raw document", "document", raw(b"")),
        ("structured event", "document of the event", raw(b"", headers=STRUCTURED)),
    ],
)
def test_examples_are_read_as_shown(given_name: str, read_name: str, record: RawRecord) -> None:
    value = EXAMPLES[given_name].encode()
    document = read_document(msgspec.structs.replace(record, value=value))
    assert json.loads(msgspec.json.encode(document)) == json.loads(EXAMPLES[read_name])


def test_verdicts_give_the_records_shown() -> None:
    assert view(output_of(pending(SHOWN))) == json.loads(EXAMPLES["unique"])
    assert view(TOMBSTONE) == json.loads(EXAMPLES["tombstone"])
    assert json.loads(DUPLICATE.value or b"") == json.loads(EXAMPLES["duplicate"])
    assert view(TAGGED) == json.loads(EXAMPLES["tagged"])
    assert view(dead_letter()) == json.loads(EXAMPLES["dead letter"])


def test_no_example_is_left_unchecked() -> None:
    checked = {"raw document", "document", "structured event", "document of the event"}
    checked |= {"unique", "tombstone", "duplicate", "tagged", "dead letter"}
    assert set(EXAMPLES) == checked
    assert RECORDS.count("```json\n{\n") == len(checked)


def headers(*records: ProducerRecord) -> list[str]:
    """Return the names of headers, without those of the sender."""
    return [name for record in records for name, _ in record.headers if name != "trace"]


UNDECIDABLE = Undecidable(UndecidableReason.EMPTY)
REPLACED = document_records(
    pending(raw(b""), msgspec.structs.replace(NEAR, agreement=0.75)), TAG_RULES, replaced=True
)


@pytest.mark.parametrize(
    ("title", "names"),
    [
        ("### Reasons to refuse a record", [*RejectionReason]),
        ("### The value", {*FieldSettings.__struct_fields__} - {"format", "key_format"}),
        (
            "### `unique`",
            headers(
                output_of(pending(raw(b""), UNIQUE)), output_of(pending(raw(b""), UNDECIDABLE))
            ),
        ),
        ("### `unique`", [*UndecidableReason]),
        ("### Tombstones on `unique`", [*headers(TOMBSTONE), *TombstoneReason]),
        ("### `tagged`: everything on one topic", headers(*REPLACED)),
        ("### `duplicate-of`", [*headers(DUPLICATE), "body", "body_base64"]),
        ("### `duplicate-of`", json.loads(DUPLICATE.value or b"")),
        ("### Dead letters", headers(dead_letter())),
    ],
)
def test_tables_explain_every_name(title: str, names: Iterable[str]) -> None:
    rows = re.findall(r"^\| (.+?) \|(.*)$", section(title), re.MULTILINE)
    explained = {name for row in rows for name in re.findall(r"`([^`]+)`", " ".join(row))}
    assert sorted({str(name) for name in names} - explained) == []
    first = Counter(name for name, _ in rows if "`" in name)
    assert [name for name, count in first.items() if count > 1] == []


def test_limits_are_those_of_the_code() -> None:
    records_in = section("## Records in")
    assert f"{ID_BYTES_MAX:,} bytes" in records_in
    assert f"{NESTING_MAX} deep" in records_in
    assert f"partition {HERE.partition}" in records_in
