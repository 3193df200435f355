"""Reads what comes out: counts it, notes it in the ledger, keeps the latest duplicates."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Final, Self

from simhash_core.errors import FirstseenError
from streams.demo.ledger import Ledger
from streams.kafka.retries import becomes_true
from streams.kafka.topic_follower import TopicFollower
from streams.output.received_outputs import (
    DeadLetterOutput,
    DuplicateOutput,
    ReceivedOutput,
    TombstoneOutput,
    UniqueOutput,
    received_output,
)
from streams.settings.settings import Settings

LATEST: Final = 24
"""Duplicates that are kept to be shown."""

_POLL_SECONDS: Final = 0.05
_END_SECONDS: Final = 20.0


class ObserverError(FirstseenError):
    """The outputs could not be read, or hold what is no output."""


class Observer:
    """Follows the three outputs from their beginning.

    ``on_output`` is called with each output. A record that was dropped before it was read is an
    error here, not a gap: it would be counted as lost, and be no fault of the filter.
    """

    def __init__(
        self,
        settings: Settings,
        partitions: dict[str, int],
        ledger: Ledger,
        on_output: Callable[[ReceivedOutput], None],
    ) -> None:
        """Connect in the background; ``partitions`` is their number for each output topic."""
        self.by_method: Counter[str] = Counter()
        self.by_reason: Counter[str] = Counter()
        self.unique = 0
        self.undecidable = 0
        self.latest: deque[DuplicateOutput] = deque(maxlen=LATEST)
        self.last_output_at = time.monotonic()
        self._ledger = ledger
        self._on_output = on_output
        self._follower = TopicFollower(settings, partitions, from_beginning=True, gaps="error")

    @property
    def duplicates(self) -> int:
        """Records on the duplicates topic."""
        return self.by_method.total()

    @property
    def dead_letters(self) -> int:
        """Records on the dead letters topic."""
        return self.by_reason.total()

    def __enter__(self) -> Self:
        """Give itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Let go of the connections."""
        self._follower.__exit__(*error)

    def read(self) -> int:
        """Take in what has come; return how many outputs that was."""
        records = self._follower.read(_POLL_SECONDS)
        for record in records:
            output = received_output(record.value, record.headers)
            if output is None:
                raise ObserverError(f"{record.position} is no output of the filter")
            self._take(output)
        if records:
            self.last_output_at = time.monotonic()
        return len(records)

    def read_to_ends(self) -> None:
        """Take in everything that is there now; raises ``ObserverError`` when it takes too long."""
        ends = self._follower.ends()

        def has_passed() -> bool:
            return self._follower.has_passed(ends)

        if not becomes_true(has_passed, _END_SECONDS, 0, pause=lambda _: self.read()):
            raise ObserverError(f"the outputs were not read to their ends in {_END_SECONDS} s")

    def _take(self, output: ReceivedOutput) -> None:
        match output:
            case UniqueOutput(undecidable=reason):
                self.unique += 1
                self.undecidable += bool(reason)
            case DuplicateOutput():
                self.by_method[output.method] += 1
                self.latest.append(output)
            case DeadLetterOutput(reason=reason):
                self.by_reason[reason] += 1
            case TombstoneOutput():
                return
        self._ledger.note_output(output.source)
        self._on_output(output)
