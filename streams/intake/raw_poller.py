"""The thread that has the consumer of raw records: membership, positions, batches for the loop.

It calls ``poll`` first, which waits and serves rebalances, and then ``consume(n, 0)`` for all that
is there: an idle stream has no delay, and a busy one full batches. Only this thread calls the
client (``consumer_group_metadata`` blocks while another one polls).

A partition that the group gives to this member is not read until ``start`` says from where: only
then does the client fetch it at all. Where the loop is behind, the thread takes nothing more but
goes on serving rebalances; partitions are paused only when that lasts, for a pause throws away
what was fetched.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from operator import methodcaller
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from simhash_core.errors import FirstseenError
from streams.intake.raw_records import RawRecords, TopicRecreatedError
from streams.intake.record_order import RecordOrder
from streams.kafka.batch_pace import BatchPace
from streams.kafka.consumer_errors import TopicGoneError, judge, topic_is_gone
from streams.kafka.hand_over import Calls, HandOver, PollInterval
from streams.kafka.partition_offsets import is_read_to_end
from streams.kafka.retries import becomes_true

logger = logging.getLogger(__name__)

_COMMIT_POLL_SECONDS: Final = 0.005
_BLOCKED_SECONDS: Final = 0.05
"""How often rebalances are served while the loop is behind."""
_TURNED_BACK_SECONDS: Final = 10.0
"""How long a partition may have earlier offsets than those that were read, before that is an error:
more than it takes to see that its topic was created again."""
_PAUSE_SECONDS: Final = 2.0
"""Partitions are paused when the loop has been behind for so long."""

_partition_of = methodcaller("partition")


class PollerEvents(NamedTuple):
    """What to call in the thread, with the partitions concerned and the group metadata.

    ``assigned`` may have none: each generation has one call. ``revoked`` returns a future that is
    done when what is under way for the partitions is committed; ``released`` follows when they are
    given up, before a generation in which others can have them.
    """

    assigned: Callable[[frozenset[int], bytes], None]
    revoked: Callable[[frozenset[int], bytes], Future[None]]
    released: Callable[[frozenset[int], bytes], None]
    lost: Callable[[frozenset[int], bytes], None]


@dataclass(slots=True)
class _Position:
    """A partition that is read. ``next``: no record before it may come. ``start``: of the owner."""

    start: int
    next: int


@dataclass(frozen=True, slots=True)
class Limits:
    """Of a batch, and of waits: of a rebalance for commits, of records for earlier ones."""

    records: int
    bytes: int
    revoke_seconds: float
    idle_seconds: float


class RawPoller:
    """One consumer in one thread, which runs ``run``."""

    def __init__(
        self,
        config: dict[str, Any],
        topic: str,
        limits: Limits,
        events: PollerEvents,
        calls: Calls,
        batches: HandOver[list[RawRecords]],
        is_blocked: Callable[[float], bool],
    ) -> None:
        """``is_blocked`` waits so many seconds until the loop wants records; True: it does not."""
        self.consumer = Consumer({**config, "error_cb": self._on_error})
        self.topic = topic
        self.closing = False
        self._limits = limits
        self._events = events
        self._calls = calls
        self._batches = batches
        self._is_blocked = is_blocked
        self._owned: set[int] = set()
        self._positions: dict[int, _Position] = {}
        self._stopped: set[int] = set()
        self._restarts: dict[int, tuple[int, int]] = {}
        self._turned_back: dict[int, tuple[float, TopicRecreatedError]] = {}
        self._order = RecordOrder(limits.idle_seconds)
        self._paused = False
        self._pace = BatchPace()
        self._interval = PollInterval()
        self._blocked_since: float | None = None
        self._error: FirstseenError | None = None

    def run(self) -> None:
        """Serve until ``closing``. Raises what ended it otherwise."""
        try:
            self.consumer.subscribe(
                [self.topic],
                on_assign=self._on_assign,
                on_revoke=self._on_revoke,
                on_lost=self._on_lost,
            )
            while not self.closing:
                self._turn()
            # While it is a member: when the client closes it can commit no more.
            self._give_up(frozenset(self._owned))
        finally:
            self._forget(frozenset(self._owned))  # after a failure nothing more is committed
            try:
                self.consumer.close()
            finally:
                self._calls.close()

    def _turn(self) -> None:
        if self._calls.serve():
            self._interval.extend()
        for partition, (offset, start) in list(self._restarts.items()):
            self.start(partition, offset, start)
        if self._is_blocked(0.0):
            self._wait_while_blocked()
            return
        self._blocked_since = None
        if self._paused:
            self._pause(paused=False)
        if wait := self._pace.seconds():
            time.sleep(wait)
        wait = self._order.wait_seconds() if self._order else self._interval.seconds
        message = self.consumer.poll(min(wait, self._interval.seconds))
        if message is not None:
            self._interval.extend()
            self._take([message, *self.consumer.consume(self._limits.records, 0)])
        if not self._order.wait_seconds():
            self._hand_over()
        self._raise_error()

    def _wait_while_blocked(self) -> None:
        now = time.monotonic()
        self._blocked_since = self._blocked_since or now
        if not self._is_blocked(_BLOCKED_SECONDS) or self._calls:
            return
        if not self._paused and now - self._blocked_since > _PAUSE_SECONDS:
            self._pause(paused=True)
        # Serves rebalances. It may return a record, which waits here with those before.
        message = self.consumer.poll(0)
        if message is not None:
            self._take([message])
        self._raise_error()

    # ---- records

    def _take(self, messages: Sequence[Message]) -> None:
        """Put messages in order, less those of partitions that are not read (any more)."""
        by_partition: dict[int, list[Message]] = {}
        ended: set[int] = set()
        for message in messages:
            error = message.error()
            partition = _partition_of(message)
            if error is None:
                by_partition.setdefault(partition, []).append(message)
                ended.discard(partition)
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - a public code of librdkafka
                ended.add(partition)
            else:
                self._note(error)
        for partition, run in by_partition.items():
            position = self._positions.get(partition)
            if position is None or partition in self._stopped:
                continue
            first = run[0].offset() or 0
            if first < position.next:
                reason = TopicRecreatedError(self.topic, partition, position.next, first)
                self._turned_back[partition] = time.monotonic(), reason
                self.stop(partition)
                continue
            position.next = (run[-1].offset() or 0) + 1
            self._order.add(RawRecords(partition, position.start, run, sum(map(len, run))))
            if is_read_to_end(self.consumer, self.topic, partition, position.next):
                ended.add(partition)
        for partition in ended:
            self._order.at_end(partition)
        self._change(self._order.to_pause(), paused=True)

    def _hand_over(self) -> None:
        batch = self._order.take(self._limits.records, self._limits.bytes)
        if batch:
            records = sum(len(run.messages) for run in batch)
            others_wait = bool(self._order) or records >= self._limits.records
            self._pace.began(records, len(batch), is_full=others_wait)
            self._batches.put(batch)
            self._change(self._order.to_resume(), paused=False)

    # ---- what the loop asks for

    def start(self, partition: int, offset: int, start: int) -> None:
        """Read an owned partition from an offset."""
        self._restarts.pop(partition, None)
        self._turned_back.pop(partition, None)
        if partition not in self._owned:
            return
        topic_partition = TopicPartition(self.topic, partition, offset)
        if partition not in self._positions:
            self.consumer.incremental_assign([topic_partition])
        else:
            try:
                self.consumer.seek(topic_partition)
            except KafkaException as error:
                if error.args[0].code() != KafkaError._STATE:  # noqa: SLF001 - a public code of librdkafka
                    raise
                # Its fetching has not begun: in the next turn.
                self._restarts[partition] = offset, start
        if partition in self._stopped or self._order.is_paused(partition):
            self._stopped.discard(partition)
            if not self._paused:
                self.consumer.resume([topic_partition])
        if self._paused:
            self.consumer.pause([topic_partition])
        self._positions[partition] = _Position(start, offset)
        self._order.begin(partition, start)

    def stop(self, partition: int) -> None:
        """Read a partition no more, which stays owned."""
        self._restarts.pop(partition, None)
        if partition in self._positions:
            # Not unassigned: outside a rebalance that could pass for the answer to a revocation.
            self._stopped.add(partition)
            self._order.forget(partition)
            self._change([partition], paused=True)

    def _pause(self, *, paused: bool) -> None:
        read = set(self._positions) - self._stopped
        self._change([each for each in read if not self._order.is_paused(each)], paused=paused)
        self._paused = paused

    def _change(self, partitions: Sequence[int], *, paused: bool) -> None:
        changed = [TopicPartition(self.topic, partition) for partition in partitions]
        if changed:
            (self.consumer.pause if paused else self.consumer.resume)(changed)

    # ---- rebalances

    def _on_assign(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        added = frozenset(map(_partition, partitions))
        self._owned |= added
        # None of them: each is assigned when it is known from where to read it.
        self.consumer.incremental_assign([])
        self._events.assigned(added, self.metadata())

    def _on_revoke(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        revoked = frozenset(map(_partition, partitions))
        assigned = revoked & set(self._positions)
        try:
            self._give_up(revoked & self._owned)
        finally:
            self._unassign(assigned)

    def _give_up(self, partitions: frozenset[int]) -> None:
        """Wait until what is under way for partitions is committed, as long as that may take."""
        if not partitions:
            return
        self._forget(partitions)
        done = self._events.revoked(partitions, self.metadata())

        def is_done() -> bool:
            self._calls.serve()
            return done.done()

        if not becomes_true(is_done, self._limits.revoke_seconds, _COMMIT_POLL_SECONDS):
            done.cancel()
            logger.warning(
                "gave up partitions %s before all records in flight were committed, which took "
                "longer than %g s. The next owner repeats them",
                sorted(partitions),
                self._limits.revoke_seconds,
            )
        self._events.released(partitions, self.metadata())

    def _on_lost(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        lost = frozenset(map(_partition, partitions))
        assigned = lost & set(self._positions)
        self._forget(lost)
        self._events.lost(lost, self.metadata())
        self._unassign(assigned)

    def _forget(self, partitions: frozenset[int]) -> None:
        for partition in partitions:
            self._owned.discard(partition)
            self._stopped.discard(partition)
            self._restarts.pop(partition, None)
            self._turned_back.pop(partition, None)
            self._positions.pop(partition, None)
            self._order.forget(partition)

    def _unassign(self, partitions: Iterable[int]) -> None:
        """Answer a revocation: of those that the client was assigned, which are not all."""
        unassigned = [TopicPartition(self.topic, partition) for partition in partitions]
        if unassigned:
            # librdkafka (2.16) would keep a pause until they are assigned again, and beyond.
            self.consumer.resume(unassigned)
        self.consumer.incremental_unassign(unassigned)

    def metadata(self) -> bytes:
        """Return the group metadata as it is now, for ``send_offsets_to_transaction``."""
        return self.consumer.consumer_group_metadata()  # type: ignore[no-any-return]

    # ---- errors

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal():
            self._error = self._error or judge(error, self.topic)

    def _note(self, error: KafkaError) -> None:
        if topic_is_gone(error, self.consumer, self.topic):
            raise TopicGoneError(self.topic)
        self._error = self._error or judge(error, self.topic)

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error
        for since, error in self._turned_back.values():
            # The loop looks at the topic, and starts the partition again if it is another one.
            if time.monotonic() - since > _TURNED_BACK_SECONDS:
                raise error


def _partition(partition: TopicPartition) -> int:
    return int(partition.partition)
