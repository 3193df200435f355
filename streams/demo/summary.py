"""The result of a demo: figures, examples, and a page."""

from __future__ import annotations

import heapq
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from operator import attrgetter
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

import msgspec
from prometheus_client.parser import text_string_to_metric_families
from rich.console import Console
from rich.text import Text

from simhash_core.documents import Document, RawRecord, SourcePosition
from streams.corpus.generated import BROKEN, EditKind
from streams.demo.live_view import nearness
from streams.documents.output_records import DeadLetterOutput, DuplicateOutput, ReceivedOutput
from streams.documents.raw_documents import DocumentReader
from streams.monitoring.metrics import Stage
from streams.offline.pages import page, text_pair
from streams.terminal.layout import Block, counted, one_line, show, table
from streams.terminal.record_lines import (
    DEAD_LETTER_STYLE,
    DUPLICATE_STYLE,
    QUIET_STYLE,
    UNDECIDABLE_STYLE,
    UNIQUE_STYLE,
)

# ---- The worker's time, from its metrics.

_STAGES = "firstseen_stage_duration_seconds"
_PROCESSOR = "process_cpu_seconds_total"


class StageTime(msgspec.Struct, frozen=True):
    stage: str
    batches: int
    seconds: float


def worker_times(exposition: str) -> tuple[tuple[StageTime, ...], float]:
    """Return the time of each stage, and the seconds of CPU time, from a worker's metrics."""
    sums: dict[str, float] = {}
    counts: dict[str, int] = {}
    cpu_seconds = 0.0
    for family in text_string_to_metric_families(exposition):
        for sample in family.samples:
            if sample.name == f"{_STAGES}_sum":
                sums[sample.labels["stage"]] = sample.value
            elif sample.name == f"{_STAGES}_count":
                counts[sample.labels["stage"]] = int(sample.value)
            elif sample.name == _PROCESSOR:
                cpu_seconds = sample.value
    stages = tuple(
        StageTime(stage, counts[stage], round(seconds, 3))
        for stage, seconds in sums.items()
        if counts[stage] and stage != Stage.WATCH  # it runs beside the work
    )
    return stages, cpu_seconds


# ---- The figures, as in the JSON object of ``--json``.


class DemoReport(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a demo; docs/demo.md explains them."""

    input: str | None
    seed: int | None
    profile: str
    documents: int
    unique: int
    undecidable: int
    duplicates: int
    exact_duplicates: int
    near_duplicates: int
    dead_letters: int
    dead_letters_by_reason: Mapping[str, int]
    tombstones: int
    too_long: int
    lost: int
    repeated: int
    precision: float | None = None
    recall: float | None = None
    swapped: int = 0
    by_kind: Mapping[str, Mapping[str, int | float | None]] | None = None
    seconds: float
    documents_per_second: float
    shards: int
    worker_cpu_seconds: float
    stages: tuple[StageTime, ...]

    @property
    def is_whole(self) -> bool:
        return self.lost == 0 and self.repeated == 0


# ---- The changes of a copy, in one line: “−12 +3 characters; “旧” → “新””.
#
# For speed, sentences are compared first, then the words of those that differ. White space counts
# as one space.

TEXT_MAX: Final = 5_000
"""Characters of a text that are compared; the summary says if there are more."""
WORK_MAX: Final = 40_000
"""Limit of words, and of pairs of equal words, to align; later passages are shown whole."""

_SENTENCE = re.compile(r".*?(?:[。！？!?；;]|[.](?=\s)|$)[”’」』\"')）]*", re.DOTALL)
_WORD = re.compile(r"[^\W\d_\u3400-\u9fff]+|\d[\d.,]*|\s+|.", re.DOTALL)
_SHOWN = 24  # maximum characters of a shown passage
_LINE_CHARACTERS = 160
_LONG_LIST = 400  # items
_LIST_WORK = 50  # cost of each list


_Change: TypeAlias = tuple[str, str]  # the old passage and the new one


def describe_change(original_text: str, text: str) -> str:
    """Summarise in a line what changed from the original to the copy.

    The line says if only white space, typography or the order of sentences differ. Otherwise it
    gives the numbers of removed and added characters, then the largest changes.
    """
    if original_text == text:
        return "no change"
    cut = max(len(original_text), len(text)) > TEXT_MAX
    scope = f" in the first {TEXT_MAX:,} characters" if cut else ""
    old, new = (" ".join(each[:TEXT_MAX].split()) for each in (original_text, text))
    if old == new:
        return "no change" + scope if cut else "only white space"
    if _letters(old) == _letters(new):
        return "only punctuation, widths, case or white space" + scope
    before, after = (_SENTENCE.findall(each) for each in (old, new))
    if sorted(filter(None, map(str.strip, before))) == sorted(filter(None, map(str.strip, after))):
        return "the same sentences in another order" + scope
    changes = list(_changes(before, after))
    summary = (
        f"−{sum(len(o) for o, _ in changes)} +{sum(len(n) for _, n in changes)} characters{scope}"
    )
    for change in sorted(changes, key=lambda change: -len("".join(change))):
        shown = _shown(*map(_clipped, change))
        if len(summary) + len(shown) > _LINE_CHARACTERS:
            break
        summary += shown
    return summary


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, unicodedata.normalize("NFKC", text).casefold()))


def _shown(old: str, new: str) -> str:
    if old and new:
        return f"; “{old}” → “{new}”"
    return f"; − “{old}”" if old else f"; + “{new}”" if new else ""


def _clipped(passage: str) -> str:
    passage = passage.strip()
    half = _SHOWN // 2 - 1
    return passage if len(passage) <= _SHOWN else f"{passage[:half]}…{passage[-half:]}"


def _changes(before: list[str], after: list[str]) -> Iterator[_Change]:
    work = WORK_MAX
    for old_sentences, new_sentences in _differing(before, after):
        passages = [("".join(old_sentences), "".join(new_sentences))]
        if len(old_sentences) == len(new_sentences):
            passages = list(zip(old_sentences, new_sentences, strict=True))
        for old, new in passages:
            words, new_words = _WORD.findall(old), _WORD.findall(new)
            counts = Counter(new_words)
            work -= _LIST_WORK + len(words) + len(new_words) + sum(counts[word] for word in words)
            if work < 0 or not (old and new):
                yield old, new
            else:
                for removed, added in _differing(words, new_words):
                    yield "".join(removed), "".join(added)


def _differing(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[Sequence[str], ...]]:
    # autojunk ignores frequent items in long lists, so that the work stays nearly linear.
    matcher = SequenceMatcher(None, old, new, autojunk=len(new) > _LONG_LIST)
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag != "equal":
            yield old[i1:i2], new[j1:j2]


# ---- Examples of outputs, with the texts of the latest documents.

PAIRS_MAX: Final = 200
REFUSED_MAX: Final = 200
_BYTES_MAX: Final = 64 * 1024 * 1024  # of texts, at four bytes a character
_ORIGINS_MAX: Final = 10_000


class Pair(NamedTuple):
    duplicate: DuplicateOutput
    original: Document
    copy: Document


class Refused(NamedTuple):
    where: str
    reason: str
    detail: str


class Examples:
    """Keeps the duplicates furthest from their originals, and the first dead letters."""

    def __init__(self, reader: DocumentReader) -> None:
        self._reader = reader
        self._bytes_left = _BYTES_MAX
        self._documents: dict[SourcePosition, Document] = {}
        self._origins: dict[SourcePosition, str] = {}  # texts of records that are no documents
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
            if len(self._duplicates) > 2 * PAIRS_MAX:
                self._duplicates = _furthest(self._duplicates)
        elif isinstance(output, DeadLetterOutput) and len(self._dead_letters) < REFUSED_MAX:
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


def _bytes(document: Document) -> int:
    return 4 * (len(document.text) + len(document.title))


def _furthest(duplicates: list[DuplicateOutput]) -> list[DuplicateOutput]:
    """Return the duplicates with the largest distances; of equal distances, the first."""
    return heapq.nlargest(PAIRS_MAX, duplicates, key=attrgetter("distance"))


# ---- The summary on the terminal; its tables fit 80 columns.

_REASONS: Final = 2
_EXAMPLES: Final = 8
_ID_CELLS: Final = 40
_ByKind = Mapping[str, Mapping[str, int | float | None]]
_SUMMED: Final = ("count", "copies", "found")
_BROKEN: Final = frozenset(map(str, BROKEN))
_KIND_NAMES: Final[Mapping[str, str]] = {
    EditKind.EDIT_1_5: "edit, 1–5 %",
    EditKind.EDIT_5_10: "edit, 5–10 %",
    EditKind.EDIT_10_20: "edit, 10–20 %",
}
_STAGE_NAMES: Final = {"commit": "commit, until acknowledged"}
_INDENT: Final = "  "


def print_summary(console: Console, report: DemoReport) -> None:
    show([_headline(report)], console=console)
    _print_section(console, "", _outputs(report))
    if report.by_kind is not None:
        _print_section(console, "Results by kind of record", _kinds(report, report.by_kind))
    _print_section(console, "Time of the worker by step", _stages(report))


def print_examples(console: Console, examples: Examples) -> None:
    pairs, refused = examples.pairs(), examples.refused()
    if pairs:
        lines = [line for pair in pairs[:_EXAMPLES] for line in _pair_lines(pair)]
        _print_section(console, "Pairs, largest distance first", lines)
    if refused:
        rows = [
            (each.where, Text(each.reason, style=DEAD_LETTER_STYLE), each.detail)
            for each in refused[:_EXAMPLES]
        ]
        _print_section(console, "Dead letters", [table(rows, "<<<", _INDENT)])


def _pair_lines(pair: Pair) -> Iterator[Block]:
    duplicate = pair.duplicate
    ids = f"{one_line(duplicate.id, _ID_CELLS)} ← {one_line(duplicate.original_id, _ID_CELLS)}"
    yield Text.assemble(_INDENT, (ids, DUPLICATE_STYLE), f"  {nearness(duplicate)}")
    if duplicate.method != "exact":
        change = one_line(describe_change(pair.original.text, pair.copy.text))
        yield Text(2 * _INDENT + change, style=QUIET_STYLE)


def print_addresses(console: Console, brokers: str, pages: str, state_dir: Path) -> None:
    rows = (
        ("Kafka broker", brokers),
        ("worker", f"{pages}  (/metrics /healthz /readyz)"),
        ("state and log", str(state_dir)),
        ("send more", f"firstseen produce my.jsonl --broker {brokers}"),
        ("follow", f"firstseen consume --broker {brokers}"),
        ("stop", "Ctrl-C"),
    )
    _print_section(console, "Still running", _pairs(rows))


def print_next(console: Console) -> None:
    rows = (
        ("with your own file", "firstseen demo --input my.jsonl"),
        ("", 'one JSON object per line: {"id": "1", "text": "…"}'),
        ("keep the broker running", "firstseen demo --keep-running"),
        ("without a broker", "firstseen dedup my.jsonl"),
        ("with your own Kafka", "firstseen topics create --help, then firstseen worker --help"),
    )
    _print_section(console, "Next", _pairs(rows))


def _headline(report: DemoReport) -> Text:
    line = Text.assemble(
        (f"{counted(report.documents, 'record')} in {report.seconds:.1f} s", "bold"),
        f", {report.documents_per_second:,.0f} per second: ",
    )
    if report.is_whole:
        line.append("nothing lost, nothing repeated", style="bold green")
    else:
        line.append(f"{report.lost:,} lost, {report.repeated:,} repeated", style="bold red")
    return line


def _outputs(report: DemoReport) -> list[Block]:
    near = f"{report.exact_duplicates:,} of the same content, {report.near_duplicates:,} near"
    rows = [
        ("unique", report.unique, UNIQUE_STYLE, "output unchanged"),
        ("", report.undecidable, UNDECIDABLE_STYLE, "of these too short to compare"),
        ("duplicates", report.duplicates, DUPLICATE_STYLE, near),
        ("dead letters", report.dead_letters, DEAD_LETTER_STYLE, _reasons(report)),
    ]
    if report.tombstones:
        rows.append(("tombstones", report.tombstones, "", "without an output"))
    if report.too_long:
        rows.append(("left out", report.too_long, "red", "too long for the embedded broker"))
    cells = [
        (
            Text(name, style=style),
            f"{count:,}",
            f"{count / max(1, report.documents):.1%}" if name else "",
            Text(note, style=QUIET_STYLE),
        )
        for name, count, style, note in rows
    ]
    return [table(cells, "<>><", _INDENT)]


def _reasons(report: DemoReport) -> str:
    reasons = list(report.dead_letters_by_reason.items())
    shown = [f"{reason} {count:,}" for reason, count in reasons[:_REASONS]]
    left = sum(count for _, count in reasons[_REASONS:])
    return ", ".join([*shown, *([f"others {left:,}"] if left else [])])


def _kinds(report: DemoReport, by_kind: _ByKind) -> list[Block]:
    def row(name: str, kinds: _ByKind, rates: Mapping[str, float | None]) -> tuple[str, ...]:
        sums = (sum(int(each[figure] or 0) for each in kinds.values()) for figure in _SUMMED)
        return (
            name,
            *(f"{each:,}" for each in sums),
            _rate(rates["recall"]),
            _rate(rates["precision"]),
        )

    broken = {kind: scores for kind, scores in by_kind.items() if kind in _BROKEN}
    overall = {"recall": report.recall, "precision": report.precision}
    rows: list[tuple[str | Text, ...]] = [
        _head("kind", "records", "copies", "found", "recall", "precision"),
        *(
            row(_KIND_NAMES.get(kind, kind.replace("_", " ")), {kind: scores}, scores)
            for kind, scores in by_kind.items()
            if kind not in _BROKEN
        ),
        row("broken records", broken, dict.fromkeys(overall)),
        tuple(Text(cell, style="bold") for cell in row("all", by_kind, overall)),
    ]
    lines: list[Block] = [
        table(rows, "<>>>>>", _INDENT),
        _note("Found: reported as a duplicate of the correct article, or of another copy of it."),
    ]
    if report.swapped:
        found = f"{report.swapped:,} originals arrived after a copy; “all” counts them as found."
        lines.append(_note(found))
    return lines


def _stages(report: DemoReport) -> list[Block]:
    times = [
        *((stage.stage, f"{stage.batches:,}", stage.seconds) for stage in report.stages),
        ("CPU time in total", "", report.worker_cpu_seconds),
    ]
    rows = [
        (
            _STAGE_NAMES.get(stage, stage),
            batches,
            f"{seconds:.2f}",
            f"{seconds / max(report.seconds, 1e-3):.0%}",
            f"{1e6 * seconds / max(1, report.documents):,.0f}",
        )
        for stage, batches, seconds in times
    ]
    head = _head("stage", "batches", "seconds", "of the run", "µs per record")
    side_by_side = "Other steps run during a commit, so the sum may exceed the time of the run."
    return [table((head, *rows), "<>>>>", _INDENT), _note(side_by_side)]


def _rate(rate: float | None) -> str:
    return "–" if rate is None else f"{rate:.3f}"


def _head(*names: str) -> tuple[Text, ...]:
    return tuple(Text(name, style=QUIET_STYLE) for name in names)


def _print_section(console: Console, title: str, blocks: Iterable[Block]) -> None:
    show(["", *([Text(title, style="bold")] if title else []), *blocks], console=console)


def _note(text: str) -> Text:
    return Text(_INDENT + text, style=QUIET_STYLE)


def _pairs(rows: Iterable[tuple[str, str]]) -> list[Block]:
    return [table(((Text(name, style=QUIET_STYLE), value) for name, value in rows), "<<", _INDENT)]


# ---- The page of ``demo --report``.


def demo_page(report: DemoReport, examples: Examples) -> str:
    pairs, refused = examples.pairs(), examples.refused()
    names = ("original", "duplicate")
    content = {
        "profile": report.profile,
        "tiles": _tiles(report),
        "pairs": [(nearness(p.duplicate), *text_pair(p.original, p.copy, names)) for p in pairs],
        "duplicates": f"{report.duplicates:,}",
        "reasons": [(name, f"{count:,}") for name, count in report.dead_letters_by_reason.items()],
        "refused": refused,
        "dead_letters": f"{report.dead_letters:,}",
    }
    title = f"Duplicates in {report.input or f'generated documents, seed {report.seed}'}"
    return page("demo.html", title, content)


def _tiles(report: DemoReport) -> list[tuple[str, str, str]]:
    near = f"{report.near_duplicates:,}", f"{report.near_duplicates / max(1, report.documents):.1%}"
    return [
        ("Records", f"{report.documents:,}", f"{report.documents_per_second:,.0f} per second"),
        ("Unique", f"{report.unique:,}", f"{report.unique / max(1, report.documents):.1%}"),
        ("Near duplicates", *near),
        ("Exact duplicates", f"{report.exact_duplicates:,}", "of the same content"),
        ("Dead letters", f"{report.dead_letters:,}", "could not be read"),
        ("Too short", f"{report.undecidable:,}", "compared by exact content only"),
    ]
