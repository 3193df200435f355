"""The pipeline of one worker: everything between the two agents' inputs and their sends.

Faust says which partitions are ours and hands over records; this module knows nothing of Faust.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from simhash_core.errors import FirstseenError
from simhash_core.probes import Packet
from streams.acked_producer import AckedProducer, Outgoing
from streams.fingerprint_stage import FingerprintStage, RawInput
from streams.metric_labels import TransactionOutcome
from streams.metrics import Metrics
from streams.outbox import OutboxRules
from streams.shard_worker import ShardWorker
from streams.transactions import FencedError

logger = logging.getLogger(__name__)

NewShard = Callable[[int], ShardWorker]
"""Makes the worker of a shard, not yet opened."""

_SESSIONS_WITHOUT_SHARD: Final = 6.0


class Pipeline:
    """The shards of a worker and the stage that feeds them."""

    def __init__(
        self,
        *,
        stage: FingerprintStage,
        producer: AckedProducer,
        rules: OutboxRules,
        new_shard: NewShard,
        session_timeout_seconds: float,
        metrics: Metrics,
    ) -> None:
        """Begin without shards; ``assign`` brings them."""
        self.metrics = metrics
        self.failure: FirstseenError | None = None
        self.crash: Callable[[BaseException], object] = logger.critical
        self._stage = stage
        self._producer = producer
        self._rules = rules
        self._new_shard = new_shard
        self._session_timeout_seconds = session_timeout_seconds
        self._shards: dict[int, ShardWorker] = {}
        self._opening: dict[int, asyncio.Task[None]] = {}
        self._assigned = False
        self._fenced: asyncio.TimerHandle | None = None

    @property
    def ready(self) -> bool:
        """Whether partitions are assigned and every shard of ours is open."""
        return self._assigned and not self._opening and self._fenced is None

    def fail(self, error: FirstseenError) -> None:
        """Keep the first failure for the exit message, and end the worker."""
        if self.failure is None:
            self.failure = error
            self.crash(error)

    async def assign(self, partitions: Iterable[int]) -> None:
        """Begin to open the shards of these partitions; all others are closed.

        Returns at once: recovery can take long, and the group must not wait for it. ``lookup``
        waits instead.
        """
        await self.release()
        for partition in sorted(set(partitions)):
            shard = self._shards[partition] = self._new_shard(partition)
            self._opening[partition] = asyncio.create_task(self._open(shard))
        self.metrics.assigned_shards(len(self._shards))
        self._assigned = True

    async def release(self) -> None:
        """Close all shards, each after the batch that is under way."""
        self._assigned = False
        if self._fenced is not None:
            self._fenced.cancel()
            self._fenced = None
        for shard in self._shards.values():
            shard.interrupt()
        if self._opening:
            await asyncio.wait(list(self._opening.values()))
        for partition, shard in self._shards.items():
            await shard.close()
            logger.info("shard %d closed", partition)
        self._shards.clear()
        self.metrics.assigned_shards(0)

    async def fingerprint(self, inputs: Sequence[RawInput]) -> None:
        """Read, fingerprint and send on raw records; returns when the probes are acknowledged."""
        records = [
            Outgoing(self._rules.probes_topic, None, self._rules.codec.encode(packet), partition)
            for partition, packet in self._stage.packets(inputs)
        ]
        with self.metrics.stage("send"):
            await self._producer.send(records)

    async def lookup(self, partition: int, values: Sequence[tuple[int, bytes | None]]) -> bool:
        """Decide the packets of one probes partition, given as offset and value.

        False when the shard is not ours (any more): the records must not be acknowledged.
        """
        shard = self._shards.get(partition)
        opening = self._opening.get(partition)
        if opening is not None:
            await asyncio.wait([opening])
        if shard is None or self._shards.get(partition) is not shard:
            return False
        packets: list[tuple[int, Packet]] = []
        for offset, value in values:
            where = f"{self._rules.probes_topic}/{partition}@{offset}"
            packets.append((offset, self._rules.codec.decode(value, where)))
        try:
            return await shard.process(packets)
        except FencedError as error:
            await self._lost(shard, error)
            return False
        except InterruptedError:
            return False  # it moved away while it was opened again

    async def _open(self, shard: ShardWorker) -> None:
        try:
            await shard.open()
        except InterruptedError:
            logger.info("shard %d moved away while it was opened", shard.partition)
        except FencedError as error:
            await self._lost(shard, error)
        except FirstseenError as error:
            self.fail(error)
        except Exception as error:
            logger.exception("shard %d cannot be opened", shard.partition)
            self.fail(FirstseenError(f"shard {shard.partition} cannot be opened: {error!r}"))
        else:
            logger.info(
                "shard %d open: %d documents, next probes offset %d",
                shard.partition,
                shard.documents,
                shard.next_offset,
            )
        finally:
            del self._opening[shard.partition]

    async def _lost(self, shard: ShardWorker, error: FencedError) -> None:
        """Stop writing for a shard that another worker has; the group should soon tell us so."""
        logger.warning("shard %d closed: %s", shard.partition, error)
        self.metrics.transaction(TransactionOutcome.FENCED)
        await shard.close()
        if self._fenced is None:
            wait_seconds = self._session_timeout_seconds * _SESSIONS_WITHOUT_SHARD
            self._fenced = asyncio.get_running_loop().call_later(
                wait_seconds,
                self.fail,
                FencedError(
                    f"{error}, and no new assignment came within {wait_seconds:g} s. Does another "
                    "group use this application id?"
                ),
            )
