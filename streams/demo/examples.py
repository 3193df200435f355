"""Examples of outputs with their texts: on the terminal, and as the page of ``demo --report``."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from operator import attrgetter
from typing import Final, NamedTuple

from rich.console import Console
from rich.text import Text

from simhash_core.documents import Document, RawRecord, SourcePosition
from streams.demo.summary import INDENT, DemoReport, print_section
from streams.documents.output_records import DeadLetterOutput, DuplicateOutput, ReceivedOutput
from streams.documents.raw_documents import DocumentReader
from streams.offline.pages import page, text_pair
from streams.offline.pages.text_differences import TEXT_MAX, differences
from streams.terminal.layout import Block, one_line, table
from streams.terminal.record_lines import DEAD_LETTER_STYLE, DUPLICATE_STYLE, QUIET_STYLE

# ---- A duplicate in two lines.

_ID_CELLS: Final = 24
_SHOWN: Final = 24  # characters of a shown passage
_LINE_CHARACTERS: Final = 160


def nearness(duplicate: DuplicateOutput) -> str:
    if duplicate.method == "exact":
        return "the same content"
    return f"{duplicate.distance} of {duplicate.bits} bits differ"


def duplicate_lines(duplicate: DuplicateOutput, change: str) -> Iterator[Text]:
    """Yield the ids with the distance, then ``change`` unless it is empty."""
    ids = (one_line(each, _ID_CELLS) for each in (duplicate.id, duplicate.original_id))
    yield Text.assemble(INDENT, (" ← ".join(ids), DUPLICATE_STYLE), f"  {nearness(duplicate)}")
    if change:
        yield Text(2 * INDENT + one_line(change, _LINE_CHARACTERS), style=QUIET_STYLE)


def describe_change(original: str, text: str) -> str:
    """Say how many characters a copy removed and added, then its largest changes, in a line."""
    changes = [(old.strip(), new.strip()) for old, new in differences(original, text)]
    if not changes:
        is_cut = max(len(original), len(text)) > TEXT_MAX
        return f"not in the first {TEXT_MAX:,} characters" if is_cut else "only case or white space"
    summary = f"−{sum(len(a) for a, _ in changes)} +{sum(len(b) for _, b in changes)} characters"
    for old, new in sorted(changes, key=lambda change: -len("".join(change))):
        shown = f"; “{_clipped(old)}” → “{_clipped(new)}”"
        if len(summary) + len(shown) > _LINE_CHARACTERS:
            break
        summary += shown
    return summary


def _clipped(passage: str) -> str:
    half = _SHOWN // 2 - 1
    return passage if len(passage) <= _SHOWN else f"{passage[:half]}…{passage[-half:]}"


# ---- The examples: the duplicates furthest from their originals, and the first dead letters.

EXAMPLES_MAX: Final = 200  # of duplicates, and of dead letters
_BYTES_MAX: Final = 64 * 1024 * 1024  # of texts, at four bytes a character
_ORIGINS_MAX: Final = 10_000
_PRINTED: Final = 8


class Pair(NamedTuple):
    duplicate: DuplicateOutput
    original: Document
    copy: Document


class Refused(NamedTuple):
    where: str
    reason: str
    detail: str


class Examples:
    def __init__(self, reader: DocumentReader) -> None:
        self._reader = reader
        self._bytes_left = _BYTES_MAX
        self._documents: dict[SourcePosition, Document] = {}
        self._origins: dict[SourcePosition, str] = {}  # lines of records that are no documents
        self._duplicates: list[DuplicateOutput] = []
        self._dead_letters: list[DeadLetterOutput] = []

    def note_sent(
        self, key: bytes | None, value: bytes | None, source: SourcePosition, where: str = ""
    ) -> None:
        read = self._reader.read(source, RawRecord(key, value, 0))
        if not isinstance(read, Document):
            if len(self._origins) < _ORIGINS_MAX:
                self._origins[source] = where
            return
        self._documents[source] = read
        self._bytes_left -= _bytes(read)
        while self._bytes_left < 0:
            oldest = next(iter(self._documents))
            self._bytes_left += _bytes(self._documents.pop(oldest))

    def note_output(self, output: ReceivedOutput) -> None:
        if isinstance(output, DuplicateOutput):
            self._duplicates.append(output)
            if len(self._duplicates) > 2 * EXAMPLES_MAX:
                self._duplicates = _furthest(self._duplicates)
        elif isinstance(output, DeadLetterOutput) and len(self._dead_letters) < EXAMPLES_MAX:
            self._dead_letters.append(output)

    def pair(self, duplicate: DuplicateOutput) -> Pair | None:
        """Return a duplicate with its texts; None if one of them is not kept any more."""
        original = self._documents.get(duplicate.original)
        copy = self._documents.get(duplicate.source)
        return Pair(duplicate, original, copy) if original and copy else None

    def pairs(self) -> list[Pair]:
        return [pair for pair in map(self.pair, _furthest(self._duplicates)) if pair]

    def refused(self) -> list[Refused]:
        return [
            Refused(self._origins.get(each.source) or str(each.source), each.reason, each.detail)
            for each in self._dead_letters
        ]

    def change(self, duplicate: DuplicateOutput) -> str:
        """Return how a duplicate differs, or its text; "" if the texts are not kept any more."""
        pair = self.pair(duplicate)
        if pair is None:
            return ""
        old, new = pair.original.text, pair.copy.text
        return f"“{new}”" if new == old else describe_change(old, new)


def _bytes(document: Document) -> int:
    return 4 * (len(document.text) + len(document.title))


def _furthest(duplicates: list[DuplicateOutput]) -> list[DuplicateOutput]:
    """Return the duplicates with the largest distances; of equal distances, the first."""
    return heapq.nlargest(EXAMPLES_MAX, duplicates, key=attrgetter("distance"))


def print_examples(console: Console, examples: Examples) -> None:
    pairs = [pair.duplicate for pair in examples.pairs()[:_PRINTED]]
    if pairs:
        lines: list[Block] = [
            line for pair in pairs for line in duplicate_lines(pair, examples.change(pair))
        ]
        print_section(console, "Pairs, largest distance first", lines)
    refused = [
        (each.where, Text(each.reason, style=DEAD_LETTER_STYLE), each.detail)
        for each in examples.refused()[:_PRINTED]
    ]
    if refused:
        print_section(console, "Dead letters", [table(refused, "<<<", INDENT)])


def demo_page(report: DemoReport, examples: Examples) -> str:
    names = ("original", "duplicate")
    records = max(1, report.documents)
    content = {
        "profile": report.profile,
        "tiles": [
            ("Records", f"{report.documents:,}", f"{report.documents_per_second:,.0f} per second"),
            ("Unique", f"{report.unique:,}", f"{report.unique / records:.1%}"),
            (
                "Near duplicates",
                f"{report.near_duplicates:,}",
                f"{report.near_duplicates / records:.1%}",
            ),
            ("Exact duplicates", f"{report.exact_duplicates:,}", "of the same content"),
            ("Dead letters", f"{report.dead_letters:,}", "could not be read"),
            ("Too short", f"{report.undecidable:,}", "compared by exact content only"),
        ],
        "pairs": [
            (nearness(each.duplicate), *text_pair(each.original, each.copy, names))
            for each in examples.pairs()
        ],
        "duplicates": f"{report.duplicates:,}",
        "reasons": [(name, f"{count:,}") for name, count in report.dead_letters_by_reason.items()],
        "refused": examples.refused(),
        "dead_letters": f"{report.dead_letters:,}",
    }
    title = f"Duplicates in {report.input or f'generated documents, seed {report.seed}'}"
    return page("demo.html", title, content)
