"""Scores a filter on the demo stream, by its outputs alone.

A copy is *found* if it was called a duplicate of a document with the same root: the original or
another copy of it. For each kind of record:

    recall     found copies / copies
    precision  duplicates that name a document of the same root / all called duplicates

With parallel workers, a copy may be judged before its original; then the copy is unique and the
original its duplicate. Kinds follow the order of the stream; the overall recall counts such a
*swapped* original as a found copy, because the repeat was removed.

A record without an output is lost, one with several is repeated, and conflicting if these differ.
The first output has the verdict.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from simhash_core.documents import SourcePosition
from streams.corpus.generated import EditKind, GeneratedRecord, Outcome
from streams.documents.output_records import DeadLetterOutput, DuplicateOutput, ReceivedOutput


@dataclass(frozen=True, slots=True)
class ObservedOutput:
    position: int  # index of the record in the generated stream
    kind: Outcome
    original_id: str | None = None  # of a duplicate


@dataclass(slots=True)
class KindScore:
    count: int = 0
    copies: int = 0
    found: int = 0  # copies called a duplicate of a document with the same root
    called_duplicate: int = 0
    rightly_called: int = 0  # called a duplicate of a document with the same root
    as_expected: int = 0  # with the expected outcome, and the right root

    @property
    def recall(self) -> float | None:
        return self.found / self.copies if self.copies else None

    @property
    def precision(self) -> float | None:
        return self.rightly_called / self.called_duplicate if self.called_duplicate else None

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

    def to_dict(self) -> dict[str, int | float | None]:
        return asdict(self) | {"recall": self.recall, "precision": self.precision}


@dataclass(frozen=True, slots=True)
class Score:
    kinds: Mapping[EditKind, KindScore]  # of the kinds in the stream, in order
    overall: KindScore
    swapped: int  # originals called a duplicate of a copy of theirs
    lost: int  # records without an output
    repeated: int  # records with several outputs
    conflicting: int  # repeated records with different outputs

    @property
    def recall(self) -> float | None:
        """Found copies and swapped originals by copies; None without copies."""
        copies = self.overall.copies
        return (self.overall.found + self.swapped) / copies if copies else None

    @property
    def precision(self) -> float | None:
        return self.overall.precision

    def to_dict(self) -> dict[str, object]:
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


def _first_outputs(
    count: int, observed: Iterable[ObservedOutput]
) -> tuple[list[ObservedOutput | None], set[int], set[int]]:
    """Return the first outputs by position, and the repeated and conflicting positions."""
    first: list[ObservedOutput | None] = [None] * count
    repeated: set[int] = set()
    conflicting: set[int] = set()
    for output in observed:
        if not 0 <= output.position < count:
            raise ValueError(
                f"an output has position {output.position}, but the generated stream has "
                f"{count} records; score it against the stream that was fed in"
            )
        earlier = first[output.position]
        if earlier is None:
            first[output.position] = output
            continue
        repeated.add(output.position)
        if earlier != output:
            conflicting.add(output.position)
    return first, repeated, conflicting


def score(records: Sequence[GeneratedRecord], observed: Iterable[ObservedOutput]) -> Score:
    """Score the outputs, in any order; raise ``ValueError`` for a position beyond the stream."""
    outputs, repeated, conflicting = _first_outputs(len(records), observed)
    roots = {record.id: record.root or record.id for record in records if record.id is not None}
    kinds = {kind: KindScore() for kind in EditKind}
    overall = KindScore()
    swapped = 0
    for record, first in zip(records, outputs, strict=True):
        right = first is not None and _names_same_root(record, first, roots)
        swapped += right and record.root is None
        kinds[record.kind].add(record, first, right=right)
        overall.add(record, first, right=right)
    return Score(
        kinds={kind: counts for kind, counts in kinds.items() if counts.count},
        overall=overall,
        swapped=swapped,
        lost=outputs.count(None),
        repeated=len(repeated),
        conflicting=len(conflicting),
    )


def _names_same_root(
    record: GeneratedRecord, output: ObservedOutput, roots: Mapping[str, str]
) -> bool:
    """Whether a duplicate names another document with the record's root."""
    if output.kind is not Outcome.DUPLICATE or output.original_id in {None, record.id}:
        return False
    root = roots.get(record.id or "")
    return root is not None and roots.get(output.original_id or "") == root


class Truth:
    def __init__(self) -> None:
        self._records: list[GeneratedRecord] = []
        self._place: dict[SourcePosition, int] = {}
        self._outputs: list[ReceivedOutput] = []

    def add(self, record: GeneratedRecord) -> int:
        self._records.append(record)
        return len(self._records) - 1

    def note_sent(self, index: int, source: SourcePosition) -> None:
        self._place[source] = index

    def note_output(self, output: ReceivedOutput) -> None:
        """Note an output; it may come before ``note_sent``."""
        self._outputs.append(output)

    def score(self) -> Score:
        """Return the score, without outputs of records that were not sent."""
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
