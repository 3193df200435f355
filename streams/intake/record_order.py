"""The order in which records of several partitions are taken: by their timestamps, as far as known.

The log orders documents as they come, and the first of its kind is the original. A worker that
reads a backlog of several partitions takes the partition with the earliest next record, so that an
original comes before its copies wherever both wait. It takes whole chunks, up to a batch: within
one, records of other partitions may be earlier. A partition that is not at its end and has no
record here is waited for, up to ``idle_seconds`` (as stream processors do: Kafka's KIP-353).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from streams.intake.raw_records import RawRecords

if TYPE_CHECKING:
    from confluent_kafka import Message

_MIB: Final = 1024 * 1024
_BYTES: Final = 32 * _MIB
"""Records that wait here, of all partitions together."""
_PARTITION_BYTES: Final = 2 * _MIB
"""What each partition may have here in any case: a fetch brings about as much."""


class _Waiting:
    """The records of one partition. ``since``: when it began to have none."""

    def __init__(self, start: int, now: float) -> None:
        self.start = start
        self.messages: list[Message] = []
        self.size = 0
        self.at_end = False
        self.paused = False
        self.since = now

    @property
    def time_ms(self) -> int:
        """The timestamp of the next record, milliseconds; one without is the earliest."""
        return int(self.messages[0].timestamp()[1])


class RecordOrder:
    """What was read of each partition and not handed over yet. In one thread."""

    def __init__(self, idle_seconds: float, now: Callable[[], float] = time.monotonic) -> None:
        """Begin without partitions. ``now``: a clock, in seconds."""
        self._idle_seconds = idle_seconds
        self._now = now
        self._waiting: dict[int, _Waiting] = {}

    def begin(self, partition: int, start: int) -> None:
        """Take records of a partition from now on; what was read of it before is dropped."""
        self._waiting[partition] = _Waiting(start, self._now())

    def forget(self, partition: int) -> None:
        """Take no records of a partition any more."""
        self._waiting.pop(partition, None)

    def add(self, run: RawRecords) -> None:
        """Add records that were read; those of a partition that has not begun are dropped."""
        waiting = self._waiting.get(run.partition)
        if waiting is not None and waiting.start == run.start:
            waiting.messages += run.messages
            waiting.size += run.size
            waiting.at_end = False

    def at_end(self, partition: int) -> None:
        """Note that all records of a partition have been read."""
        if partition in self._waiting:
            self._waiting[partition].at_end = True

    def __bool__(self) -> bool:
        """Whether any record waits here."""
        return any(each.messages for each in self._waiting.values())

    def wait_seconds(self) -> float:
        """Return how long to wait for partitions that may have earlier records; 0: take now.

        0 as well where no partition has any record.
        """
        if not self:
            return 0.0
        now = self._now()
        missing = [
            each.since + self._idle_seconds - now
            for each in self._waiting.values()
            if not each.messages and not each.at_end
        ]
        return max([0.0, *missing])

    def take(self, records: int, size: int) -> list[RawRecords]:
        """Take the next batch: no more records and bytes than these, but always one where any is.

        The records of each partition in it are consecutive.
        """
        batch: list[RawRecords] = []
        while records > 0:
            filled = [item for item in self._waiting.items() if item[1].messages]
            if not filled:
                break
            partition, waiting = min(filled, key=lambda item: item[1].time_ms)
            run = self._cut(partition, waiting, records, size, must=not batch)
            if not run.messages:
                break
            batch.append(run)
            if waiting.messages or self.wait_seconds():
                break  # full, or its next records may still be earlier than those of others
            records -= len(run.messages)
            size -= run.size
        return batch

    def _cut(
        self, partition: int, waiting: _Waiting, records: int, size: int, *, must: bool
    ) -> RawRecords:
        messages = waiting.messages
        count = total = 0
        for message in messages[:records]:
            length = len(message)
            if total + length > size and (count or not must):
                break
            count += 1
            total += length
        run = RawRecords(partition, waiting.start, messages[:count], total)
        del messages[:count]
        waiting.size -= total
        if not messages:
            waiting.since = self._now()
        return run

    def to_pause(self) -> list[int]:
        """Return partitions with so many records here that no more should be read; once each."""
        limit = self._limit()
        return self._turn(
            (
                each
                for each in self._waiting.items()
                if not each[1].paused and each[1].size >= limit
            ),
            paused=True,
        )

    def to_resume(self) -> list[int]:
        """Return paused partitions of which half has been taken; once each."""
        limit = self._limit() // 2
        return self._turn(
            (each for each in self._waiting.items() if each[1].paused and each[1].size <= limit),
            paused=False,
        )

    def is_paused(self, partition: int) -> bool:
        """Return whether a partition was in ``to_pause`` and not in ``to_resume`` since."""
        return partition in self._waiting and self._waiting[partition].paused

    def _limit(self) -> int:
        return max(_PARTITION_BYTES, _BYTES // max(1, len(self._waiting)))

    @staticmethod
    def _turn(items: Iterable[tuple[int, _Waiting]], *, paused: bool) -> list[int]:
        turned = []
        for partition, waiting in items:
            waiting.paused = paused
            turned.append(partition)
        return turned
