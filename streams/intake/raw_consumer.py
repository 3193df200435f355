"""The consumer of raw records as its owner on the event loop sees it."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import CancelledError, Future
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaException, TopicPartition

from simhash_core.errors import FirstseenError
from streams.errors import BrokerRefusedError, UnansweredError
from streams.intake.group_requests import (
    commit_offsets,
    log_start,
    stable_offsets,
)
from streams.intake.raw_poller import Limits, PollerEvents, RawPoller
from streams.intake.raw_records import RawEvents, RawRecords
from streams.kafka.commit_errors import StaleGenerationError
from streams.kafka.hand_over import Calls, HandOver, joined
from streams.kafka.retries import is_of_client, retrying_on_loop

logger = logging.getLogger(__name__)

_BATCH_BYTES: Final = 4 * 1024 * 1024
_AGAIN_SECONDS: Final = 0.05
_UNANSWERED_SECONDS: Final = 60.0
_CLOSE_SECONDS: Final = 10.0
Result = TypeVar("Result")


class RawConsumer:
    """A member of the group that reads the raw topic, in a thread of its own.

    ``config`` is that of ``client_config.raw_consumer_config``. A batch has at most
    ``batch_records`` records and, unless it is a single one, ``batch_bytes`` bytes of values; at
    most ``queued_batches`` wait for the loop. A rebalance that takes partitions away waits up to
    ``revoke_seconds`` for ``RawEvents.revoked``. Records of several partitions come in the order of
    their timestamps, as far as ``RecordOrder`` knows it; ``idle_seconds`` is its.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        topic: str,
        events: RawEvents,
        *,
        batch_records: int = 500,
        batch_bytes: int = _BATCH_BYTES,
        queued_batches: int = 2,
        revoke_seconds: float = 10.0,
        idle_seconds: float = 0.0,
    ) -> None:
        """Connect in the background; nothing is joined yet."""
        self._topic = topic
        self._events = events
        self._revoke_seconds = revoke_seconds
        self._wake = threading.Condition()
        self._held = False
        self._calls = Calls(self._wake)
        self._batches: HandOver[list[RawRecords]] = HandOver(
            queued_batches, self._deliver, self._fail, self._wake
        )
        self._poller = RawPoller(
            dict(config),
            topic,
            Limits(batch_records, batch_bytes, revoke_seconds, idle_seconds),
            PollerEvents(self._assigned, self._revoked, self._released, self._lost),
            self._calls,
            self._batches,
            self._is_blocked,
        )
        self._thread = threading.Thread(target=self._run, name="raw consumer", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._assignment: frozenset[int] = frozenset()
        self._committable: frozenset[int] = frozenset()
        self._starts: dict[int, int] = {}
        self._number = 0
        self._failed = False
        self.metadata = b""
        """What ``send_offsets_to_transaction`` takes, as it was after the last rebalance."""

    @property
    def assignment(self) -> frozenset[int]:
        """The partitions that this member owns."""
        return self._assignment

    def open(self) -> None:
        """Join the group, on the running loop."""
        self._loop = asyncio.get_running_loop()
        self._batches.open()
        self._thread.start()

    async def close(self) -> None:
        """Leave the group, after ``RawEvents.revoked``; a static member keeps its partitions."""
        self._poller.closing = True
        with self._wake:
            self._wake.notify_all()
        await joined(self._thread, self._revoke_seconds + _CLOSE_SECONDS)
        await self._batches.close()

    # ---- reading

    def start(self, partition: int, offset: int) -> int:
        """Read an owned partition from an offset; return the number of this start.

        What was read of it before, and not handed over yet, is dropped.
        """
        self._number += 1
        number = self._starts[partition] = self._number
        self._calls.submit(lambda: self._poller.start(partition, offset, number)).add_done_callback(
            self._check
        )
        return number

    def stop(self, partition: int) -> None:
        """Read a partition no more; it stays owned, and may be started again."""
        self._starts.pop(partition, None)
        self._calls.submit(lambda: self._poller.stop(partition)).add_done_callback(self._check)

    def hold(self, held: bool = True) -> None:  # noqa: FBT001, FBT002 - it reads as a word
        """Hand over no batch until ``hold(False)``, but for at most ``queued_batches``."""
        with self._wake:
            self._held = held
            self._wake.notify_all()

    def _is_blocked(self, wait_seconds: float) -> bool:
        """Return whether the loop wants no more, after a wait that a call or room ends early."""
        with self._wake:
            if wait_seconds:
                self._wake.wait_for(
                    lambda: not self._behind() or bool(self._calls) or self._poller.closing,
                    wait_seconds,
                )
            return self._behind() and not self._poller.closing

    def _behind(self) -> bool:
        return self._held or self._batches.full

    async def _deliver(self, batch: list[RawRecords]) -> None:
        wanted = [run for run in batch if self._starts.get(run.partition) == run.start]
        if wanted:
            await self._events.records(wanted)

    # ---- the group

    @property
    def committable(self) -> frozenset[int]:
        """The partitions that ``metadata_for`` takes: owned, or about to be given up."""
        return self._committable

    def metadata_for(self, partitions: Iterable[int]) -> bytes:
        """Return ``metadata`` for a commit of partitions.

        Raises ``StaleGenerationError`` where they have been lost or given up: the coordinator
        checks that a member is of its generation, but not which partitions it owns, and after it
        has joined again it would accept commits of partitions that others own now.
        """
        foreign = set(partitions) - self._committable
        if foreign:
            raise StaleGenerationError(
                f"this worker no longer owns these partitions of {self._topic}: {sorted(foreign)}"
            )
        return self.metadata

    async def refresh_metadata(self) -> bool:
        """Ask for the group metadata again; return whether it has changed."""
        before = self.metadata
        self.metadata = await self._ask(self._poller.metadata)
        return self.metadata != before

    async def committed_stable(self, partitions: Iterable[int]) -> dict[int, int]:
        """Return the offsets that the group has committed, without those of which there is none.

        Waits until no transaction with offsets of the group is open. When a member asks for a
        partition that it owns, no earlier owner can commit any more.
        Raises ``UnansweredError`` after a minute.
        """
        wanted = [TopicPartition(self._topic, partition) for partition in partitions]
        again = retrying_on_loop(_UNANSWERED_SECONDS, _AGAIN_SECONDS, is_of_client)
        try:
            return await again(self._ask, lambda: stable_offsets(self._poller.consumer, wanted))
        except KafkaException as error:
            raise UnansweredError(
                f"the broker does not return the group's offsets in {self._topic} within "
                f"{_UNANSWERED_SECONDS:g} s: {error.args[0].str()}"
            ) from error

    async def commit(self, offsets: Mapping[int, int], note: str = "") -> None:
        """Commit next offsets by partition, with ``note`` beside them, outside of a transaction.

        See ``group_requests.commit_offsets`` for the errors.
        """
        self.metadata_for(offsets)
        committed = [TopicPartition(self._topic, *each, note) for each in offsets.items()]
        await self._ask(lambda: commit_offsets(self._poller.consumer, committed))

    async def log_start(self, partition: int) -> int:
        """Return the offset of the first record that a partition still has.

        Raises ``BrokerUnavailableError`` where no broker answers.
        """
        return await self._ask(lambda: log_start(self._poller.consumer, self._topic, partition))

    async def _ask(self, function: Callable[[], Result]) -> Result:
        try:
            return await self._calls.ask(function)
        except (asyncio.CancelledError, CancelledError):
            if self._poller.closing or self._failed or not self._thread.is_alive():
                raise UnansweredError(f"the consumer of {self._topic} has ended") from None
            raise

    # ---- the thread

    def _run(self) -> None:
        try:
            self._poller.run()
        except Exception as error:  # noqa: BLE001 - the owner must learn of it, whatever it is
            self._batches.call(self._fail, error)

    def _fail(self, error: Exception) -> None:
        if self._failed:
            return
        self._failed = True
        self._poller.closing = True
        if not isinstance(error, FirstseenError):
            logger.error("the consumer of %s has ended", self._topic, exc_info=error)
            error = BrokerRefusedError(f"the consumer of {self._topic} has failed: {error}")
        self._events.failed(error)

    def _check(self, future: Future[None]) -> None:
        if not future.cancelled() and (error := future.exception()) is not None:
            self._batches.call(self._fail, error)

    # What the thread reports, passed on to the loop.

    def _assigned(self, partitions: frozenset[int], metadata: bytes) -> None:
        def on_loop() -> None:
            self.metadata = metadata
            self._assignment |= partitions
            self._committable |= partitions
            if partitions:
                self._events.assigned(partitions)
            self._events.generation_changed()

        self._batches.call(on_loop)

    def _lost(self, partitions: frozenset[int], metadata: bytes) -> None:
        def on_loop() -> None:
            self._forget(partitions, metadata)
            self._committable -= partitions
            self._events.lost(partitions)

        self._batches.call(on_loop)

    def _revoked(self, partitions: frozenset[int], metadata: bytes) -> Future[None]:
        async def on_loop() -> None:
            self._forget(partitions, metadata)
            try:
                await self._events.revoked(partitions)
            except Exception as error:  # noqa: BLE001 - the rebalance must go on
                self._fail(error)

        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(on_loop(), self._loop)

    def _released(self, partitions: frozenset[int], metadata: bytes) -> None:
        def on_loop() -> None:
            self.metadata = metadata
            self._committable -= partitions

        self._batches.call(on_loop)

    def _forget(self, partitions: frozenset[int], metadata: bytes) -> None:
        self.metadata = metadata
        self._assignment -= partitions
        for partition in partitions:
            self._starts.pop(partition, None)
