"""The topics whose partitions are the shards: raw, and changelog partition p for raw partition p.

What may happen to the raw topic:

    ==============================  =========================================================
    it gets more partitions         new, empty shards: ``grow_changelog``
    it is deleted and recreated     its chains begin again, as its id changes; entries stay
    it is recreated with fewer      ``refuse_lost_shards``: nobody would own the entries of
    partitions                      the last shards, and look-ups would miss them
    ==============================  =========================================================
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.cimpl import NewPartitions

from streams.errors import BrokerUnavailableError
from streams.kafka.clients import AdminClient
from streams.kafka.errors import PASSING_ERRORS, becomes_true, retrying, retrying_on_loop
from streams.settings.settings import Settings
from streams.topics.admin import TopicsError, can_administer, partitions_of

# ---- Ids of topics, which distinguish a topic from an earlier one of the same name.

logger = logging.getLogger(__name__)

_ANSWER_SECONDS: Final = 5.0
_RETRY_SECONDS: Final = 0.5


def topic_id(admin: AdminClient, topic: str) -> str:
    """Return a topic's id, or ""; raise ``TopicsError`` or ``BrokerUnavailableError``."""
    return TopicIdResolver(lambda: admin, has_ids=False)(topic)


class TopicIdResolver:
    """Finds ids as ``topic_id`` does, with a new client after each unanswered request.

    After a short outage a client (librdkafka 2.16) may wait for the controller for ever; a new one
    does not.
    """

    def __init__(self, connect: Callable[[], AdminClient], *, has_ids: bool) -> None:
        """``has_ids`` says that the broker is known to take admin requests.

        Otherwise the broker is asked until it says so, because one that is starting can look like
        one that takes none.
        """
        self._connect = connect
        self._admin: AdminClient | None = None
        self._has_ids = has_ids

    def __call__(self, topic: str) -> str:
        if self._admin is None:  # not "or": a client is false while nothing waits in it
            self._admin = self._connect()
        admin = self._admin
        try:
            self._has_ids = self._has_ids or can_administer(admin)
            return _described_id(admin, topic) if self._has_ids else ""
        except BrokerUnavailableError:
            self._admin = None
            raise


def _described_id(admin: AdminClient, topic: str) -> str:
    described = admin.describe_topics(TopicCollection([topic]), request_timeout=_ANSWER_SECONDS)
    try:
        return str(described[topic].result(_ANSWER_SECONDS + 1.0).topic_id)
    except KafkaException as error:
        reason = error.args[0]
        if reason.code() in PASSING_ERRORS:
            raise BrokerUnavailableError(
                f"no broker returns the id of {topic}: {reason.str()}. Is the broker reachable?"
            ) from error
        raise TopicsError(f"the id of {topic} cannot be read: {reason.str()}") from error
    except TimeoutError as error:
        raise BrokerUnavailableError(f"no broker returns the id of {topic}") from error


class TopicIds:
    """Finds ids on the event loop, and tries again while a broker is away."""

    def __init__(self, ask: Callable[[str], str], wait_seconds: float) -> None:
        """``ask`` blocks, and raises as ``topic_id`` does; it is retried for ``wait_seconds``."""
        self._ask = ask
        self._wait_seconds = wait_seconds

    async def of(self, topic: str) -> str:
        """Raise ``BrokerUnavailableError`` or ``TopicsError`` when no broker answers in time."""
        again = retrying_on_loop(self._wait_seconds, _RETRY_SECONDS, _may_pass)
        return await again(asyncio.to_thread, self._ask, topic)

    def of_now(self, topic: str) -> str:
        return retrying(self._wait_seconds, _RETRY_SECONDS, _may_pass)(self._ask, topic)


def _may_pass(error: BaseException) -> bool:
    """Return whether to ask again: a broker that has just come back may not know its topics yet."""
    if not isinstance(error, BrokerUnavailableError | TopicsError):
        return False
    logger.warning("asking for the id of a topic again: %s", error)
    return True


_TOPIC_ANSWER_SECONDS: Final = 30.0
_AGAIN_SECONDS: Final = 0.1


class RawTopic(NamedTuple):
    """``identifier`` is "" where the broker knows none."""

    name: str
    identifier: str
    partitions: int


def raw_topic(admin: AdminClient, settings: Settings) -> RawTopic:
    """Describe the raw topic. Blocking. Raises ``TopicsError`` or ``BrokerUnavailableError``."""
    name = settings.topics.raw
    partitions = partitions_of(admin, [name]).get(name)
    if partitions is None:
        raise TopicsError(f"{name} is missing: run 'firstseen topics create'")
    return RawTopic(name, topic_id(admin, name), partitions)


def lost_shards(admin: AdminClient, changelog: str, raw: int, partitions: int) -> list[int]:
    """Return the changelog partitions from ``raw`` to ``partitions`` that have records."""
    if partitions <= raw:
        return []
    latest: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call] # of the library
    wanted = {TopicPartition(changelog, each): latest for each in range(raw, partitions)}
    lost: list[int] = []
    for partition, future in admin.list_offsets(
        wanted, request_timeout=_TOPIC_ANSWER_SECONDS
    ).items():
        try:
            if future.result(_TOPIC_ANSWER_SECONDS + 1.0).offset > 0:
                lost.append(partition.partition)
        except KafkaException as error:
            raise TopicsError(
                f"the end of {changelog}, partition {partition.partition}, cannot be read: "
                f"{error.args[0].str()}"
            ) from error
    return sorted(lost)


def refuse_lost_shards(admin: AdminClient, settings: Settings) -> None:
    raw, changelog = settings.topics.raw, settings.topics.changelog
    there = partitions_of(admin, [raw, changelog])
    lost = lost_shards(admin, changelog, there.get(raw, 0), there.get(changelog, 0))
    if lost:
        raise TopicsError(
            f"{raw} has {there.get(raw, 0)} partitions, and the index has {max(lost) + 1} shards: "
            "the topic was created again with fewer. Give it at least as many as before "
            f"(kafka-topics.sh --alter --topic {raw} --partitions {max(lost) + 1}), or start a "
            f"new index with another application_id"
        )


def grow_changelog(admin: AdminClient, settings: Settings) -> int:
    """Give the changelog the raw topic's partitions; return how many are new. Blocking."""
    raw, changelog = settings.topics.raw, settings.topics.changelog
    there = partitions_of(admin, [raw, changelog])
    for name in (raw, changelog):
        if name not in there:
            raise TopicsError(f"{name} is missing: run 'firstseen topics create'")
    wanted, before = there[raw], there[changelog]
    if before >= wanted:
        return 0
    if not can_administer(admin):
        raise TopicsError(
            f"{raw} has {wanted} partitions, {changelog} {before}, and this broker adds none on "
            "request: create both with the same number"
        )
    created = _create_partitions(admin, changelog, wanted)
    _await_partitions(admin, changelog, wanted)
    return wanted - before if created else 0


def _create_partitions(admin: AdminClient, topic: str, wanted: int) -> bool:
    """Raise the number of partitions; return False where somebody else did."""
    futures = admin.create_partitions(
        [NewPartitions(topic, wanted)],
        operation_timeout=_TOPIC_ANSWER_SECONDS,
        request_timeout=_TOPIC_ANSWER_SECONDS,
    )
    try:
        futures[topic].result(_TOPIC_ANSWER_SECONDS + 1.0)
    except KafkaException as error:
        reason: KafkaError = error.args[0]
        if reason.code() == KafkaError.INVALID_PARTITIONS:
            return False  # it has as many, or more: the wait that follows finds out
        by_hand = f"kafka-topics.sh --alter --topic {topic} --partitions {wanted}"
        raise TopicsError(
            f"{topic} needs {wanted} partitions, and they cannot be created: {reason.str()}. "
            f"Grant the Kafka user the ACL operation Alter on it, or create them as one who may, "
            f"with 'firstseen topics create' or {by_hand}"
        ) from error
    return True


def _await_partitions(admin: AdminClient, topic: str, wanted: int) -> None:
    if not becomes_true(
        lambda: partitions_of(admin, [topic]).get(topic, 0) >= wanted,
        _TOPIC_ANSWER_SECONDS,
        _AGAIN_SECONDS,
    ):
        raise TopicsError(
            f"{topic} was given {wanted} partitions, but brokers list fewer after "
            f"{_TOPIC_ANSWER_SECONDS:g} s"
        )
