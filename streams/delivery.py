"""Delivery: how the batch of one shard is committed. What is promised of repeats depends on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from streams.acked_producer import AckedProducer, Outgoing


class Delivery(Protocol):
    """Commits the records of one batch of one shard."""

    async def commit(self, records: Sequence[Outgoing]) -> None:
        """Return when all records are with the broker; raise, and the shard must not go on."""
        ...


class AtLeastOnce:
    """Acknowledged sends. After a crash between send and local write a batch is sent again.

    It then has the same content: a shard decides by its log alone, and its state is that of before
    the batch.
    """

    def __init__(self, producer: AckedProducer) -> None:
        """Share one producer between the shards of a worker."""
        self._producer = producer

    async def commit(self, records: Sequence[Outgoing]) -> None:
        """Send, and wait for the acknowledgements."""
        await self._producer.send(records)
