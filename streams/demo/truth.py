"""What the generator knows of each record, set beside what the filter said of it."""

from __future__ import annotations

from simhash_core.documents import SourcePosition
from streams.corpus.generated import GeneratedRecord, Outcome
from streams.demo.scoring import ObservedOutput, Score, score
from streams.output.received_outputs import DeadLetterOutput, DuplicateOutput, ReceivedOutput


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
