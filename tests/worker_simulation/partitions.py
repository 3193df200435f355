"""A partition at its broker: its records in order, its open transactions, and their markers.

The end of a transaction takes an offset, as its marker does in Kafka. Readers of committed records
see records before the first record of the first open transaction.
"""

from __future__ import annotations

import copy
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final, NamedTuple

from tests.worker_simulation.network import Code, RefusedError

_REMEMBERED: Final = 5
"""How many records of a producer are remembered, to refuse repeats."""
Headers = Sequence[tuple[str, bytes | None]]


class Producer(NamedTuple):
    """The producer of a record: an id from the brokers, and how often it was renewed."""

    id: int
    epoch: int


@dataclass(slots=True, eq=False)
class Opened:
    """The part of a transaction in one partition; ``committed`` is None while it is open."""

    first: int
    committed: bool | None = None


class Stored(NamedTuple):
    """A record in a partition; ``transaction`` is None if it is in none."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: Headers
    transaction: Opened | None
    leader_epoch: int = 0  # how often the partition had lost records before it came

    @property
    def is_committed(self) -> bool:
        """Whether readers of committed records see it, once no earlier transaction is open."""
        return self.transaction is None or self.transaction.committed is True


@dataclass(slots=True)
class _Known:
    """What a partition remembers of a producer: the next sequence number, and recent offsets."""

    epoch: int
    next: int = 0
    recent: dict[int, int] = field(default_factory=dict)


class PartitionState(NamedTuple):
    """What a disk has of a partition at one moment."""

    records: list[Stored]
    start: int
    end: int
    opened: dict[int, Opened]
    producers: dict[int, _Known]


_FORGETS_EACH: Final = 2
EMPTY: Final = PartitionState([], 0, 0, {}, {})


class Partition:
    """One partition; ``now_ms``: the broker's clock, ``changed``: set when more can be read."""

    def __init__(self, now_ms: Callable[[], int], changed: Callable[[], object]) -> None:
        self.records: list[Stored] = []
        self.start = 0
        self.end = 0
        self.appended: Callable[[Stored], object] | None = None
        self.lost_from: list[int] = []
        """The offset of the first lost record, for each loss of power."""
        self.is_created_again = False
        self._now_ms = now_ms
        self._changed = changed
        self._open: dict[int, Opened] = {}
        self._producers: dict[int, _Known] = {}
        self._repeated = 0

    @property
    def stable_end(self) -> int:
        """The offset up to which all transactions have ended."""
        return min((each.first for each in self._open.values()), default=self.end)

    def append(
        self,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int | None = None,
        headers: Headers = (),
        *,
        producer: Producer | None = None,
        sequence: int = 0,
        transactional: bool = False,
    ) -> int:
        """Append a record, unless it is already there; return its offset.

        ``sequence`` is the record's number among all that a producer sends here in one epoch.
        """
        if producer is not None:
            known = self._known(producer, sequence)
            if sequence in known.recent:
                return self._offset_again(known.recent[sequence])
            if sequence != known.next:
                raise RefusedError(Code.OUT_OF_ORDER_SEQUENCE)
            known.next = sequence + 1
            known.recent[sequence] = self.end
            if len(known.recent) > _REMEMBERED:
                del known.recent[next(iter(known.recent))]
        transaction = None
        if transactional:
            assert producer is not None
            transaction = self._open.get(producer.id)
            if transaction is None:
                transaction = self._open[producer.id] = Opened(self.end)
        time_ms = self._now_ms() if timestamp_ms is None else timestamp_ms
        epoch = len(self.lost_from)
        stored = Stored(self.end, key, value, time_ms, tuple(headers), transaction, epoch)
        self.records.append(stored)
        self.end += 1
        if self.appended is not None:
            self.appended(stored)
        self._changed()
        return stored.offset

    def _offset_again(self, offset: int) -> int:
        """Return the offset of a record that is sent again, if the broker still knows it.

        After a restart a broker knows those of a producer's last batch alone. Here it knows every
        second one.
        """
        self._repeated += 1
        if self._repeated % _FORGETS_EACH == 0:
            raise RefusedError(Code.DUPLICATE_SEQUENCE_NUMBER)
        return offset

    def skip(self, offsets: int) -> None:
        self.end += offsets

    def _known(self, producer: Producer, sequence: int) -> _Known:
        known = self._producers.get(producer.id)
        if known is None and (self.lost_from or self.is_created_again):
            # As in Kafka, a broker that knows no record of a producer takes any as the first one.
            known = self._producers[producer.id] = _Known(producer.epoch, sequence)
        if known is None or known.epoch < producer.epoch:
            known = self._producers[producer.id] = _Known(producer.epoch)
        if producer.epoch < known.epoch:
            raise RefusedError(Code.PRODUCER_FENCED)
        return known

    def mark(self, producer: Producer, *, committed: bool) -> None:
        known = self._producers.get(producer.id)
        if known is None or known.epoch < producer.epoch:
            self._producers[producer.id] = _Known(producer.epoch)
        transaction = self._open.pop(producer.id, None)
        if transaction is not None:
            transaction.committed = committed
        self.end += 1
        self._changed()

    def read(self, offset: int, limit: int, *, committed: bool) -> tuple[list[Stored], int]:
        """Return at most ``limit`` records from an offset, and the offset to read next."""
        if not self.start <= offset <= self.end:
            raise RefusedError(Code.OFFSET_OUT_OF_RANGE)
        end = self.stable_end if committed else self.end
        first = bisect_left(self.records, offset, key=_offset)
        read: list[Stored] = []
        for record in self.records[first:]:
            if record.offset >= end:
                break
            if len(read) == limit:
                return read, record.offset
            if not committed or record.is_committed:
                read.append(record)
        return read, max(offset, end)

    def read_committed(self) -> list[Stored]:
        return self.read(self.start, len(self.records) + 1, committed=True)[0]

    # ---- a loss of power

    def kept(self) -> PartitionState:
        return copy.deepcopy(
            PartitionState(self.records, self.start, self.end, self._open, self._producers)
        )

    def put_back(self, state: PartitionState) -> None:
        """Lose all that has happened since the disk had a ``state``."""
        self.lost_from.append(state.end)
        kept = copy.deepcopy(state)
        self.records, self.start, self.end, self._open, self._producers = kept

    def check_losses(self, offset: int, losses: int | None) -> None:
        """Refuse a reader that has read lost records before an offset.

        It read the last record after so many ``losses``; None: it has read none. Kafka compares
        leader epochs (KIP-320).
        """
        if losses is not None and any(offset > each for each in self.lost_from[losses:]):
            raise RefusedError(Code.OFFSET_OUT_OF_RANGE)

    def reset(self, offset: int, losses: int | None) -> tuple[int, int | None]:
        """Return where a refused reader goes on, as librdkafka with ``auto.offset.reset=earliest``.

        It seeks to the first offset whose record is not the one that it has read.
        """
        if losses is None or not (
            lost := [each for each in self.lost_from[losses:] if each < offset]
        ):
            return self.start, None
        return max(self.start, min(lost)), len(self.lost_from)

    def trim(self, offset: int) -> None:
        self.start = max(self.start, min(offset, self.end))
        del self.records[: bisect_left(self.records, self.start, key=_offset)]

    def drop(self, offset: int) -> None:
        """Lose one record, as in a compaction; the others keep their offsets."""
        at = bisect_left(self.records, offset, key=_offset)
        del self.records[at]

    def compact(self, end: int) -> None:
        """Keep the last record of each key before ``end``, and all records from there on.

        Tombstones stay, as they do for ``delete.retention.ms``.
        """
        end = min(end, self.stable_end)
        kept = compacted([each for each in self.records if each.offset < end and each.is_committed])
        self.records = kept + [each for each in self.records if each.offset >= end]


def compacted(records: Sequence[Stored]) -> list[Stored]:
    last = {record.key: record.offset for record in records}
    return [record for record in records if last[record.key] == record.offset]


_offset: Final = attrgetter("offset")
