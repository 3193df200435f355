"""The Kafka clients of one worker: made together, opened and closed in order."""

from __future__ import annotations

from typing import Protocol

from simhash_core.errors import FirstseenError
from streams.intake.raw_consumer import RawConsumer
from streams.intake.raw_records import RawEvents
from streams.kafka.acknowledged_sends import AcknowledgedSends
from streams.kafka.appender import Appender
from streams.kafka.client_config import (
    appender_config,
    log_reader_config,
    output_config,
    raw_consumer_config,
)
from streams.kafka.log_reader import LogReader, LogRecords
from streams.kafka.transactions import Committer, OutputTransactions
from streams.settings.settings import Delivery, Settings

_MILLISECONDS = 1_000


class ClientEvents(RawEvents, Protocol):
    """What receives what the clients read."""

    async def log_read(self, batch: LogRecords) -> None:
        """Take records of the log."""
        ...

    async def reports_read(self, batch: LogRecords) -> None:
        """Take records of the topic of reports."""
        ...

    def fail(self, error: FirstseenError) -> None:
        """End the worker."""
        ...


class WorkerClients:
    """A consumer, two readers, an appender, and what commits outputs."""

    def __init__(self, settings: Settings, writer: str, events: ClientEvents) -> None:
        """Connect nothing yet. ``writer``: the worker's name in the group, and for transactions."""
        topics = settings.topics
        self.consumer = RawConsumer(
            raw_consumer_config(settings, writer),
            topics.raw,
            events,
            batch_records=settings.batch.documents,
            idle_seconds=settings.intake.idle_ms / _MILLISECONDS,
        )
        self.log_reader = LogReader(
            log_reader_config(settings), topics.log, events.log_read, events.fail
        )
        self.reports_reader = LogReader(
            log_reader_config(settings), topics.reports, events.reports_read, events.fail
        )
        self.appender = Appender(appender_config(settings))
        self.committer: Committer
        if settings.delivery is Delivery.EXACTLY_ONCE:
            self.committer = OutputTransactions(
                output_config(settings),
                writer,
                source_topic=topics.raw,
                changelog_topic=topics.changelog,
                timeout_seconds=settings.session_timeout_seconds,
                answer_seconds=settings.send_timeout_seconds,
            )
        else:
            self.committer = AcknowledgedSends(
                output_config(settings),
                self.consumer.commit,
                changelog_topic=topics.changelog,
                answer_seconds=settings.send_timeout_seconds,
            )

    async def open(self) -> None:
        """Connect, and join the group last. Raises ``FirstseenError``."""
        self.appender.open()
        await self.committer.open()
        self.log_reader.open()
        self.reports_reader.open()
        self.consumer.open()

    async def close(self) -> None:
        """Leave the group, and let go of all connections."""
        await self.consumer.close()
        await self.log_reader.close()
        await self.reports_reader.close()
        await self.appender.close()
        await self.committer.close()
