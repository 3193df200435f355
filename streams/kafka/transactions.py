"""Exactly once: outputs, changelog records and raw offsets in one transaction a worker and cycle.

The coordinator of the group refuses the offsets of a worker that is not a member of the group's
present generation: so a worker that has lost its partitions cannot commit, and no fencing by
partition is needed. The transactional id is the worker's own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from confluent_kafka import TopicPartition

from streams.errors import UnansweredError
from streams.kafka.client_thread import ClientThread
from streams.kafka.producer_record import ProducerRecord
from streams.kafka.transactional_producer import TransactionalProducer

_Result = TypeVar("_Result")


class Committer(Protocol):
    """Commits outputs, changelog records and offsets: all or none, where the broker can."""

    async def open(self) -> None:
        """Prepare for ``commit``."""
        ...

    async def commit(
        self,
        records: Sequence[ProducerRecord],
        offsets: Mapping[int, int],
        group_metadata: bytes,
        note: str = "",
    ) -> dict[int, int]:
        """Commit records, and by raw partition the offset to read next, with ``note`` beside it.

        Returns by changelog partition the offset after the last of ``records`` there. Raises the
        errors of ``commit_errors``.
        """
        ...

    async def close(self) -> None:
        """Drop the client."""
        ...


class OutputTransactions:
    """The transactional producer of one worker, in a thread of its own."""

    def __init__(
        self,
        config: Mapping[str, Any],
        transactional_id: str,
        *,
        source_topic: str,
        changelog_topic: str,
        timeout_seconds: float,
        answer_seconds: float | None = None,
    ) -> None:
        """See ``TransactionalProducer``; ``source_topic``: the topic of the offsets."""
        self._id = transactional_id
        self._source_topic = source_topic

        def connect() -> TransactionalProducer:
            return TransactionalProducer(
                config,
                transactional_id,
                timeout_seconds=timeout_seconds,
                answer_seconds=answer_seconds,
                changelog_topic=changelog_topic,
            )

        self._connect = connect
        self._producer = connect()
        self._thread = ClientThread("transactions")

    async def open(self) -> None:
        """Fence an earlier life of this worker, and abort what it left open.

        Raises ``TransactionError`` where the broker knows no transactions, ``UnansweredError``
        where it does not answer.
        """
        await self._in_thread(self._producer.open)

    async def commit(
        self,
        records: Sequence[ProducerRecord],
        offsets: Mapping[int, int],
        group_metadata: bytes,
        note: str = "",
    ) -> dict[int, int]:
        """See ``Committer.commit``; all or nothing is seen by readers of committed records."""
        raw = [TopicPartition(self._source_topic, *each, note) for each in offsets.items()]
        producer = self._producer
        return await self._in_thread(lambda: producer.commit(records, raw, group_metadata))

    async def close(self) -> None:
        """Drop the producer, after the commit that is under way."""
        await self._in_thread(self._producer.close)
        self._thread.end()

    async def _in_thread(self, work: Callable[[], _Result]) -> _Result:
        producer = self._producer
        try:
            # A commit may have to open and to abort, each as long as an answer may take.
            return await self._thread.run(work, lambda: time.monotonic() > producer.hangs_from)
        except TimeoutError:
            self._producer = self._connect()  # the old one is left to the thread that hangs
            raise UnansweredError(
                f"{self._id}: the Kafka client hangs in a transaction; a new client replaces it"
            ) from None


async def abort_left_open(
    config: Mapping[str, Any], transactional_id: str, answer_seconds: float
) -> None:
    """Abort what a worker that was killed has left open, without waiting for its time-out.

    If it is alive after all, its next commit is a ``FencedError`` and it opens again. Raises
    ``TransactionError`` or ``UnansweredError``.
    """
    transactions = OutputTransactions(
        config,
        transactional_id,
        source_topic="",
        changelog_topic="",
        timeout_seconds=answer_seconds,
    )
    try:
        await transactions.open()
    finally:
        await transactions.close()
