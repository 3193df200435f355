"""How well a filter did on the demo stream, judged by its outputs alone.

A copy is *found* where it was called a duplicate of a document with the same root: the original
itself or another copy of it. For each kind of record:

    recall     found copies / copies
    precision  duplicates that name a document of the same root / all that were called duplicates

Where workers run in parallel, a copy may be judged before its original. It is then rightly unique,
and the original its duplicate. The kinds keep to the order of the stream; the overall recall counts
such a *swapped* original as a copy found, since the stream was thinned by one all the same.

Delivery is scored beside the verdicts: a record without an output is lost, one with several is
repeated, and repeated in conflict where they differ. Verdicts are read from the first output.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from simhash_core.documents import SourcePosition
from streams.corpus.generated import EditKind, GeneratedRecord, Outcome
from streams.output.received_outputs import DeadLetterOutput, DuplicateOutput, ReceivedOutput


@dataclass(frozen=True, slots=True)
class ObservedOutput:
    """One output record of the filter under test."""

    position: int
    """The index of the input record in the generated stream, from 0."""
    kind: Outcome
    original_id: str | None = None
    """The document that a duplicate repeats; None for the other outcomes."""


@dataclass(frozen=True, slots=True)
class KindScore:
    """The counts of one kind of record, or of all of them."""

    count: int
    """Records generated."""
    copies: int
    """Those among them that repeat an earlier document."""
    found: int
    """Copies called a duplicate of a document with the same root."""
    called_duplicate: int
    """Records called a duplicate of anything."""
    rightly_called: int
    """Those among them that name a document with the same root."""
    as_expected: int
    """Records with the outcome that the generator expects; duplicates also with the right root."""

    @property
    def recall(self) -> float | None:
        """Found copies by copies; None where there was no copy."""
        return self.found / self.copies if self.copies else None

    @property
    def precision(self) -> float | None:
        """Right duplicates by duplicates; None where nothing was called one."""
        return self.rightly_called / self.called_duplicate if self.called_duplicate else None

    def to_dict(self) -> dict[str, int | float | None]:
        """Return the counts and rates by name, for JSON."""
        return {
            "count": self.count,
            "copies": self.copies,
            "found": self.found,
            "called_duplicate": self.called_duplicate,
            "rightly_called": self.rightly_called,
            "as_expected": self.as_expected,
            "recall": self.recall,
            "precision": self.precision,
        }


@dataclass(frozen=True, slots=True)
class Score:
    """The result of one run."""

    kinds: Mapping[EditKind, KindScore]
    """The score of each kind that the stream held, in the order of `EditKind`."""
    overall: KindScore
    """All kinds together."""
    swapped: int
    """Originals called a duplicate of a copy of their own, which was judged before them."""
    lost: int
    """Records without an output."""
    repeated: int
    """Records with more than one output."""
    conflicting: int
    """Repeated records whose outputs are not all the same."""

    @property
    def recall(self) -> float | None:
        """Found copies and swapped originals by copies; None where there was no copy."""
        copies = self.overall.copies
        return (self.overall.found + self.swapped) / copies if copies else None

    @property
    def precision(self) -> float | None:
        """Right duplicates by duplicates; None where nothing was called one."""
        return self.overall.precision

    def to_dict(self) -> dict[str, object]:
        """Return everything by name, for JSON."""
        return {
            "recall": self.recall,
            "precision": self.precision,
            "swapped": self.swapped,
            "lost": self.lost,
            "repeated": self.repeated,
            "conflicting": self.conflicting,
            "overall": self.overall.to_dict(),
            "kinds": {str(kind): score.to_dict() for kind, score in self.kinds.items()},
        }


@dataclass(slots=True)
class _Tally:
    """The counts of a `KindScore` while they grow."""

    count: int = 0
    copies: int = 0
    found: int = 0
    called_duplicate: int = 0
    rightly_called: int = 0
    as_expected: int = 0

    def add(self, record: GeneratedRecord, output: ObservedOutput | None, *, right: bool) -> None:
        self.count += 1
        self.copies += record.root is not None
        if output is None:
            return
        duplicate = output.kind is Outcome.DUPLICATE
        self.called_duplicate += duplicate
        self.rightly_called += right
        self.found += right and record.root is not None
        self.as_expected += output.kind is record.expected and (right or not duplicate)

    def score(self) -> KindScore:
        return KindScore(
            self.count,
            self.copies,
            self.found,
            self.called_duplicate,
            self.rightly_called,
            self.as_expected,
        )


@dataclass(slots=True)
class _Outputs:
    """The outputs by position, and what was wrong with their delivery."""

    first: list[ObservedOutput | None]
    repeated: set[int] = field(default_factory=set)
    conflicting: set[int] = field(default_factory=set)

    def add(self, output: ObservedOutput) -> None:
        if not 0 <= output.position < len(self.first):
            raise ValueError(
                f"an output has position {output.position}, but the generated stream has "
                f"{len(self.first)} records; score it against the stream that was fed in"
            )
        earlier = self.first[output.position]
        if earlier is None:
            self.first[output.position] = output
            return
        self.repeated.add(output.position)
        if earlier != output:
            self.conflicting.add(output.position)


def score(records: Sequence[GeneratedRecord], observed: Iterable[ObservedOutput]) -> Score:
    """Score the outputs of a run, which may come in any order, against the generated records.

    Raises:
        ValueError: an output stands at a position that the stream does not have.
    """
    outputs = _Outputs([None] * len(records))
    for output in observed:
        outputs.add(output)
    roots = {record.id: record.root or record.id for record in records if record.id is not None}
    tallies = {kind: _Tally() for kind in EditKind}
    overall = _Tally()
    swapped = 0
    for record, first in zip(records, outputs.first, strict=True):
        right = first is not None and _names_same_root(record, first, roots)
        swapped += right and record.root is None
        tallies[record.kind].add(record, first, right=right)
        overall.add(record, first, right=right)
    return Score(
        kinds={kind: tally.score() for kind, tally in tallies.items() if tally.count},
        overall=overall.score(),
        swapped=swapped,
        lost=outputs.first.count(None),
        repeated=len(outputs.repeated),
        conflicting=len(outputs.conflicting),
    )


def _names_same_root(
    record: GeneratedRecord, output: ObservedOutput, roots: Mapping[str, str]
) -> bool:
    """Return whether a duplicate names another document of the record's own family."""
    if output.kind is not Outcome.DUPLICATE or output.original_id in {None, record.id}:
        return False
    root = roots.get(record.id or "")
    return root is not None and roots.get(output.original_id or "") == root


class Truth:
    """Collects the records and the outputs of one run, and scores them at its end."""

    def __init__(self) -> None:
        self._records: list[GeneratedRecord] = []
        self._place: dict[SourcePosition, int] = {}
        self._outputs: list[ReceivedOutput] = []

    def add(self, record: GeneratedRecord) -> int:
        """Note the next record of the stream; return its place in it."""
        self._records.append(record)
        return len(self._records) - 1

    def note_sent(self, index: int, source: SourcePosition) -> None:
        """Note where a record has come to lie."""
        self._place[source] = index

    def note_output(self, output: ReceivedOutput) -> None:
        """Note an output; it may come before its record is noted as sent."""
        self._outputs.append(output)

    def score(self) -> Score:
        """Return the score; outputs of records that were never sent are no part of it."""
        observed = [
            _observed(self._place[output.source], output)
            for output in self._outputs
            if output.source in self._place
        ]
        return score(self._records, observed)


def _observed(index: int, output: ReceivedOutput) -> ObservedOutput:
    match output:
        case DuplicateOutput(original_id=original_id):
            return ObservedOutput(index, Outcome.DUPLICATE, original_id)
        case DeadLetterOutput():
            return ObservedOutput(index, Outcome.DEAD_LETTER)
        case _:
            return ObservedOutput(index, Outcome.UNIQUE)
