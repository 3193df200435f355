"""Lets the records of each partition through in the order of its log, without a gap.

Faust hands records over through queues that it empties, skips and refills while partitions move,
and it acknowledges what it skips. A record can get lost on that way while the next one arrives
(seen with 0.15.3, in a cluster that lost workers and brokers), and the offset behind it is
committed. A shard cannot take a first visit after a later one of its partition, so the loss would
be for good.

So nothing here relies on that way. For each partition there is one number, the offset that is next.
A record that does not follow it is not processed: the partition is read again from there. And
that number alone is what is committed, whatever was acknowledged.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Protocol, TypeVar

from streams.read_order import Place, ReadOrder, Standing, continuing

logger = logging.getLogger(__name__)

_AGAIN_SECONDS: Final = 1.0
"""Between two attempts to read a partition again from the same offset."""
_QUIET_SECONDS: Final = 3.0
"""After so long without a batch, there is nothing of the topic in any queue."""


class Record(Protocol):
    """A record that arrived."""

    @property
    def offset(self) -> int:
        """Its offset."""
        ...


class Partitions(Protocol):
    """The consumer, as far as it is needed here."""

    async def standing(self, place: Place) -> Standing:
        """Return what the group has committed, and the ends of the log."""
        ...

    async def earliest(self, place: Place) -> int:
        """Return where the log begins."""
        ...

    async def read_from(self, place: Place, offset: int) -> None:
        """Go on reading at an offset; without effect where the partition is not ours."""
        ...


_Record = TypeVar("_Record", bound=Record)

Lost = Callable[[Place, int, int], None]
"""Told of a partition and of the offsets lost: the first, and the one behind the last."""


class OrderedIntake:
    """Where each partition of this worker stands.

    ``assignment`` counts the times that partitions have moved.
    """

    def __init__(
        self,
        order: ReadOrder,
        partitions: Callable[[], Partitions],
        queue_limit: int,
        lost: Lost,
    ) -> None:
        """``order`` knows what the consumer fetched; ``partitions`` gives the consumer.

        ``queue_limit``: the most records of a topic that can be on their way from it to an agent.
        ``lost`` is told of offsets that the log no longer had when they were due.
        """
        self.assignment = 0
        self._order = order
        self._partitions = partitions
        self._queue_limit = queue_limit
        self._lost = lost
        self._places: frozenset[Place] = frozenset()
        self._next: dict[Place, int] = {}
        self._sought: dict[Place, tuple[int, float]] = {}
        self._busy: Counter[str] = Counter()
        self._arrived: Counter[str] = Counter()
        self._last_arrival: dict[Place, int] = {}
        self._quiet_since: dict[str, float] = {}
        self._moved = time.monotonic()

    def forget(self) -> None:
        """Forget all positions: partitions have moved, or are about to."""
        self.assignment += 1
        self._places = frozenset()
        self._next.clear()
        self._sought.clear()
        self._arrived.clear()
        self._last_arrival.clear()
        self._quiet_since.clear()
        self._moved = time.monotonic()

    def assigned(self, places: Collection[Place]) -> None:
        """Note which partitions this worker has now."""
        self._places = frozenset(places)

    def positions(self) -> dict[Place, int | None]:
        """Return up to where each partition of this worker is done; from any thread."""
        return {place: self._order.done(place, self._next.get(place)) for place in self._places}

    @contextmanager
    def batch(self, topic: str, places: Collection[Place], records: int) -> Iterator[int]:
        """Enclose the work on a batch of a topic; give the number of the present assignment."""
        self._busy[topic] += 1
        self._arrived[topic] += records
        self._last_arrival.update(dict.fromkeys(places, self._arrived[topic]))
        try:
            yield self.assignment
        finally:
            self._busy[topic] -= 1
            self._quiet_since[topic] = time.monotonic()

    async def position(self, place: Place) -> int:
        """Return the next offset of a partition; the group's where nothing has passed yet."""
        known = self._next.get(place)
        if known is not None:
            return known
        assignment = self.assignment
        committed, earliest, end = await self._partitions().standing(place)
        if committed is None or committed > end:  # it counts in a log that was deleted since
            committed = earliest
        offset = max(committed, earliest)
        if assignment == self.assignment and place not in self._next:
            self._next[place] = offset
            if committed < earliest:
                self._lost(place, committed, earliest)
        return self._next.get(place, offset)

    async def check_gaps(self, place: Place, records: Sequence[_Record]) -> None:
        """Tell ``lost`` of gaps before records that are there because the log was shortened.

        Other gaps are usual, where transactions end and records are compacted; so the log is asked.
        """
        gaps = [(self._order.follows(place, each.offset), each.offset) for each in records]
        gaps = [(first, behind) for first, behind in gaps if 0 <= first < behind]
        if not gaps:
            return
        earliest = await self._partitions().earliest(place)
        for first, behind in gaps:
            if earliest > first:
                self._lost(place, first, min(earliest, behind))

    async def begin_anew(self, topic: str) -> None:
        """Read a topic from its beginning: it was deleted and made again."""
        for place in [each for each in self._next if each[0] == topic]:
            earliest = await self._partitions().earliest(place)
            self._next[place] = earliest
            await self._read_again(place, earliest)

    async def admit(
        self, place: Place, next_offset: int, records: Sequence[_Record]
    ) -> list[_Record]:
        """Return those of the records that continue the partition from ``next_offset`` on.

        The others need no processing: they have had it, or will be read again.
        """
        arrivals = [(each.offset, self._order.follows(place, each.offset)) for each in records]
        found = continuing(next_offset, arrivals)
        if found.hole:
            await self._read_again(place, found.next_offset)
        return [records[index] for index in found.accepted]

    def passed(self, place: Place, next_offset: int, assignment: int) -> None:
        """Note that everything before ``next_offset`` is done; to be committed.

        Without effect when partitions have moved since ``assignment``.
        """
        if assignment == self.assignment:
            self._next[place] = next_offset
            self._order.passed(place, next_offset)

    def committable(self, place: Place) -> int | None:
        """Return the offset that may be committed; None where the partition is not known."""
        return self._next.get(place)

    async def read_tails(self) -> None:
        """Read again what was fetched and has not arrived, where nothing comes after it to tell."""
        for place, drained in self._order.drained().items():
            if self._nothing_queued(place):
                next_offset = await self.position(place)
                if next_offset < drained and self._nothing_queued(place):
                    await self._read_again(place, next_offset)

    def _nothing_queued(self, place: Place) -> bool:
        topic = place[0]
        if self._arrived[topic] - self._last_arrival.get(place, 0) > self._queue_limit:
            return True
        since = self._quiet_since.get(topic, self._moved)
        return not self._busy[topic] and time.monotonic() - since > _QUIET_SECONDS

    async def _read_again(self, place: Place, next_offset: int) -> None:
        now = time.monotonic()
        sought, when = self._sought.get(place, (-1, 0.0))
        if sought == next_offset and now - when < _AGAIN_SECONDS:
            return
        self._sought[place] = next_offset, now
        logger.info("%s/%d is read again from offset %d", *place, next_offset)
        await self._partitions().read_from(place, next_offset)
