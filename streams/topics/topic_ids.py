"""Ids of topics, which distinguish a topic from an earlier one of the same name.

A worker needs them when partitions are assigned, which is also when brokers come and go.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from streams.errors import BrokerUnavailableError
from streams.kafka.retries import PASSING_ERRORS, retrying, retrying_on_loop
from streams.topics.admin import TopicsError, can_administer

logger = logging.getLogger(__name__)

_ANSWER_SECONDS: Final = 5.0
_RETRY_SECONDS: Final = 0.5


def topic_id(admin: AdminClient, topic: str) -> str:
    """Return the id of a topic, "" where the broker takes no admin requests.

    Raises ``TopicsError`` where it refuses, ``BrokerUnavailableError`` where no broker answers.
    """
    return TopicIdResolver(lambda: admin, has_ids=False)(topic)


class TopicIdResolver:
    """Finds ids as ``topic_id`` does, with a new client after each request without an answer.

    After a short outage of its broker a client (librdkafka 2.16) may wait for the controller for
    ever; a new client gets its answer at once.
    """

    def __init__(self, connect: Callable[[], AdminClient], *, has_ids: bool) -> None:
        """``has_ids``: the broker is known to take admin requests.

        Else that is queried until it says so, and never again: one that is just starting can look
        like one that takes none.
        """
        self._connect = connect
        self._admin: AdminClient | None = None
        self._has_ids = has_ids

    def __call__(self, topic: str) -> str:
        """Return the id of a topic. Blocking."""
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
    """Asks beside the event loop, and again while a broker is away."""

    def __init__(self, ask: Callable[[str], str], wait_seconds: float) -> None:
        """``ask`` blocks, and raises as ``topic_id`` does; it is tried for so long."""
        self._ask = ask
        self._wait_seconds = wait_seconds

    async def of(self, topic: str) -> str:
        """Return the id of a topic.

        Raises ``BrokerUnavailableError`` or ``TopicsError`` when no broker has returned it in time.
        """
        again = retrying_on_loop(self._wait_seconds, _RETRY_SECONDS, _may_pass)
        return await again(asyncio.to_thread, self._ask, topic)

    def of_now(self, topic: str) -> str:
        """Return the id of a topic before there is a loop. Blocking; raises as ``of`` does."""
        return retrying(self._wait_seconds, _RETRY_SECONDS, _may_pass)(self._ask, topic)


def _may_pass(error: BaseException) -> bool:
    """Return whether to ask again: a broker that has just come back may not know its topics yet."""
    if not isinstance(error, BrokerUnavailableError | TopicsError):
        return False
    logger.warning("asking for the id of a topic again: %s", error)
    return True
