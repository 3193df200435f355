"""A file of generated documents for `firstseen dedup`, and its outputs read back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from simhash_core.documents import Document, RawRecord, SourcePosition
from simhash_core.text.fingerprinter import Fingerprinter
from streams.corpus.corpus import generate
from streams.documents.fields import FieldSettings
from streams.documents.raw_documents import DocumentReader
from tests.rigs.invariants import Known, Repeat

TEXT = (
    "北京今天下雪了，地铁照常运行，早高峰时各条线路都有人扫雪，公交车慢一些，出租车少一些，"
    "学校推迟上课，机场取消航班，市民最好提前出门。"
)
OTHER = (
    "The council has voted to keep the library open on Sundays, from noon until six o'clock, for "
    "as long as readers climb its old stairs and ask for something new to take home."
)


class DedupOutput(NamedTuple):
    unique: bytes
    duplicates: list[dict[str, Any]]
    dead_letters: list[dict[str, Any]]


def corpus_lines(seed: int, documents: int) -> list[bytes]:
    """Return the lines of a generated stream, without line ends inside of a line."""
    values = [record.value for record in generate(seed, documents)]
    return [value for value in values if value and value.strip() and b"\n" not in value]


def known_documents(lines: Sequence[bytes], fingerprinter: Fingerprinter) -> dict[str, Known]:
    """Return the documents among lines, by the number of the line."""
    reader = DocumentReader(FieldSettings())
    known = {}
    for number, line in enumerate(lines):
        read = reader.read(SourcePosition("f", 0, number), RawRecord(None, line, 0))
        if isinstance(read, Document):
            known[str(number)] = Known.of(read.id, fingerprinter.fingerprint(read.content))
    return known


def read_output(directory: Path, stem: str) -> DedupOutput:
    return DedupOutput(
        (directory / f"{stem}.unique.jsonl").read_bytes(),
        json_lines(directory / f"{stem}.duplicates.jsonl"),
        json_lines(directory / f"{stem}.dead-letters.jsonl"),
    )


def json_lines(path: Path) -> list[dict[str, Any]]:
    """Read a file of JSON lines; the last line must have an end, too."""
    content = path.read_bytes()
    assert not content or content.endswith(b"\n")
    return [json.loads(line) for line in content.splitlines()]


def repeats_in(records: Sequence[dict[str, Any]]) -> list[Repeat]:
    return [
        Repeat(
            str(record["source"]["offset"]),
            str(record["original"]["source"]["offset"]),
            record["distance"],
        )
        for record in records
    ]
