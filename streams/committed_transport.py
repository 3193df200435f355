"""Faust's Kafka transport as the agents need it (faust-streaming 0.15.3, aiokafka 0.14.0, pinned).

**It reads what is committed.** Faust chooses the isolation level itself, and reads what is not
committed unless its own exactly-once mode is on, which does not cover our sends. The consumer keeps
the level in an attribute until it is started; that is set here (a test on a real broker with an
aborted transaction holds it).

**It does not wait long.** So is how long a broker may hold a fetch that finds nothing, for which
Faust has 1.5 s. A consumer has one fetch at a time under way to a broker, so partitions whose
records have been used up wait for those that have none; and the embedded broker holds a fetch to
its end, whatever arrives.

**It commits what the intake says** (``streams.ordered_intake``), not what was acknowledged, and
notes for it which record follows which.

**It does not wait in silence.** After a rebalance Faust waits a while for the group's offsets, and
then leaves its recovery for good: the worker would stay ready and read nothing. Here it fails.

**It stops while a broker is away.** aiokafka then raises the cancellation of a fetch of its own,
and mode would wait a minute for the end of a thread that has ended.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final, cast

import aiokafka
from aiokafka.errors import IllegalStateError
from faust.transport.consumer import RecordMap
from faust.transport.drivers import aiokafka as driver
from faust.types import TP
from faust.types.transports import ConsumerT

from simhash_core.errors import FirstseenError
from streams.errors import BrokerUnavailableError
from streams.ordered_intake import OrderedIntake
from streams.read_order import Place, ReadOrder, Standing

_BEFORE_FAUST: Final = 0.8
"""The part of Faust's own wait for the group's offsets."""


class _CommittedConsumerThread(driver.AIOKafkaConsumerThread):
    transport: CommittedTransport

    def _create_consumer(self, loop: asyncio.AbstractEventLoop) -> aiokafka.AIOKafkaConsumer:
        consumer = super()._create_consumer(loop)
        for name in ("_isolation_level", "_fetch_max_wait_ms"):
            if not hasattr(consumer, name):
                raise RuntimeError(f"this aiokafka keeps its {name} elsewhere: see the pins")
        consumer._isolation_level = "read_committed"  # noqa: SLF001 - see the module's docstring
        consumer._fetch_max_wait_ms = self.transport.fetch_wait_ms  # noqa: SLF001
        return consumer

    async def on_thread_stop(self) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await super().on_thread_stop()

    def _stopped_set(self) -> None:
        with contextlib.suppress(RuntimeError):  # it failed, and has closed its loop by itself
            super()._stopped_set()

    async def _fetch_records(self, *args: Any, **kwargs: Any) -> RecordMap:  # noqa: ANN401 - handed on
        # Nothing else runs in this thread between the fetcher's giving them and this noting.
        records = await super()._fetch_records(*args, **kwargs)
        for tp, lot in records.items():
            place = tp.topic, tp.partition
            if self.transport.order.fetched(place, [each.offset for each in lot]):
                # Of a topic that was made again. Faust would drop what lies before the offset that
                # it read last; it hands on nothing while this fetch is under way.
                cast(CommittedConsumer, self.consumer).begin_anew(place)
        self._note_positions()
        return records

    def _note_positions(self) -> None:
        """Note where the next fetches begin, which the records alone do not tell."""
        subscription = self._ensure_consumer()._subscription.subscription  # noqa: SLF001
        assignment = subscription and subscription.assignment
        for tp in assignment.tps if assignment else ():
            state = assignment.state_value(tp)
            if state is not None and state.has_valid_position:
                self.transport.order.reached((tp.topic, tp.partition), state.position)

    async def on_partitions_revoked(self, revoked: set[TP]) -> None:
        self.transport.order.forget()
        await super().on_partitions_revoked(revoked)

    async def on_partitions_assigned(self, assigned: set[TP], generation_id: int = 0) -> None:
        self.transport.order.forget()
        await super().on_partitions_assigned(assigned, generation_id)

    async def seek_to_committed(self) -> Mapping[TP, int]:
        found: Mapping[TP, int] = await super().seek_to_committed()
        self.transport.order.forget()
        return found

    async def standing(self, place: Place) -> Standing:
        found: Standing = await self.call_thread(self._standing, aiokafka.TopicPartition(*place))
        return found

    async def earliest(self, place: Place) -> int:
        found: int = await self.call_thread(self._earliest, aiokafka.TopicPartition(*place))
        return found

    async def read_from(self, place: Place, offset: int) -> None:
        await self.call_thread(self._read_from, place, offset)

    async def _standing(self, place: aiokafka.TopicPartition) -> Standing:
        consumer = self._ensure_consumer()
        committed: int | None = await consumer.committed(place)
        end: Mapping[aiokafka.TopicPartition, int] = await consumer.end_offsets([place])
        return Standing(committed, await self._earliest(place), end[place])

    async def _earliest(self, place: aiokafka.TopicPartition) -> int:
        found: Mapping[
            aiokafka.TopicPartition, int
        ] = await self._ensure_consumer().beginning_offsets([place])
        return found[place]

    async def _read_from(self, place: Place, offset: int) -> None:
        with contextlib.suppress(IllegalStateError):  # it has moved away
            self._ensure_consumer().seek(aiokafka.TopicPartition(*place), offset)
            self.transport.order.restarted(place, offset)


class CommittedConsumer(driver.Consumer):
    """Faust's consumer; ``streams.ordered_intake.Partitions`` for the intake."""

    _thread: _CommittedConsumerThread
    transport: CommittedTransport

    async def perform_seek(self) -> None:
        """Go to the group's offsets after a rebalance; a broker that does not tell them fails."""
        wait_seconds = self.app.conf.broker_request_timeout * _BEFORE_FAUST
        try:
            await asyncio.wait_for(super().perform_seek(), wait_seconds)
        except TimeoutError:
            error = BrokerUnavailableError(
                f"the broker did not tell the offsets of the group within {wait_seconds:g} s after "
                "its partitions were shared out: is it reachable?"
            )
            self.transport.fail(error)
            raise error from None

    async def standing(self, place: Place) -> Standing:
        """Return what the group has committed, and the ends of the log."""
        return await self._thread.standing(place)

    async def earliest(self, place: Place) -> int:
        """Return where the log begins."""
        return await self._thread.earliest(place)

    async def read_from(self, place: Place, offset: int) -> None:
        """Go on reading at an offset; without effect where the partition is not ours."""
        await self._thread.read_from(place, offset)
        # Faust drops what lies before the offset that it read last.
        self._read_offset[TP(*place)] = offset or None

    def begin_anew(self, place: Place) -> None:
        """Let records pass whose offsets are less than those that were read before."""
        self._read_offset[TP(*place)] = None

    def _new_consumer_thread(self) -> driver.AIOKafkaConsumerThread:
        return _CommittedConsumerThread(self, loop=self.loop, beacon=self.beacon)

    async def _add_gap(self, tp: TP, offset_from: int, offset_to: int) -> None:
        """Keep no gaps: there is one behind each transaction, and nothing here asks for them."""

    def _new_offset(self, tp: TP) -> int | None:
        # What Faust keeps to find this offset by itself is of no use, and would grow without end.
        self._acked[tp].clear()
        self._acked_index[tp].clear()
        return self.transport.intake.committable((tp.topic, tp.partition))


class CommittedTransport(driver.Transport):
    """The transport for ``app.transport``; ``fetch_wait_ms`` is for consumers not yet started.

    ``order`` is what the consumer notes, ``intake`` what says where partitions stand. ``fail`` is
    told what ends the worker.
    """

    fetch_wait_ms: int = 100
    order: ReadOrder
    intake: OrderedIntake
    fail: Callable[[FirstseenError], None]

    Consumer: ClassVar[type[ConsumerT]] = CommittedConsumer
