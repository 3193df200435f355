"""Delivery: how the batch of one shard is committed, and so what is promised of repeats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from simhash_core.entries import Change, Progress
from streams.acked_producer import AckedProducer, Outgoing
from streams.changelog_codec import encode_change
from streams.transactions import ShardTransactions


class Delivery(Protocol):
    """Commits the batches of one shard."""

    async def take_over(self) -> None:
        """Make sure that no other process commits for this shard any more, as far as it can be."""
        ...

    async def commit(
        self, records: Sequence[Outgoing], changes: Sequence[Change], progress: Progress
    ) -> int:
        """Commit one batch; return the next offset of the changelog, 0 where none is kept.

        When it raises, the shard must be opened again from what is committed.
        """
        ...


class AtLeastOnce:
    """Acknowledged sends, and the state on this machine's disk alone.

    After a crash between send and local write a batch is sent again, with the same content: a
    shard decides by its log alone, and its state is that of before the batch.
    """

    def __init__(self, producer: AckedProducer) -> None:
        """Share one producer between the shards of a worker."""
        self._producer = producer

    async def take_over(self) -> None:
        """Nothing can be fenced without transactions."""

    async def commit(
        self, records: Sequence[Outgoing], changes: Sequence[Change], progress: Progress
    ) -> int:
        """Send, and wait for the acknowledgements."""
        del changes, progress
        await self._producer.send(records)
        return 0


class ExactlyOnce:
    """One transaction a batch, the changes of state in it: the changelog is the commit log."""

    def __init__(self, transactions: ShardTransactions, changelog: str, partition: int) -> None:
        """``changelog`` is the topic; a shard writes to the partition of its own number."""
        self._transactions = transactions
        self._changelog = changelog
        self._partition = partition

    async def take_over(self) -> None:
        """Fence the owner before."""
        await self._transactions.take_over()

    async def commit(
        self, records: Sequence[Outgoing], changes: Sequence[Change], progress: Progress
    ) -> int:
        """Commit everything in one transaction, the progress as its last record."""
        log = [self._log_record(change) for change in changes]
        return await self._transactions.commit([*records, *log], self._log_record(progress))

    def _log_record(self, change: Change) -> Outgoing:
        key, value = encode_change(change)
        return Outgoing(self._changelog, key, value, self._partition)
