"""What a worker reads from Kafka about its index, beside the path of documents."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from simhash_core.errors import FirstseenError
from streams.errors import BrokerUnavailableError
from streams.kafka.client_config import (
    admin_config,
    changelog_group,
    consumer_config,
    output_config,
)
from streams.kafka.retries import retrying
from streams.kafka.transactions import abort_left_open
from streams.ordering.index_identity import (
    Claim,
    differences,
    read_claim,
    refuse_other_settings,
)
from streams.settings.settings import Delivery, Settings
from streams.topics.admin import partitions_of
from streams.topics.shard_topics import grow_changelog
from streams.topics.topic_ids import TopicIdResolver, TopicIds

logger = logging.getLogger(__name__)

_DELETE_SECONDS: Final = 10.0
_GROUP_SECONDS: Final = 10.0
_AGAIN_SECONDS: Final = 0.2
_CLAIMS_TOGETHER: Final = 8
_ID_TRIES: Final = 5


class IndexOnKafka:
    """Asked on the event loop; each question runs in a thread."""

    def __init__(self, settings: Settings, identity: str, reading: str, writer: str) -> None:
        """``identity``, ``reading``: of this worker's index, and of how it reads records.

        ``writer``: the name of this worker in the group, and its transactional id.
        """
        self._settings = settings
        self._identity = identity
        self._reading = reading
        self._writer = writer
        has_transactions = settings.delivery is Delivery.EXACTLY_ONCE
        self._has_admin = has_transactions
        self._looker: AdminClient | None = None
        resolver = TopicIdResolver(self._connect, has_ids=has_transactions)
        self._topic_ids = TopicIds(resolver, _ID_TRIES * settings.send_timeout_seconds)

    async def topic_id(self) -> str:
        """Return the id of the raw topic, "" where the broker has none."""
        return await self._topic_ids.of(self._settings.topics.raw)

    def changelog_id(self) -> str:
        """Return the id of the changelog topic, "" where the broker has none. Blocking.

        Raises ``BrokerUnavailableError`` or ``TopicsError`` when no broker has returned it in time.
        """
        return self._topic_ids.of_now(self._settings.topics.changelog)

    async def partitions(self) -> int:
        """Return the number of partitions of the raw topic, 0 where it is missing.

        Not by the consumer: called in one of its callbacks, confluent-kafka (2.16) loses track of
        the call that is under way, and the next callback aborts the process. Raises
        ``BrokerUnavailableError``.
        """
        return await asyncio.to_thread(self._partitions)

    def _partitions(self) -> int:
        raw = self._settings.topics.raw
        self._looker = looker = self._looker or self._connect()
        try:
            return partitions_of(looker, [raw]).get(raw, 0)
        except BrokerUnavailableError:
            self._looker = None  # a new client, as for the id of the topic
            raise

    async def claim(self) -> Claim | None:
        """Return the last progress of shard 0, None where it has none.

        Raises ``OtherSettingsError`` where the index was made with other settings.
        """
        return await asyncio.to_thread(self._claim)

    def refuse_other_settings(self) -> None:
        """Raise ``OtherSettingsError`` where this worker may not join the group. Blocking.

        Other rules of reading are refused beside other workers alone. While there are none, they
        may be changed, as when the name of a field was wrong: they say how records become
        documents, not what is near.
        """
        claim = self._claim()
        if claim is None or claim.reading == self._reading:
            return
        if self._has_admin and group_members(self._connect(), self._settings.application_id):
            refuse_other_settings(claim, self._identity, self._reading, self._where)
        for each in differences(claim, self._identity, self._reading):
            logger.warning(
                "reading settings have changed: %s was %s, and is now %s",
                each.setting,
                each.theirs,
                each.ours,
            )

    @property
    def _where(self) -> str:
        topic = self._settings.topics.changelog
        return f"the index of application {self._settings.application_id!r} ({topic})"

    def _claim(self) -> Claim | None:
        settings = self._settings
        claim = read_claim(
            settings.topics.changelog,
            consumer_config(settings, group_id=changelog_group(settings)),
            settings.send_timeout_seconds,
        )
        reading = self._reading if claim is None else claim.reading
        refuse_other_settings(claim, self._identity, reading, self._where)
        return claim

    async def abort_left_open(self, partitions: Iterable[int]) -> None:
        """Abort what workers that are gone have left open, without waiting for its time-out.

        Readers of the outputs would wait that long, and the new owner of a shard as well.
        ``partitions``: whose last owners to look for.
        """
        if not self._has_admin:
            return
        writers = await asyncio.to_thread(self._gone_writers, set(partitions))
        for writer in sorted(writers):
            logger.info("%s has left the group: aborting its open transaction, if any", writer)
            await abort_left_open(
                output_config(self._settings), writer, self._settings.send_timeout_seconds
            )

    def _gone_writers(self, partitions: set[int]) -> set[str]:
        """Return who committed last for partitions and is in the group no more."""
        settings = self._settings
        config = consumer_config(settings, group_id=changelog_group(settings))

        def writer_of(partition: int) -> str:
            claim = read_claim(
                settings.topics.changelog, config, settings.send_timeout_seconds, partition
            )
            return "" if claim is None else claim.writer

        with ThreadPoolExecutor(_CLAIMS_TOGETHER) as threads:
            writers = set(threads.map(writer_of, partitions)) - {"", self._writer}
        if not writers:
            return writers
        members = group_members(self._connect(), settings.application_id)
        return writers - members

    async def grow_changelog(self) -> None:
        """Make sure that the changelog has a partition for each of the raw topic."""
        if self._has_admin:
            await asyncio.to_thread(lambda: grow_changelog(self._connect(), self._settings))

    async def delete_before(self, offset: int) -> None:
        """Delete the records of the log before an offset. Raises ``FirstseenError``."""
        if self._has_admin:
            await asyncio.to_thread(self._delete_before, offset)

    def _delete_before(self, offset: int) -> None:
        log = self._settings.topics.log
        admin = self._connect()  # no answer comes once it is let go of
        futures: dict[TopicPartition, Future[object]] = admin.delete_records(
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


def group_members(admin: AdminClient, group: str) -> set[str]:
    """Return the names of the members of a group. Raises ``BrokerUnavailableError``."""

    def described() -> set[str]:
        futures = admin.describe_consumer_groups([group], request_timeout=_GROUP_SECONDS)
        return {member.client_id for member in futures[group].result(_GROUP_SECONDS).members}

    try:
        # The coordinator of a group that is new is loaded when it is first asked for.
        return retrying(_GROUP_SECONDS, _AGAIN_SECONDS)(described)
    except (KafkaException, TimeoutError) as error:
        raise BrokerUnavailableError(
            f"unknown whether other workers are in the group {group}: {error}"
        ) from error
