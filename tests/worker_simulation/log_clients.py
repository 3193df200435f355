"""Simulated clients of internal topics: a reader of one partition, and an appender.

They behave like ``streams.kafka.log_reader`` and ``streams.kafka.producers`` on librdkafka. The
reader never skips a gap. The appender sends waiting records together, and repeats this until they
are acknowledged or too old. Then it continues as a new producer, although records that it gave up
may still arrive.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from simhash_core.errors import FirstseenError
from streams.errors import BrokerRefusedError
from streams.kafka.errors import TopicDeletedError
from streams.kafka.log_reader import LogCutError, LogRecords
from streams.kafka.producers import AppendUnknownError, ProducerRecord, RecordTooLargeError
from tests.worker_simulation.cluster import Append, Fetch
from tests.worker_simulation.host import Host
from tests.worker_simulation.network import Code, NoAnswerError, RefusedError
from tests.worker_simulation.partitions import Producer
from tests.worker_simulation.transactions import Place

FETCH_REPORTS: Final = "fetch reports"
_BATCHES: Final = 4
_ANSWER_SECONDS: Final = 10.0
_GONE_CHECKS: Final = 2
_CLOSE_SECONDS: Final = 1.0
UNKNOWN: Final = -1001
"""The offset that librdkafka returns where the broker does not know it."""


class SimulatedReader:
    """A ``PartitionReader`` of partition 0 of a topic."""

    def __init__(self, host: Host, topic: str, *, batch_records: int = 500) -> None:
        self._host = host
        self._topic = topic
        self._request = FETCH_REPORTS if topic.endswith("reports") else "fetch log"
        self._batch_records = batch_records
        self._filled: Callable[[], object] = lambda: None
        self._failed: Callable[[FirstseenError], object] = lambda _: None
        self._epoch = 0
        self._next: int | None = None
        self._losses: int | None = None
        self._batches: deque[LogRecords] = deque()
        self._news = asyncio.Event()
        self._closed = False

    def open(
        self, filled: Callable[[], object], failed: Callable[[FirstseenError], object]
    ) -> None:
        self._filled, self._failed = filled, failed
        self._host.start(self._fetch())

    async def close(self) -> None:
        self._closed = True
        self._batches.clear()
        self._news.set()

    def seek(self, offset: int) -> None:
        """Read from an offset; records of an earlier reading are not returned."""
        self._epoch += 1
        self._next, self._losses = offset, None
        self._batches.clear()
        self._news.set()

    def take(self) -> LogRecords | None:
        if not self._batches:
            return None
        self._news.set()
        return self._batches.popleft()

    async def offsets(self) -> tuple[int, int]:
        return await self._host.offsets((self._topic, 0), _ANSWER_SECONDS)

    async def _fetch(self) -> None:
        missing = 0
        while not self._closed:
            if self._next is None or len(self._batches) >= _BATCHES:
                self._news.clear()
                await self._news.wait()
                continue
            epoch, offset = self._epoch, self._next
            place = self._topic, 0
            wanted = [Fetch(place, offset, self._losses)]
            try:
                fetch = partial(
                    self._host.cluster.fetch, wanted, self._batch_records, committed=False
                )
                answers = await self._host.ask(self._request, fetch)
            except NoAnswerError:
                await self._host.pause()
                continue
            if epoch != self._epoch:
                continue
            answer = answers[place]
            if answer.error is Code.UNKNOWN_TOPIC:
                missing += 1
                if missing < _GONE_CHECKS:
                    await self._host.pause()
                    continue
                self._stop_with(TopicDeletedError(self._topic))
            elif answer.error is not None:
                start, end = self._host.cluster.offsets(place)
                self._stop_with(LogCutError(self._topic, offset, start, end))
            else:
                missing = 0
                self._next, self._losses = answer.next, answer.losses_after(self._losses)
                if answer.records:
                    records = [(r.offset, r.value or b"", r.timestamp_ms) for r in answer.records]
                    self._batches.append(LogRecords(epoch, records))
                    self._host.call(self._filled)

    def _stop_with(self, error: FirstseenError) -> None:
        epoch, self._next = self._epoch, None

        def on_loop() -> None:
            if epoch == self._epoch and not self._closed:
                self._failed(error)

        self._host.call(on_loop)


class IdempotentClient:
    """Appends records in order and once in each partition, while its producer is the same."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._sequences: dict[Place, int] = {}
        self._renewed = Producer(0, 0)

    def _renew(self) -> None:
        """Continue as a new producer: what was sent before may still arrive, in any order."""
        self._renewed = self._host.cluster.transactions.new_producer()
        self._sequences.clear()

    async def _send_one(
        self,
        name: str,
        append: Append,
        producer: Producer,
        deadline: float,
        transactional_id: str | None = None,
    ) -> int:
        """Return the offset of a record, or ``UNKNOWN``; raises ``NoAnswerError`` when late."""
        cluster = self._host.cluster
        sequence = self._sequences.get(append.place, 0)
        while True:
            left = deadline - self._host.loop.time()
            if left <= 0:
                raise NoAnswerError(name)
            try:
                offset = await self._host.ask(
                    name,
                    lambda: cluster.produce(append, producer, sequence, transactional_id),
                    min(5.0, left),
                )
            except NoAnswerError:
                self._disconnected()
                await self._host.pause()
                continue
            except RefusedError as error:
                if error.code is not Code.DUPLICATE_SEQUENCE_NUMBER:
                    raise
                offset = UNKNOWN
            self._sequences[append.place] = sequence + 1
            return offset

    def _disconnected(self) -> None:
        """Note that a request got no response."""


class SimulatedAppender(IdempotentClient):
    """A ``RecordAppender``; ``message_seconds`` is how long it tries to send a record."""

    def __init__(self, host: Host, *, message_seconds: float = 30.0) -> None:
        super().__init__(host)
        self._message_seconds = message_seconds
        self._renew()
        self._queued: deque[tuple[float, str, bytes, asyncio.Future[int]]] = deque()
        self._waiting: set[asyncio.Future[int]] = set()
        self._news = asyncio.Event()
        self._takes_more = True
        self._closed = False

    def open(self) -> None:
        self._host.start(self._send())

    async def close(self) -> None:
        self._takes_more = False
        if self._waiting:
            await asyncio.wait(self._waiting, timeout=_CLOSE_SECONDS)
        self._closed = True
        self._news.set()
        for future in list(self._waiting):
            future.set_exception(
                AppendUnknownError("the worker stopped before the broker answered")
            )

    def append(self, topic: str, value: bytes) -> asyncio.Future[int]:
        future: asyncio.Future[int] = self._host.loop.create_future()
        self._waiting.add(future)
        future.add_done_callback(self._waiting.discard)
        if self._takes_more:
            self._queued.append((self._host.loop.time(), topic, value, future))
            self._news.set()
        return future

    async def _send(self) -> None:
        while not self._closed:
            if not self._queued:
                self._news.clear()
                await self._news.wait()
                continue
            group = list(self._queued)
            self._queued.clear()
            for at, topic, value, future in group:
                result = await self._append(topic, value, at + self._message_seconds)
                self._host.call(_resolve, future, result)

    async def _append(self, topic: str, value: bytes, deadline: float) -> int | FirstseenError:
        append = Append((topic, 0), None, value)
        try:
            offset = await self._send_one("append", append, self._renewed, deadline)
        except NoAnswerError:
            self._renew()
            return AppendUnknownError(f"unknown whether {topic} has a record")
        except RefusedError as error:
            if error.code is Code.RECORD_TOO_LARGE:
                return RecordTooLargeError([ProducerRecord(topic, None, value)])
            if error.code is Code.OUT_OF_ORDER_SEQUENCE:
                # An earlier request came late, to a topic that was created again in the meantime.
                self._renew()
                return AppendUnknownError(f"unknown whether {topic} has a record: {error}")
            return BrokerRefusedError(f"a record was not appended to {topic}: {error}")
        if offset == UNKNOWN:
            return AppendUnknownError(f"{topic}: the broker has the record, and not its offset")
        return offset


def _resolve(future: asyncio.Future[int], result: int | FirstseenError) -> None:
    if future.done():
        return
    if isinstance(result, FirstseenError):
        future.set_exception(result)
    else:
        future.set_result(result)
