"""The order in which records of several partitions are taken: by timestamp, but fair.

The log orders documents as they arrive, and the first of its kind is the original. So a worker with
a backlog takes the partition with the earliest next record; an original then comes before its
copies if both wait. The worker takes whole chunks, up to a batch, within which records of other
partitions may be earlier. If a partition is not read to its end and has no record here, the merge
waits for it up to ``idle_seconds``, as stream processors do (Kafka's KIP-353). No partition waits
for long, even if its timestamps are wrong. Otherwise a partition with a wrong clock, or one added
beside a backlog, would never have a turn.

In an archive that is read with a window, later documents expire what earlier ones need. Then the
merge is exact: a batch has the earliest records of all partitions, and none has a turn before its
time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Final

from streams.kafka.raw_consumer import RawRecords, message_bytes

if TYPE_CHECKING:
    from confluent_kafka import Message

_KIB: Final = 1024
_MIB: Final = 1024 * _KIB
_BYTES: Final = 128 * _MIB  # limit of all waiting records; a running fetch may exceed it
_PARTITION_BYTES: Final = 16 * _MIB
"""Limit per partition if there are few. A pause discards what is fetched, and it takes a quarter of
a second until records come again. So the limit is more than one fetch with its records unpacked,
and half of it is work for that time."""
_PARTITION_BYTES_MIN: Final = 64 * _KIB
_TURN_SECONDS: Final = 2.0
_TURNS_PASSED: Final = 4  # a queue comes next after ``_TURN_SECONDS`` and this many turns per queue
_SPARE_ENTRIES: Final = 64  # outdated heap entries, in addition to twice the queues in line


class RawQueue:
    """The fetched records of one shard's partition that are not in a batch yet.

    ``next`` is the lowest offset that may come. ``reading`` is the number of its records' reading.
    ``empty_to`` is the end of the partition, if it had no record to read at first.
    ``since`` and ``turn`` are the time and turn at which the queue joined the line. ``entry`` is
    the number of its heap entry. ``taken`` records go into the batch that is being made.
    """

    def __init__(self, partition: int, reading: int) -> None:
        self.partition = partition
        self.reading = reading
        self.next = 0
        self.empty_to = 0
        self.messages: list[Message] = []
        self.size = 0
        self.is_paused = False
        self.is_at_end = False
        self.since = 0.0
        self.turn = 0
        self.entry = -1
        self.taken = 0
        self.taken_bytes = 0

    @property
    def time_ms(self) -> int:
        return int(self.messages[self.taken].timestamp()[1])


class TimestampMerge:
    """The queues of all shards; each step takes time with the logarithm of their number."""

    def __init__(self, idle_seconds: float, now: Callable[[], float] | None = None) -> None:
        self.idle_seconds = idle_seconds
        self.is_exact = False  # take records by time alone, without chunks and turns
        self._now = now or time.monotonic
        self._turns = 0
        self._queues: set[RawQueue] = set()
        self._numbers = count()
        # Queues with records: a heap by their next timestamp, and a line by their last turn.
        self._by_time: list[tuple[int, int, RawQueue]] = []
        self._in_line: dict[RawQueue, None] = {}
        # Queues that may have earlier records that are not fetched yet, the latest queue last.
        self._awaited: dict[RawQueue, None] = {}
        self._changed: set[RawQueue] = set()

    def __len__(self) -> int:
        return len(self._in_line)

    def add(self, queue: RawQueue) -> None:
        """Take records of a queue from now on."""
        self._queues.add(queue)
        self._await(queue)

    def remove(self, queue: RawQueue) -> None:
        self._queues.discard(queue)
        self._in_line.pop(queue, None)
        self._awaited.pop(queue, None)
        self._changed.discard(queue)
        queue.messages.clear()
        queue.size = 0
        queue.entry = -1

    def put(self, queue: RawQueue, run: RawRecords) -> None:
        if queue not in self._queues:
            return
        was_empty = not queue.messages
        queue.messages += run.messages
        queue.size += run.size
        queue.next = (run.messages[-1].offset() or 0) + 1
        queue.is_at_end = False
        self._changed.add(queue)
        if was_empty:
            self._awaited.pop(queue, None)
            self._enqueue(queue)

    def at_end(self, queue: RawQueue) -> None:
        queue.is_at_end = True
        self._awaited.pop(queue, None)

    def wait_seconds(self) -> float:
        """Return how long to wait for partitions that may have earlier records; 0: do not wait."""
        return self.awaited_seconds() if self._in_line else 0.0

    def awaited_seconds(self) -> float:
        """The same, but also if there are no records at all."""
        if not self._awaited:
            return 0.0
        latest = next(reversed(self._awaited))
        return max(0.0, latest.since + self.idle_seconds - self._now())

    def take(self, records: int, size: int) -> list[RawRecords]:
        """Return the earliest records: at least one if there is any, and one run per queue."""
        batch: dict[RawQueue, None] = {}
        while records > 0 and (queue := self._next()) is not None:
            taken, taken_bytes = self._take_from(queue, records, size, must=not batch)
            if not taken:
                break
            batch[queue] = None
            records -= taken
            size -= taken_bytes
            if queue.taken == len(queue.messages) and self.idle_seconds and not queue.is_at_end:
                break  # its next records may be earlier than those of other queues
        return [self._cut(queue) for queue in batch]

    def _next(self) -> RawQueue | None:
        """Return the queue with the earliest record, or a queue that has waited too long."""
        self._drop_outdated()
        if not self._by_time:
            return None
        longest = next(iter(self._in_line), None)
        if not self.is_exact and longest is not None and self._is_passed_over(longest):
            return longest
        return self._by_time[0][2]

    def _drop_outdated(self) -> None:
        while self._by_time and self._by_time[0][1] != self._by_time[0][2].entry:
            heappop(self._by_time)  # records were taken from the queue, or it was removed

    def _is_passed_over(self, queue: RawQueue) -> bool:
        turns = self._turns - queue.turn
        has_waited = self._now() - queue.since >= _TURN_SECONDS
        return has_waited and turns >= _TURNS_PASSED * len(self._in_line)

    def _take_from(
        self, queue: RawQueue, records: int, size: int, *, must: bool
    ) -> tuple[int, int]:
        """Take a chunk, or the records that are not later than others; return number and size."""
        queue.entry = -1
        until_ms = None
        if self.is_exact:
            self._drop_outdated()
            until_ms = self._by_time[0][0] if self._by_time else None
        taken = total = 0
        for message in queue.messages[queue.taken : queue.taken + records]:
            if until_ms is not None and taken and message.timestamp()[1] > until_ms:
                break
            length = message_bytes(message)
            if total + length > size and (taken or not must):
                break
            taken += 1
            total += length
        queue.taken += taken
        queue.taken_bytes += total
        if taken:
            self._in_line.pop(queue, None)
        if queue.taken < len(queue.messages):
            self._push(queue)
        return taken, total

    def _cut(self, queue: RawQueue) -> RawRecords:
        taken, total = queue.taken, queue.taken_bytes
        queue.taken = queue.taken_bytes = 0
        run = RawRecords(queue.partition, queue.reading, queue.messages[:taken], total)
        del queue.messages[:taken]
        queue.size -= total
        self._changed.add(queue)
        self._turns += 1
        if queue.messages:
            self._enqueue(queue)
        elif not queue.is_at_end:
            self._await(queue)
        return run

    def _push(self, queue: RawQueue) -> None:
        queue.entry = next(self._numbers)
        heappush(self._by_time, (queue.time_ms, queue.entry, queue))

    def _enqueue(self, queue: RawQueue) -> None:
        queue.since, queue.turn = self._now(), self._turns
        self._push(queue)
        self._in_line[queue] = None
        if len(self._by_time) > 2 * len(self._in_line) + _SPARE_ENTRIES:
            # Outdated entries might otherwise stay in the heap.
            self._by_time = [each for each in self._by_time if each[1] == each[2].entry]
            heapify(self._by_time)

    def _await(self, queue: RawQueue) -> None:
        queue.since = self._now()
        self._awaited.pop(queue, None)
        self._awaited[queue] = None

    def changed_pauses(self) -> tuple[list[int], list[int]]:
        """Return partitions to pause, as they have much here, and to resume; each change once."""
        limit = min(_PARTITION_BYTES, _BYTES // max(1, len(self._queues)))
        limit = max(_PARTITION_BYTES_MIN, limit)
        changed, self._changed = self._changed, set()
        paused = [each for each in changed if not each.is_paused and each.size >= limit]
        resumed = [each for each in changed if each.is_paused and each.size <= limit // 2]
        for queue in (*paused, *resumed):
            queue.is_paused = not queue.is_paused
        return [each.partition for each in paused], [each.partition for each in resumed]
