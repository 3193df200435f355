"""A consumer of given partitions, outside any group, in a thread of its own.

Batches go to the event loop, one at a time; calls of the client come from it.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, Final, Generic

from confluent_kafka import Consumer, KafkaException, Message

from simhash_core.errors import FirstseenError
from streams.errors import BrokerRefusedError, UnansweredError
from streams.kafka.hand_over import Calls, HandOver, Item, PollInterval, joined
from streams.kafka.partition_offsets import offset_range
from streams.kafka.retries import is_of_client, retrying_on_loop

logger = logging.getLogger(__name__)

_BLOCKED_SECONDS: Final = 0.05
_ANSWER_SECONDS: Final = 2.0
"""More than a broker may hold a fetch: a request on the same connection waits behind it."""
_AGAIN_SECONDS: Final = 0.05
_CLOSE_SECONDS: Final = 10.0


class ReaderThread(ABC, Generic[Item]):
    """Reads messages in a thread, which a subclass turns into items for the loop."""

    def __init__(
        self,
        config: Mapping[str, Any],
        topic: str,
        failed: Callable[[FirstseenError], None],
        *,
        batch_records: int,
        queued_batches: int,
    ) -> None:
        """Connect in the background; ``failed`` is called, on the loop, with what ends the reader.

        At most ``batch_records`` messages are read at a time, and ``queued_batches`` items wait.
        """
        self._topic = topic
        self._failed = failed
        self._batch_records = batch_records
        self._wake = threading.Condition()
        self._calls = Calls(self._wake)
        self._batches: HandOver[Item] = HandOver(
            queued_batches, self._deliver_current, self._fail, self._wake
        )
        self._consumer = Consumer(dict(config))
        self._thread = threading.Thread(target=self._run, name=f"reader of {topic}", daemon=True)
        self._interval = PollInterval()
        self._closing = False

    def open(self) -> None:
        """Begin, on the running loop."""
        self._batches.open()
        self._thread.start()

    async def close(self) -> None:
        """End the thread; nothing is delivered any more."""
        self._closing = True
        with self._wake:
            self._wake.notify_all()
        await joined(self._thread, _CLOSE_SECONDS)
        await self._batches.close()

    # ---- on the loop

    @abstractmethod
    async def _deliver_current(self, item: Item) -> None:
        """Deliver an item, unless it was read for something that is over."""

    async def _offsets(self, partition: int, seconds: float) -> tuple[int, int]:
        """Return the offset of a partition's first record, and the one after the last.

        Raises ``UnansweredError``.
        """
        again = retrying_on_loop(seconds, _AGAIN_SECONDS, is_of_client)
        try:
            return await again(self._calls.ask, lambda: self._offset_range(partition))
        except KafkaException as error:
            raise UnansweredError(
                f"the broker does not report within {seconds:g} s where {self._topic}/{partition} "
                f"begins and ends: {error.args[0].str()}"
            ) from error
        except asyncio.CancelledError:
            if not self._closing:
                raise
            raise UnansweredError(f"the reader of {self._topic} has ended") from None

    def _submit(self, function: Callable[[], None]) -> None:
        """Have the thread call a function soon; its error ends the reader."""
        self._calls.submit(function).add_done_callback(self._check)

    def _check(self, future: Future[None]) -> None:
        if not future.cancelled() and (error := future.exception()) is not None:
            self._batches.call(self._fail, error)

    def _fail(self, error: Exception) -> None:
        if not isinstance(error, FirstseenError):
            logger.error("the reader of %s has ended", self._topic, exc_info=error)
            error = BrokerRefusedError(f"the reader of {self._topic} has failed: {error}")
        self._failed(error)

    # ---- in the thread

    @abstractmethod
    def _take(self, messages: list[Message]) -> None:
        """Queue what was read, or raise what ends the reader."""

    def _has_partitions(self) -> bool:
        """Return whether there is anything to poll for."""
        return True

    def _after_turn(self, heard: bool) -> None:  # noqa: FBT001 - most need nothing; one caller
        """Do what a subclass does after a poll; ``heard``: whether it brought a message."""

    def _offset_range(self, partition: int) -> tuple[int, int]:
        return offset_range(self._consumer, self._topic, partition, _ANSWER_SECONDS)

    def _run(self) -> None:
        try:
            while not self._closing:
                if self._calls.serve():
                    self._interval.extend()
                if self._can_read():
                    self._turn()
                else:
                    self._wait()
        except Exception as error:  # noqa: BLE001 - the owner must learn of it, whatever it is
            self._batches.call(self._fail, error)
        finally:
            self._calls.close()
            self._consumer.close()

    def _can_read(self) -> bool:
        return self._has_partitions() and not self._batches.full

    def _wait(self) -> None:
        with self._wake:
            self._wake.wait_for(
                lambda: bool(self._calls) or self._closing or self._can_read(), _BLOCKED_SECONDS
            )

    def _turn(self) -> None:
        # After a record polls stay long: seldom does a call follow one, which short ones are for.
        message = self._consumer.poll(self._interval.seconds)
        if message is not None:
            self._take([message, *self._consumer.consume(self._batch_records - 1, 0)])
        self._after_turn(message is not None)
