"""Scores a filter on the demo stream, by its outputs alone.

A copy is *found* if it was called a duplicate of a document with the same root: the original or
another copy of it. For each kind of record:

    recall     found copies / copies
    precision  duplicates that name a document of the same root / all called duplicates

With parallel workers, a copy may be judged before its original; then the copy is unique and the
original its duplicate. The figures of a kind follow the order of the stream; the overall recall
counts such a *swapped* original as a found copy, because the repeat was removed. If a record has
several outputs, the first counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from simhash_core.documents import SourcePosition
from streams.corpus.generated import EditKind, GeneratedRecord, Outcome
from streams.documents.output_records import DeadLetterOutput, DuplicateOutput, ReceivedOutput


@dataclass(slots=True)
class KindScore:
    count: int = 0
    copies: int = 0
    found: int = 0  # copies called a duplicate of a document with the same root
    called_duplicate: int = 0
    rightly_called: int = 0  # called a duplicate of a document with the same root
    as_expected: int = 0  # with the expected kind of output, and the right root

    @property
    def recall(self) -> float | None:
        return self.found / self.copies if self.copies else None

    @property
    def precision(self) -> float | None:
        return self.rightly_called / self.called_duplicate if self.called_duplicate else None

    def add(self, record: GeneratedRecord, output: ReceivedOutput | None, *, right: bool) -> None:
        self.count += 1
        self.copies += record.root is not None
        if output is None:
            return
        duplicate = isinstance(output, DuplicateOutput)
        self.called_duplicate += duplicate
        self.rightly_called += right
        self.found += right and record.root is not None
        self.as_expected += _outcome_of(output) is record.expected and (right or not duplicate)

    def to_dict(self) -> dict[str, int | float | None]:
        return asdict(self) | {"recall": self.recall, "precision": self.precision}


@dataclass(frozen=True, slots=True)
class Score:
    kinds: Mapping[EditKind, KindScore]  # of the kinds in the stream, in order
    overall: KindScore
    swapped: int  # originals that were called a duplicate of one of their copies

    @property
    def recall(self) -> float | None:
        """Found copies and swapped originals, divided by all copies; None without copies."""
        copies = self.overall.copies
        return (self.overall.found + self.swapped) / copies if copies else None

    @property
    def precision(self) -> float | None:
        return self.overall.precision


class Truth:
    """The generated records of a stream, and the filter's output for each."""

    def __init__(self) -> None:
        self._records: list[GeneratedRecord] = []
        self._sources: dict[int, SourcePosition] = {}
        self._outputs: dict[SourcePosition, ReceivedOutput] = {}

    def add(self, record: GeneratedRecord) -> int:
        """Add the next record of the stream; return its index."""
        self._records.append(record)
        return len(self._records) - 1

    def note_sent(self, index: int, source: SourcePosition) -> None:
        self._sources[index] = source

    def note_output(self, output: ReceivedOutput) -> None:
        """Note an output; it may come before ``note_sent``."""
        self._outputs.setdefault(output.source, output)

    def score(self) -> Score:
        roots = {each.id: each.root or each.id for each in self._records if each.id is not None}
        kinds = {kind: KindScore() for kind in EditKind}
        overall = KindScore()
        swapped = 0
        for index, record in enumerate(self._records):
            source = self._sources.get(index)
            output = None if source is None else self._outputs.get(source)
            right = (
                isinstance(output, DuplicateOutput)
                and output.original_id != record.id
                and output.original_id in roots
                and roots[output.original_id] == roots.get(record.id or "")
            )
            swapped += right and record.root is None
            kinds[record.kind].add(record, output, right=right)
            overall.add(record, output, right=right)
        return Score({kind: each for kind, each in kinds.items() if each.count}, overall, swapped)


def _outcome_of(output: ReceivedOutput) -> Outcome:
    match output:
        case DuplicateOutput():
            return Outcome.DUPLICATE
        case DeadLetterOutput():
            return Outcome.DEAD_LETTER
        case _:
            return Outcome.UNIQUE
