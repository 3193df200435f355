"""How long transactions are open: what committed readers wait for, and who must be told.

A transaction on a raw partition stops this worker's intake there, without a stall: nothing can be
read. One on a changelog or an output does no harm to a worker that runs, and stops the next one
that opens the shard, and whoever reads the outputs.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from simhash_core.documents import TopicPartition
from streams.topics.open_transactions import HUNG_ADVICE, OpenTransaction

logger = logging.getLogger(__name__)

SAID_AFTER_SECONDS: Final = 60.0
"""Longer than workers' transactions may be open: ``session_timeout_seconds`` is 10 by default."""


class _Seen(NamedTuple):
    """A transaction by the offset of its first record, and when it was seen first."""

    offset: int
    since: float


class TransactionWatch:
    """Times the first open transaction of each partition; times are of any monotonic clock."""

    def __init__(self, shard_topics: Collection[str], others: Iterable[TopicPartition]) -> None:
        """Begin with none.

        ``shard_topics``: topics with a partition for each shard, watched by the shard's worker.
        ``others``: further partitions, watched by the worker of shard 0.
        """
        self._shard_topics = shard_topics
        self._others = list(others)
        self._seen: dict[TopicPartition, _Seen] = {}
        self._said: dict[TopicPartition, int] = {}

    def partitions(self, shards: Collection[int]) -> list[TopicPartition]:
        """Return what the worker of these shards watches."""
        own = [TopicPartition(topic, each) for topic in self._shard_topics for each in shards]
        return [*own, *(self._others if 0 in shards else [])]

    def update(self, is_open: Mapping[TopicPartition, OpenTransaction], now: float) -> float:
        """Take what is open now; return for how many seconds the oldest has been.

        Logs each that has been open for ``SAID_AFTER_SECONDS``, once, and when it has ended.
        """
        seen: dict[TopicPartition, _Seen] = {}
        for partition, each in is_open.items():
            before = self._seen.get(partition)
            known = before is not None and before.offset == each.offset
            seen[partition] = before if before and known else _Seen(each.offset, now)
        self._seen = seen
        for partition in [p for p, at in self._said.items() if not self._is_open(p, at)]:
            logger.warning("%s: the transaction has ended", partition)
            del self._said[partition]
        for partition, (offset, since) in seen.items():
            if now - since >= SAID_AFTER_SECONDS and partition not in self._said:
                self._said[partition] = offset
                logger.warning(
                    "%s; it was first seen %.0f s ago. It ends with the transaction.timeout.ms of "
                    "its producer. If not: %s",
                    is_open[partition],
                    now - since,
                    HUNG_ADVICE,
                )
        return max((now - each.since for each in seen.values()), default=0.0)

    def _is_open(self, partition: TopicPartition, offset: int) -> bool:
        return partition in self._seen and self._seen[partition].offset == offset
