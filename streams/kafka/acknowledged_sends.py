"""At least once: records are sent and acknowledged, and then the raw offsets are committed.

The same interface as ``OutputTransactions``, for brokers without transactions. After a crash
between the two steps the next owner sends the records again, with the same content.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from streams.errors import UnansweredError
from streams.kafka.deliveries import Deliveries
from streams.kafka.producer_record import ProducerRecord, RecordTooLargeError


class AcknowledgedProducer:
    """Sends batches, in order, idempotently. Blocking, for one thread."""

    def __init__(
        self, config: Mapping[str, Any], answer_seconds: float, *, changelog_topic: str = ""
    ) -> None:
        """Connect nothing yet; ``changelog_topic``: of which ``send`` returns the offsets."""
        self._answer_seconds = answer_seconds
        self._changelog_topic = changelog_topic
        self._config = {
            **config,
            "enable.idempotence": True,
            # A record that is refused is the last one delivered of its partition. None is given up
            # for its age, which that guarantee does not cover: the wait ends here instead.
            "enable.gapless.guarantee": True,
            "message.timeout.ms": 0,
        }
        self._producer: Producer | None = None

    def send(self, records: Sequence[ProducerRecord]) -> dict[int, int]:
        """Send records, and return when the broker has them all.

        Returns by changelog partition the offset after the last of ``records`` there.

        Raises:
            RecordTooLargeError: A topic refuses a record; sending it again does not help.
            UnansweredError: It is not known whether the broker has all of them.
        """
        producer = self._producer = self._producer or Producer(self._config)
        deliveries = Deliveries(records, self._changelog_topic)
        deadline = time.monotonic() + self._answer_seconds
        try:
            deliveries.produce(producer, deadline=deadline, reports=True)
            left = producer.flush(max(0.0, deadline - time.monotonic()) + 1.0)
        except (KafkaException, SystemError) as error:
            self.close()
            raise _fatal(error, records) from error
        except Exception:
            self.close()
            raise
        if left or deliveries.too_large or deliveries.unreported():
            self.close()  # with what it has not sent: all is sent again
            deliveries.raise_too_large()
            raise UnansweredError(
                f"{left or len(deliveries.failures)} records were not acknowledged within "
                f"{self._answer_seconds:g} s: "
                f"{next(iter(deliveries.failures), 'is the broker reachable?')} "
                "(send_timeout_seconds bounds the wait)"
            )
        return deliveries.next_offsets

    def close(self) -> None:
        """Drop the client; the next ``send`` makes a new one."""
        self._producer = None


class AcknowledgedSends:
    """The producer of one worker, in a thread of its own."""

    def __init__(
        self,
        config: Mapping[str, Any],
        commit_offsets: Callable[[Mapping[int, int], str], Awaitable[None]],
        *,
        changelog_topic: str,
        answer_seconds: float,
    ) -> None:
        """``commit_offsets``: ``RawConsumer.commit``, called once all records are acknowledged."""
        self._commit_offsets = commit_offsets
        self._changelog_topic = changelog_topic
        self._producer = AcknowledgedProducer(
            config, answer_seconds, changelog_topic=changelog_topic
        )
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="sends")

    async def open(self) -> None:
        """Connect with the first commit."""

    async def commit(
        self,
        records: Sequence[ProducerRecord],
        offsets: Mapping[int, int],
        group_metadata: bytes,  # noqa: ARG002 - the consumer itself commits here
        note: str = "",
    ) -> dict[int, int]:
        """See ``Committer.commit``; what was sent before an error is seen by readers all the same.

        Raises ``RecordTooLargeError`` or ``UnansweredError``, and what ``commit_offsets`` raises.
        """
        loop = asyncio.get_running_loop()
        outputs = [each for each in records if each.topic != self._changelog_topic]
        changes = [each for each in records if each.topic == self._changelog_topic]
        # Progress may not be there before the outputs that it stands for: a crash would lose them.
        if outputs:
            await loop.run_in_executor(self._thread, self._producer.send, outputs)
        sent = await loop.run_in_executor(self._thread, self._producer.send, changes)
        if offsets:
            await self._commit_offsets(offsets, note)
        return sent

    async def close(self) -> None:
        """Drop the producer."""
        self._producer.close()
        self._thread.shutdown(wait=False)


def _fatal(
    error: KafkaException | SystemError, records: Sequence[ProducerRecord]
) -> RecordTooLargeError | UnansweredError:
    """Return what it means that the client gave up for good.

    It does where a record was refused and later ones may have been accepted. The exception comes
    out of the report on some record, whose reason is only in its text.
    """
    cause = error if isinstance(error, KafkaException) else error.__cause__
    if KafkaError(KafkaError.MSG_SIZE_TOO_LARGE).str() in str(cause):
        return RecordTooLargeError(records)
    return UnansweredError(f"a record was not delivered to {records[0].topic}: {cause or error}")
