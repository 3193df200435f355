"""Replays dead letters in batches, and accounts for each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from streams.dead_letters.letters import (
    REDELIVERIES_MAX,
    DeadLetter,
    ReplayOutcome,
    dead_letter_of,
    redelivery,
    why_not_sent,
)
from streams.dead_letters.redeliveries import OffsetRanges, Redeliveries
from streams.dead_letters.topic import DeadLetterTopics
from streams.kafka.producers import ProducerRecord
from streams.kafka.topic_follower import ReadRecord

_BATCH_RECORDS: Final = 500
_BATCH_BYTES: Final = 8 * 1024 * 1024
_NAMED_MAX: Final = 20


class Selection(NamedTuple):
    """``reasons`` empty: any. ``again``: include those that were replayed before."""

    reasons: frozenset[str] = frozenset()
    limit: int | None = None
    redeliveries_max: int = REDELIVERIES_MAX
    again: bool = False


class NotSent(NamedTuple):
    letter: DeadLetter
    why: ReplayOutcome


class Account:
    """What became of every record read.

    ``no_dead_letter`` counts records in another form. ``left`` has the first of those not sent.
    ``under_way`` counts records of a batch that may or may not have been sent.
    """

    def __init__(self) -> None:
        self.outcomes: Counter[ReplayOutcome] = Counter()
        self.not_selected = 0
        self.no_dead_letter = 0
        self.under_way = 0
        self.left: list[NotSent] = []

    def note_left(self, letter: DeadLetter, why: ReplayOutcome) -> None:
        self.outcomes[why] += 1
        if why is not ReplayOutcome.REPLAYED_BEFORE and len(self.left) < _NAMED_MAX:
            self.left.append(NotSent(letter, why))

    @property
    def sent(self) -> int:
        return self.outcomes[ReplayOutcome.SENT]


class Replay:
    """One replay; ``account`` is valid at any time, also after an exception in ``run``."""

    def __init__(
        self,
        topics: DeadLetterTopics,
        selection: Selection,
        done: Mapping[int, OffsetRanges],
        redeliveries: Redeliveries | None,
        account: Account,
    ) -> None:
        """``done``: replayed before. ``redeliveries`` None: a dry run."""
        self.account = account
        self._topics = topics
        self._selection = selection
        self._done = {partition: ranges.copy() for partition, ranges in done.items()}
        self._redeliveries = redeliveries
        self._read_to: dict[int, int] = {}
        self._batch: list[ProducerRecord] = []
        self._batch_bytes = 0
        self._touched: set[int] = set()

    def run(self, records: Iterable[ReadRecord], *, whole: bool) -> None:
        """Replay the selection of ``records``.

        ``whole``: they are the whole topic, so the offsets between them (transaction markers) are
        done.
        """
        limit = self._selection.limit
        for record in records:
            if limit is not None and self.account.sent + len(self._batch) >= limit:
                break
            self._take(record, whole=whole)
            if len(self._batch) >= _BATCH_RECORDS or self._batch_bytes >= _BATCH_BYTES:
                self._send()
        self._send()

    def _take(self, record: ReadRecord, *, whole: bool) -> None:
        partition, offset = record.position.partition, record.position.offset
        done = self._done.setdefault(partition, OffsetRanges())
        was_done = offset in done
        if whole:
            done.add(self._read_to.get(partition, 0), offset)
            self._read_to[partition] = offset + 1
        letter = dead_letter_of(record)
        if letter is None:
            self.account.no_dead_letter += 1
            return
        if self._selection.reasons and letter.reason not in self._selection.reasons:
            self.account.not_selected += 1
            return
        if was_done and not self._selection.again:
            self.account.note_left(letter, ReplayOutcome.REPLAYED_BEFORE)
            return
        why = why_not_sent(letter, self._topics.raw, self._selection.redeliveries_max)
        if why is not None:
            self.account.note_left(letter, why)
            return
        replayed = redelivery(letter, self._topics.raw_partitions)
        done.add(offset, offset + 1)
        self._touched.add(partition)
        self._batch.append(replayed)
        self._batch_bytes += len(replayed.key or b"") + len(replayed.value or b"")

    def _send(self) -> None:
        if not self._batch:
            return
        self.account.under_way = len(self._batch)
        if self._redeliveries is not None:
            progress = {partition: self._done[partition] for partition in self._touched}
            self._redeliveries.send(self._batch, progress)
        self.account.under_way = 0
        self.account.outcomes[ReplayOutcome.SENT] += len(self._batch)
        self._batch, self._batch_bytes = [], 0
        self._touched.clear()
