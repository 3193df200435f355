"""What a worker asks of Kafka about its index, beside the path of documents."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import Final

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from simhash_core.errors import FirstseenError
from streams.kafka.client_config import admin_config
from streams.kafka_config import changelog_group, librdkafka_config
from streams.ordering.index_identity import Claim, read_claim, refuse_other_settings
from streams.settings import Delivery, Settings
from streams.shard_topics import grow_changelog
from streams.topic_ids import TopicIdAsker, TopicIds

_DELETE_SECONDS: Final = 10.0
_ID_TRIES: Final = 5


class IndexOnKafka:
    """Asked on the event loop; each question runs in a thread."""

    def __init__(self, settings: Settings, identity: str, reading: str) -> None:
        """``identity``, ``reading``: of this worker's index, and of how it reads records."""
        self._settings = settings
        self._identity = identity
        self._reading = reading
        has_transactions = settings.delivery is Delivery.EXACTLY_ONCE
        self._has_admin = has_transactions
        ask = TopicIdAsker(self._connect, has_ids=has_transactions)
        self._topic_ids = TopicIds(ask, _ID_TRIES * settings.send_timeout_seconds)

    async def topic_id(self) -> str:
        """Return the id of the raw topic, "" where the broker has none."""
        return await self._topic_ids.of(self._settings.topics.raw)

    async def claim(self) -> Claim | None:
        """Return the last progress of shard 0, None where it has none.

        Raises ``OtherSettingsError`` where the index was made with other settings.
        """
        return await asyncio.to_thread(self.checked_claim)

    def checked_claim(self) -> Claim | None:
        """Do as ``claim``; blocking."""
        settings = self._settings
        claim = read_claim(
            settings.topics.changelog,
            librdkafka_config(settings, group_id=changelog_group(settings)),
            settings.send_timeout_seconds,
        )
        where = (
            f"the index of application {settings.application_id!r} ({settings.topics.changelog})"
        )
        refuse_other_settings(claim, self._identity, self._reading, where)
        return claim

    async def grow_changelog(self, partition: int) -> None:
        """Make sure that the changelog has this partition, as the raw topic has it."""
        del partition
        if self._has_admin:
            await asyncio.to_thread(lambda: grow_changelog(self._connect(), self._settings))

    async def delete_before(self, offset: int) -> None:
        """Delete the records of the log before an offset. Raises ``FirstseenError``."""
        if self._has_admin:
            await asyncio.to_thread(self._delete_before, offset)

    def _delete_before(self, offset: int) -> None:
        log = self._settings.topics.log
        futures: dict[TopicPartition, Future[object]] = self._connect().delete_records(
            [TopicPartition(log, 0, offset)], request_timeout=_DELETE_SECONDS
        )
        try:
            for future in futures.values():
                future.result(_DELETE_SECONDS)
        except (KafkaException, TimeoutError) as error:
            raise FirstseenError(
                f"records of {log} before offset {offset} cannot be deleted: {error}. "
                "May this user delete records of the log (ACL: DELETE on the topic)?"
            ) from error

    def _connect(self) -> AdminClient:
        return AdminClient(admin_config(self._settings))
