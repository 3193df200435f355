"""Raw records that were deleted before they were read: counted and logged, not skipped silently."""

from __future__ import annotations

import asyncio
import logging

from simhash_core.log.participant import Participant
from streams.errors import BrokerUnavailableError
from streams.intake.raw_batches import RawArrival
from streams.intake.raw_consumer import RawConsumer
from streams.intake.raw_records import RawRecords
from streams.monitoring.metrics import Metrics

logger = logging.getLogger(__name__)


class LostRecords:
    """Notices gaps before the raw records of a batch."""

    def __init__(
        self,
        topic: str,
        participant: Participant[RawArrival],
        consumer: RawConsumer,
        metrics: Metrics,
    ) -> None:
        """``topic``: the raw topic."""
        self._topic = topic
        self._participant = participant
        self._consumer = consumer
        self._metrics = metrics
        self._tasks: set[asyncio.Task[None]] = set()

    def check(self, run: RawRecords) -> None:
        """Look at the offset that a run begins with, before it is taken in."""
        shard = self._participant.shards.get(run.partition)
        if shard is None:
            return
        expected, first = shard.stream.read_to + 1, run.messages[0].offset() or 0
        # A new shard begins with what there is.
        if 0 < expected < first:
            task = asyncio.ensure_future(self._judge(run.partition, expected, first))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _judge(self, partition: int, expected: int, first: int) -> None:
        """Count what lies before the start of the partition; other gaps hold no records."""
        try:
            start = await self._consumer.log_start(partition)
        except BrokerUnavailableError:
            start = first
        behind = min(first, start)
        if behind <= expected:
            return  # markers of transactions, or compaction
        logger.warning(
            "%s/%d: offsets %d to %d were deleted before they were read, and are skipped: the "
            "retention of the topic is shorter than the pause of the workers (retention.ms, "
            "retention.bytes)",
            self._topic,
            partition,
            expected,
            behind - 1,
        )
        self._metrics.skipped(self._topic, partition, behind - expected)
