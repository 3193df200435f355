"""Scores a filter on the demo stream, by its outputs alone.

A copy is *found* if it was called a duplicate of a document with the same root: the original or
another copy of it. For each kind of record:

    recall     found copies / copies
    precision  found copies / records that were called duplicates

If a record has several outputs, the first counts.
"""

from __future__ import annotations

import msgspec

from simhash_core.documents import SourcePosition
from streams.corpus.generated import EditKind, GeneratedRecord
from streams.documents.output_records import DuplicateOutput, ReceivedOutput


class KindScore(msgspec.Struct, frozen=True):
    count: int
    copies: int
    found: int
    called_duplicate: int
    recall: float | None  # None without copies
    precision: float | None  # None without duplicates


class Score(msgspec.Struct, frozen=True):
    overall: KindScore
    by_kind: dict[EditKind, KindScore]  # of the kinds in the stream, in order


class Truth:
    """The generated records of a stream, and the filter's output for each."""

    def __init__(self) -> None:
        self._records: dict[SourcePosition, GeneratedRecord] = {}
        self._outputs: dict[SourcePosition, ReceivedOutput] = {}

    def note_sent(self, record: GeneratedRecord, source: SourcePosition) -> None:
        self._records[source] = record

    def note_output(self, output: ReceivedOutput) -> None:
        """Note an output; it may come before ``note_sent``."""
        self._outputs.setdefault(output.source, output)

    def score(self) -> Score:
        sources = {
            kind: [source for source, record in self._records.items() if record.kind is kind]
            for kind in EditKind
        }
        roots = {record.id: record.root or record.id for record in self._records.values()}
        return Score(
            self._scored(list(self._records), roots),
            {kind: self._scored(each, roots) for kind, each in sources.items() if each},
        )

    def _scored(
        self, sources: list[SourcePosition], roots: dict[str | None, str | None]
    ) -> KindScore:
        copies = found = called = 0
        for source in sources:
            record, output = self._records[source], self._outputs.get(source)
            copies += record.root is not None
            if isinstance(output, DuplicateOutput):
                called += 1
                found += (
                    record.root is not None
                    and output.original_id != record.id
                    and roots.get(output.original_id) == record.root
                )
        return KindScore(
            count=len(sources),
            copies=copies,
            found=found,
            called_duplicate=called,
            recall=found / copies if copies else None,
            precision=found / called if called else None,
        )
