"""A producer whose sends are acknowledged before anything that depends on them goes on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from simhash_core.errors import FirstseenError

_POLL_SECONDS: Final = 0.05
_ANY_PARTITION: Final = -1

DeliveryReport = Callable[[KafkaError | None, Message], None]


class Outgoing(NamedTuple):
    """A record to send; ``partition`` None leaves the choice to the key, as Kafka does it."""

    topic: str
    key: bytes | None
    value: bytes | None
    partition: int | None = None
    timestamp_ms: int = 0
    headers: tuple[tuple[str, bytes | None], ...] = ()


class DeliveryError(FirstseenError):
    """A record could not be delivered; the message names its topic, the reason and the fix."""


def hand_over(
    producer: Producer, record: Outgoing, *, deadline: float, report: DeliveryReport
) -> None:
    """Give one record to librdkafka, waiting up to ``deadline`` (monotonic) for room in its queue.

    Raises ``DeliveryError`` when there is no room by then, or the record is larger than allowed.
    """
    while True:
        try:
            producer.produce(
                record.topic,
                record.value,
                record.key,
                partition=_ANY_PARTITION if record.partition is None else record.partition,
                on_delivery=report,
                timestamp=max(0, record.timestamp_ms),
                headers=list(record.headers),
            )
        except BufferError:
            if time.monotonic() > deadline:
                raise DeliveryError(
                    f"no room to send to {record.topic}: the broker has taken nothing for too "
                    "long. Is it reachable? (send_timeout_seconds bounds the wait)"
                ) from None
            producer.poll(_POLL_SECONDS)
        except KafkaException as error:
            raise DeliveryError(f"cannot send to {record.topic}: {error}") from error
        else:
            return


class AckedProducer:
    """Sends batches, in order, idempotently; ``send`` returns when the broker has them all.

    ``config`` are librdkafka properties. The order within a partition has no gaps: a record that
    the broker refuses is the last one delivered (``enable.gapless.guarantee``), and none is given
    up for its age, which that guarantee does not cover. A wait that is too long ends here instead,
    with an error: the worker has to start again from what is committed.
    """

    def __init__(self, config: Mapping[str, object], send_timeout_seconds: float) -> None:
        """Connect in the background; nothing is sent yet."""
        self._timeout_seconds = send_timeout_seconds
        self._producer = Producer(
            {
                "linger.ms": 2,
                "compression.type": "lz4",
                **config,
                "enable.idempotence": True,
                "enable.gapless.guarantee": True,
                "message.timeout.ms": 0,  # none
            }
        )

    async def send(self, records: Iterable[Outgoing]) -> None:
        """Send all records and wait for their acknowledgement, in a thread of the default pool.

        Raises ``DeliveryError`` for the first that failed.
        """
        batch = list(records)
        if batch:
            await asyncio.get_running_loop().run_in_executor(None, self.send_blocking, batch)

    def send_blocking(self, records: Iterable[Outgoing]) -> None:
        """Send all records and wait for their acknowledgement."""
        failures: list[str] = []

        def report(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                failures.append(f"{message.topic()}: {error.str()}")

        deadline = time.monotonic() + self._timeout_seconds
        for record in records:
            hand_over(self._producer, record, deadline=deadline, report=report)
        left = self._producer.flush(max(0.0, deadline - time.monotonic()) + 1.0)
        if failures:
            raise DeliveryError(f"a record was not delivered to {failures[0]}")
        if left:
            raise DeliveryError(
                f"{left} records were not acknowledged within {self._timeout_seconds} s: is the "
                "broker reachable? (send_timeout_seconds bounds the wait)"
            )
