"""A member of the consumer group that reads the raw topic: one consumer in one thread.

The thread polls and passes records on; the worker makes all decisions on its event loop
(``streams.worker.consume``, ``streams.worker.assignment``). The thread first calls ``poll``, which
waits and serves rebalances, then ``consume(n, 0)`` for further records. So an idle stream has no
delay, and a busy stream has full batches. Only this thread calls the client
(``consumer_group_metadata`` blocks while another thread polls).

An assigned partition is not fetched until ``read`` gives its offset. While the event loop is
behind, the thread stops reading but still serves rebalances. It pauses partitions only when the
event loop is behind for long, because a pause discards fetched records.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from operator import methodcaller
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from simhash_core.errors import FirstseenError
from simhash_core.log.records import NO_EPOCH
from streams.errors import BrokerRefusedError, BrokerUnavailableError, UnansweredError
from streams.kafka.clients import (
    Consumer,
    RawOffset,
    committed_offsets,
    is_read_to_end,
    offset_range,
)
from streams.kafka.errors import (
    STALE_GENERATION,
    AbortedError,
    StaleGenerationError,
    TopicDeletedError,
    is_absent,
    is_passing,
    judge,
    topic_is_deleted,
)
from streams.kafka.headers import headers_of
from streams.kafka.thread_bridge import Calls, Inbox, PollInterval, joined

logger = logging.getLogger(__name__)

_ANSWER_SECONDS: Final = 2.0
"""The time for which one request may keep the thread from polling. It is longer than a broker may
hold a fetch, because a request on the same connection waits until the fetch ends."""
_PART_SECONDS: Final = 0.2
_PATIENCE: Final = 4
"""How many times as long a request for the offsets of several partitions may take as one that does
not have to wait."""
_NO_PARTITION: Final = 2**31 - 1
_REVOKE_POLL_SECONDS: Final = 0.005
_BLOCKED_SECONDS: Final = 0.05  # how often rebalances are served while the event loop is behind
# Partitions are paused when the event loop has been behind for this long.
_PAUSE_SECONDS: Final = 2.0
_LEAVE_SECONDS: Final = 3.0
"""How long the broker may take to confirm that this member left; otherwise its session expires."""
_JOINED_SECONDS: Final = 0.5
_REJOINS_SECONDS: Final = 1.5  # how soon after a rebalance the next round of it begins
_REJOIN_SECONDS: Final = 0.1
_REJOIN_ANSWER_SECONDS: Final = 0.2
_METADATA_MAGIC: Final = b"CGMDv2:"  # of librdkafka 2.16: a number of 4 bytes and names follow
_FETCHES: Final = 2  # polls whose records may wait for the event loop
_MESSAGE_BYTES: Final = 300  # memory of a message beyond its bytes: Python objects
Result = TypeVar("Result")

_partition_of = methodcaller("partition")


class RawRecords(NamedTuple):
    """Consecutive records; ``reading`` is that of ``GroupMember.read``.

    ``size`` is the sum of ``message_bytes``.
    """

    partition: int
    reading: int
    messages: list[Message]
    size: int


def message_bytes(message: Message) -> int:
    """Return about how much memory a message takes: a tombstone is more than its value."""
    size = _MESSAGE_BYTES + len(message) + len(message.key() or b"")
    for name, value in headers_of(message) or ():
        size += len(name) + len(value or b"")
    return size


def _generation_of(metadata: bytes) -> int:
    """Return the generation, or epoch, in librdkafka's encoding of a group's metadata."""
    if not metadata.startswith(_METADATA_MAGIC):
        return 0
    at = len(_METADATA_MAGIC)
    return int.from_bytes(metadata[at : at + 4], sys.byteorder, signed=True)


class Fetched(NamedTuple):
    """The result of one poll; ``ended`` are the partitions that were read to their end.

    ``empty`` has the ends of those without a record since ``GroupMember.read``.
    """

    runs: list[RawRecords]
    ended: frozenset[int]
    empty: Mapping[int, int] = MappingProxyType({})


class GroupEvents(Protocol):
    """Callbacks to the worker; ``metadata`` names the generation, for a transaction's offsets."""

    def assigned(self, partitions: frozenset[int], metadata: bytes) -> None:
        """Called once per generation, even without partitions; ``GroupMember.read`` must follow."""
        ...

    def revoked(self, partitions: frozenset[int], metadata: bytes) -> Awaitable[None]:
        """Close partitions; the member waits for the result, within a time limit."""
        ...

    def lost(self, partitions: frozenset[int], metadata: bytes) -> None:
        """Close partitions that others may own now; commits for them are refused."""
        ...

    def fetched(self) -> None: ...

    def failed(self, error: FirstseenError) -> None: ...


class RawConsumer:
    """A ``streams.worker.clients.GroupMember``, which documents the methods, on librdkafka."""

    def __init__(
        self,
        config: Mapping[str, Any],  # from ``client_config.raw_consumer_config``
        topic: str,
        *,
        poll_records: int = 500,
        revoke_seconds: float = 10.0,  # how long a rebalance waits for ``GroupEvents.revoked``
    ) -> None:
        self._topic = topic
        # The broker then revokes the partitions of a deleted topic; the client reports no error.
        self._broker_assigns = config.get("group.protocol") == "consumer"
        self._may_be_deleted = False
        # The client calls nothing for a member without partitions, nor when it has joined.
        self._joins_silently = self._broker_assigns
        self._look_at = 0.0  # when to look whether it has joined
        self._rejoins_until = self._rejoin_at = 0.0
        self._poll_records = poll_records
        self._revoke_seconds = revoke_seconds
        self._wake = threading.Condition()
        self._calls = Calls(self._wake)
        self._inbox: Inbox[Fetched] = Inbox(_FETCHES, self._wake)
        self._consumer = Consumer(config)
        self._thread = threading.Thread(target=self._run, name="group member", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._events: GroupEvents | None = None
        self._closing = False
        self._leaving = False
        self._has_failed = False
        self._gather_until = 0.0
        # Only the thread uses these: owned partitions, and the reading of each fetched partition.
        self._owned: set[int] = set()
        self._readings: dict[int, int] = {}
        self._unread: set[int] = set()  # nothing came since ``read``, not even an end
        self._stopped: set[int] = set()
        self._to_seek: dict[int, RawOffset] = {}
        self._revocations = 0
        self._announced = 0  # the last revocation that the worker knows
        self._abandoned = 0  # the last one for which it took too long
        self._paused: set[int] = set()
        self._all_paused = False
        self._interval = PollInterval()
        self._blocked_since: float | None = None
        self._overflow: list[Message] = []
        self._error: FirstseenError | None = None
        self._release: asyncio.Future[None] | None = None  # kept, because the loop keeps no tasks

    # ---- on the loop

    def open(self, events: GroupEvents) -> None:
        self._loop = asyncio.get_running_loop()
        self._events = events
        self._inbox.open(events.fetched)
        self._thread.start()

    async def close(self) -> None:
        self._closing = True
        with self._wake:
            self._wake.notify_all()
        await joined(self._thread, self._revoke_seconds + 2 * _LEAVE_SECONDS)
        self._inbox.close()

    def take(self) -> Fetched | None:
        return self._inbox.take()

    def gather(self, seconds: float) -> None:
        self._gather_until = time.monotonic() + seconds

    def read(self, partition: int, offset: RawOffset, reading: int) -> None:
        self._submit(lambda: self._read(partition, offset, reading))

    def stop(self, partition: int) -> None:
        self._submit(lambda: self._stop(partition))

    def pause(self, partitions: Iterable[int], *, paused: bool) -> None:
        changed = list(partitions)
        if changed:
            self._submit(lambda: self._pause(changed, paused=paused))

    def holding(self) -> Callable[[], bool]:
        announced = self._announced
        return lambda: self._abandoned <= announced

    async def metadata(self) -> bytes:
        return await self._run_in_thread(self._metadata)

    async def committed(self, partitions: Iterable[int]) -> dict[int, int]:
        wanted = [TopicPartition(self._topic, partition) for partition in partitions]
        offsets = await self._offsets(wanted, _ANSWER_SECONDS)
        if offsets is not None:
            return offsets
        # If one of the offsets is in an open transaction, librdkafka (2.16) retries until the time
        # limit, and does not say which one. An admin client's request would say it, but can end the
        # process if a coordinator disappears (librdkafka's pull request 5397). So first request the
        # offset of a partition that nobody commits, to see whether the coordinator responds at all.
        began = time.monotonic()
        unused = TopicPartition(self._topic, _NO_PARTITION)
        if await self._offsets([unused], _ANSWER_SECONDS) is None:
            raise UnansweredError(
                f"the broker does not return the group's offsets in {self._topic} within "
                f"{_ANSWER_SECONDS:g} s"
            )
        seconds = max(_PART_SECONDS, _PATIENCE * (time.monotonic() - began))
        return await self._stable(wanted, seconds)

    async def _stable(self, wanted: list[TopicPartition], seconds: float) -> dict[int, int]:
        """Request offsets of ever smaller parts, to find partitions without open transactions."""
        offsets: dict[int, int] = {}
        parts = deque([wanted] if len(wanted) > 1 else [])
        end = time.monotonic() + _ANSWER_SECONDS
        while parts and time.monotonic() < end:
            part = parts.popleft()
            half = len(part) // 2
            for each in (part[:half], part[half:]):
                stable = await self._offsets(each, seconds) if each else {}
                if stable is not None:
                    offsets |= stable
                elif len(each) > 1:
                    parts.append(each)
        return offsets

    async def _offsets(self, wanted: list[TopicPartition], seconds: float) -> dict[int, int] | None:
        """Return offsets by partition; None without an answer in time."""
        try:
            committed = await self._run_in_thread(
                lambda: committed_offsets(self._consumer, wanted, seconds)
            )
        except KafkaException as failure:
            error: KafkaError = failure.args[0]
            if is_passing(failure) or error.retriable():
                return None
            # An answer: librdkafka's in-process broker refuses partitions that do not exist.
            if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                return {}
            raise BrokerRefusedError(
                f"the broker does not return the group's offsets: {error.str()}"
            ) from failure
        return {each.partition: max(-1, each.offset) for each in committed}

    async def commit(self, offsets: Mapping[int, int], note: str = "") -> None:
        committed = [TopicPartition(self._topic, *each, note) for each in offsets.items()]
        for error in await self._run_in_thread(lambda: self._commit_errors(committed)):
            if error.code() in STALE_GENERATION:
                raise StaleGenerationError(f"offsets are not committed: {error.str()}")
            if error.code() == KafkaError.REBALANCE_IN_PROGRESS:
                raise AbortedError(f"offsets are not committed: {error.str()}")
            raise UnansweredError(f"unknown whether offsets are committed: {error.str()}")

    async def log_start(self, partition: int) -> int:
        try:
            return await self._run_in_thread(
                lambda: offset_range(self._consumer, self._topic, partition, _ANSWER_SECONDS)[0]
            )
        except KafkaException as failure:
            raise BrokerUnavailableError(
                f"no broker returns the start of {self._topic}/{partition}: {failure.args[0].str()}"
            ) from failure

    async def _run_in_thread(self, function: Callable[[], Result]) -> Result:
        try:
            return await self._calls.run(function)
        except (asyncio.CancelledError, CancelledError):
            if self._closing or self._has_failed or not self._thread.is_alive():
                raise UnansweredError(f"the consumer of {self._topic} has ended") from None
            raise

    def _submit(self, function: Callable[[], None]) -> None:
        self._calls.submit(function).add_done_callback(self._check)

    def _check(self, future: Future[None]) -> None:
        if not future.cancelled() and (error := future.exception()) is not None:
            self._inbox.call(self._fail, error)

    def _fail(self, error: Exception) -> None:
        if self._has_failed:
            return
        self._has_failed = True
        self._closing = True
        if not isinstance(error, FirstseenError):
            logger.error("the consumer of %s has ended", self._topic, exc_info=error)
            error = BrokerRefusedError(f"the consumer of {self._topic} has failed: {error}")
        if self._events is not None:
            self._events.failed(error)

    # ---- the thread

    def _run(self) -> None:
        try:
            self._serve()
        except Exception as error:  # noqa: BLE001 - the owner must learn of it, whatever it is
            self._inbox.call(self._fail, error)

    def _serve(self) -> None:
        try:
            self._consumer.subscribe(
                [self._topic],
                on_assign=self._on_assign,
                on_revoke=self._on_revoke,
                on_lost=self._on_lost,
            )
            while not self._closing:
                self._turn()
            # This must happen while the client is still a member, because a closing client cannot
            # commit.
            self._give_up(frozenset(self._owned))
        finally:
            self._forget(frozenset(self._owned))  # after an error nothing more is committed
            self._leaving = True
            try:
                self._consumer.close(_LEAVE_SECONDS)
            finally:
                self._calls.close()

    def _turn(self) -> None:
        if self._calls.serve():
            self._interval.extend()
        self._look_at_topic()
        self._join()
        for partition, offset in list(self._to_seek.items()):
            self._seek(partition, offset)
        if self._inbox.full:
            self._wait_for_room()
            return
        self._blocked_since = None
        if self._all_paused:
            self._pause_all(paused=False)
        if self._overflow:
            overflow, self._overflow = self._overflow, []
            self._hand_over(overflow)
            return
        wait = self._gather_until - time.monotonic()
        if wait > 0:
            time.sleep(wait)
        message = self._consumer.poll(self._interval.seconds)
        if message is not None:
            self._interval.extend()
            self._hand_over([message, *self._consumer.consume(self._poll_records, 0)])
        if self._error is not None:
            raise self._error

    def _join(self) -> None:
        """Announce that this member has joined without partitions, and let it rejoin soon.

        A cooperative rebalance has two rounds. librdkafka (2.16) joins once a second at most, but
        begins to count again when a broker returns metadata.
        """
        now = time.monotonic()
        if self._joins_silently and now >= self._look_at:
            self._look_at = now + _JOINED_SECONDS
            if _generation_of(self._metadata()) > 0:
                self._joins_silently = False
                self._announce("assigned", frozenset())
        if self._rejoin_at <= now < self._rejoins_until:
            self._rejoin_at = now + _REJOIN_SECONDS
            with contextlib.suppress(KafkaException):
                self._consumer.list_topics(self._topic, timeout=_REJOIN_ANSWER_SECONDS)

    def _look_at_topic(self) -> None:
        """Raise ``TopicDeletedError`` if that is why the broker has revoked partitions."""
        looks, self._may_be_deleted = self._may_be_deleted, False
        if looks and is_absent(self._consumer, self._topic):
            raise TopicDeletedError(self._topic)

    def _wait_for_room(self) -> None:
        now = time.monotonic()
        self._blocked_since = self._blocked_since or now
        with self._wake:
            self._wake.wait_for(
                lambda: not self._inbox.full or bool(self._calls) or self._closing, _BLOCKED_SECONDS
            )
        if not self._inbox.full or self._calls:
            return
        if not self._all_paused and now - self._blocked_since > _PAUSE_SECONDS:
            self._pause_all(paused=True)
        # This serves rebalances. It may return a record, which then waits for space.
        message = self._consumer.poll(0)
        if message is not None:
            self._overflow.append(message)
        if self._error is not None:
            raise self._error

    def _hand_over(self, messages: Sequence[Message]) -> None:
        by_partition: dict[int, list[Message]] = {}
        ended: set[int] = set()
        empty: dict[int, int] = {}
        for message in messages:
            error = message.error()
            partition = _partition_of(message)
            if error is None:
                self._unread.discard(partition)
                by_partition.setdefault(partition, []).append(message)
                ended.discard(partition)
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - a public code of librdkafka
                ended.add(partition)
                if partition in self._unread and partition not in self._to_seek:
                    self._unread.discard(partition)
                    empty[partition] = message.offset() or 0
            else:
                self._note(error)
        runs = []
        for partition, run in by_partition.items():
            reading = self._readings.get(partition)
            if reading is None or partition in self._stopped or partition in self._to_seek:
                continue
            runs.append(RawRecords(partition, reading, run, sum(map(message_bytes, run))))
            if is_read_to_end(self._consumer, self._topic, partition, (run[-1].offset() or 0) + 1):
                ended.add(partition)
        if runs or ended:
            self._inbox.put(Fetched(runs, frozenset(ended), empty))

    def _read(self, partition: int, offset: RawOffset, reading: int) -> None:
        self._to_seek.pop(partition, None)
        if partition not in self._owned:
            return
        topic_partition = offset.of(self._topic, partition)
        was_read = partition in self._readings
        self._readings[partition] = reading
        self._unread.add(partition)
        if was_read:
            self._overflow = [each for each in self._overflow if _partition_of(each) != partition]
            self._seek(partition, offset)
        else:
            self._consumer.incremental_assign([topic_partition])
            if offset.leader_epoch != NO_EPOCH:
                # librdkafka (2.16) compares epochs after a seek, not after an assignment. If the
                # record before the offset is lost, it goes back to the first other one.
                self._seek(partition, offset)
        if partition in self._stopped or partition in self._paused:
            self._stopped.discard(partition)
            self._paused.discard(partition)
            if not self._all_paused:
                self._consumer.resume([topic_partition])
        if self._all_paused:
            self._consumer.pause([topic_partition])

    def _seek(self, partition: int, offset: RawOffset) -> None:
        self._to_seek.pop(partition, None)
        try:
            self._consumer.seek(offset.of(self._topic, partition))
        except KafkaException as error:
            if error.args[0].code() != KafkaError._STATE:  # noqa: SLF001 - a public code of librdkafka
                raise
            # Fetching has not begun yet; this is tried again in the next turn.
            self._to_seek[partition] = offset

    def _stop(self, partition: int) -> None:
        self._to_seek.pop(partition, None)
        if partition in self._readings and partition not in self._stopped:
            # It is not unassigned, because outside a rebalance that could count as the response to
            # a revocation.
            self._stopped.add(partition)
            self._consumer.pause([TopicPartition(self._topic, partition)])

    def _pause(self, partitions: Iterable[int], *, paused: bool) -> None:
        changed = [
            each for each in partitions if each in self._readings and each not in self._stopped
        ]
        (self._paused.update if paused else self._paused.difference_update)(changed)
        if not self._all_paused:
            self._change(changed, paused=paused)

    def _pause_all(self, *, paused: bool) -> None:
        self._change(self._readings.keys() - self._stopped - self._paused, paused=paused)
        self._all_paused = paused

    def _change(self, partitions: Iterable[int], *, paused: bool) -> None:
        changed = [TopicPartition(self._topic, partition) for partition in partitions]
        if changed:
            (self._consumer.pause if paused else self._consumer.resume)(changed)

    # ---- rebalances

    def _on_assign(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._joins_silently = False
        added = frozenset(each.partition for each in partitions)
        if not self._leaving:
            self._owned |= added
        # Assign nothing yet, because ``read`` assigns each partition when its offset is known.
        self._consumer.incremental_assign([])
        self._announce("assigned", added)
        self._rejoins_until = 0.0 if self._broker_assigns else time.monotonic() + _REJOINS_SECONDS

    def _on_revoke(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        revoked = frozenset(each.partition for each in partitions)
        fetched = revoked & self._readings.keys()
        try:
            self._give_up(revoked & self._owned)
        finally:
            self._unassign(fetched)
        self._may_be_deleted = self._broker_assigns

    def _give_up(self, partitions: frozenset[int]) -> None:
        """Wait for a limited time until everything in progress for partitions is committed.

        If that takes too long, the coordinator need not refuse what is still in progress: with the
        protocol ``consumer`` a member keeps its epoch while it has to release more partitions.
        """
        if not partitions:
            return
        self._forget(partitions)
        metadata = self._metadata()
        self._revocations += 1
        number, done = self._revocations, Future[None]()

        def revoke() -> None:
            # This closes the partitions at once, and not in a task: a loop that stood still may
            # have to announce that they are assigned again, which comes next.
            assert self._events is not None
            self._announced = number
            try:
                released = self._events.revoked(partitions, metadata)
            except Exception as error:  # noqa: BLE001 - the rebalance must go on
                self._fail(error)
                done.set_result(None)
            else:
                self._release = asyncio.ensure_future(released)
                self._release.add_done_callback(over)

        def over(released: asyncio.Future[None]) -> None:
            if not released.cancelled() and isinstance(error := released.exception(), Exception):
                self._fail(error)
            done.set_result(None)

        assert self._loop is not None
        self._loop.call_soon_threadsafe(revoke)
        deadline = time.monotonic() + self._revoke_seconds
        while not done.done():
            self._calls.serve()
            time.sleep(_REVOKE_POLL_SECONDS)
            if time.monotonic() > deadline:
                logger.warning(
                    "released partitions %s before all records in flight were committed, because "
                    "that took longer than %g s. The next owner processes them again",
                    sorted(partitions),
                    self._revoke_seconds,
                )
                self._abandoned = number
                return

    def _on_lost(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        lost = frozenset(each.partition for each in partitions)
        fetched = lost & self._readings.keys()
        self._forget(lost)
        self._announce("lost", lost)
        self._unassign(fetched)
        self._joins_silently = self._broker_assigns
        self._look_at = time.monotonic() + _JOINED_SECONDS  # by then it is no member any more

    def _announce(self, event: str, partitions: frozenset[int]) -> None:
        if self._leaving:  # a closing client takes part in a rebalance, but has no metadata
            return
        assert self._events is not None
        self._inbox.call(getattr(self._events, event), partitions, self._metadata())

    def _forget(self, partitions: frozenset[int]) -> None:
        self._overflow = [each for each in self._overflow if _partition_of(each) not in partitions]
        for partition in partitions:
            self._owned.discard(partition)
            self._readings.pop(partition, None)
            self._to_seek.pop(partition, None)
        self._unread -= partitions
        self._stopped -= partitions
        self._paused -= partitions

    def _unassign(self, partitions: Iterable[int]) -> None:
        unassigned = [TopicPartition(self._topic, partition) for partition in partitions]
        if unassigned:
            # Otherwise librdkafka (2.16) would keep the pause after the next assignment.
            self._consumer.resume(unassigned)
        self._consumer.incremental_unassign(unassigned)

    def _metadata(self) -> bytes:
        return self._consumer.consumer_group_metadata()  # type: ignore[no-any-return]

    def _commit_errors(self, partitions: list[TopicPartition]) -> Sequence[KafkaError]:
        try:
            done = self._consumer.commit(offsets=partitions, asynchronous=False)
        except KafkaException as failure:
            return [failure.args[0]]
        return [partition.error for partition in done or () if partition.error is not None]

    # ---- errors

    def _note(self, error: KafkaError) -> None:
        if topic_is_deleted(error, self._consumer, self._topic):
            raise TopicDeletedError(self._topic)
        self._error = self._error or judge(error, self._topic)
