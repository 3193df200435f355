"""The pipeline of one worker: everything between the two agents' inputs and their sends.

Faust says which partitions are ours and hands over records; this module knows nothing of Faust.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence

from simhash_core.block_table import BlockTable
from simhash_core.errors import FirstseenError
from simhash_core.placement import Placement
from simhash_core.probes import Packet
from streams.acked_producer import AckedProducer, Outgoing
from streams.delivery import AtLeastOnce
from streams.fingerprint_stage import FingerprintStage, RawInput
from streams.metrics import Metrics
from streams.packet_codec import PacketCodec
from streams.settings import Settings
from streams.shard_worker import ShardWorker

logger = logging.getLogger(__name__)

OpenTable = Callable[[int], BlockTable]
"""Opens the table of a shard by its partition."""


class Pipeline:
    """The shards of a worker and the stage that feeds them."""

    def __init__(
        self,
        *,
        settings: Settings,
        identity: str,
        placement: Placement,
        stage: FingerprintStage,
        producer: AckedProducer,
        open_table: OpenTable,
        metrics: Metrics,
    ) -> None:
        """Begin without shards; ``assign`` brings them."""
        self.metrics = metrics
        self.shards: dict[int, ShardWorker] = {}
        self.failure: FirstseenError | None = None
        self.ready = False
        self._settings = settings
        self._identity = identity
        self._placement = placement
        self._stage = stage
        self._producer = producer
        self._open_table = open_table
        self._codec = PacketCodec(identity, placement.partitions)

    async def assign(self, partitions: Iterable[int]) -> None:
        """Open the shards of these partitions and close all others."""
        wanted = set(partitions)
        await self.release()
        for partition in sorted(wanted):
            table = self._open_table(partition)
            self.shards[partition] = ShardWorker(
                partition,
                self._placement,
                table,
                AtLeastOnce(self._producer),
                self._codec,
                self._identity,
                self._settings,
                self.metrics,
            )
            logger.info(
                "shard %d opened: %d documents, next probes offset %d",
                partition,
                len(table),
                self.shards[partition].next_offset,
            )
        self.metrics.assigned_shards(len(self.shards))
        self.ready = True

    async def release(self) -> None:
        """Close all shards, after the batches that are under way."""
        self.ready = False
        for partition in list(self.shards):
            await self.shards.pop(partition).close()
            logger.info("shard %d closed", partition)
        self.metrics.assigned_shards(0)

    async def fingerprint(self, inputs: Sequence[RawInput]) -> None:
        """Read, fingerprint and send on raw records; returns when the probes are acknowledged."""
        packets = self._stage.packets(inputs)
        topic = self._settings.topics.probes
        records = [
            Outgoing(topic, None, self._codec.encode(packet), partition)
            for partition, packet in packets
        ]
        with self.metrics.stage("send"):
            await self._producer.send(records)

    async def lookup(self, partition: int, values: Sequence[tuple[int, bytes | None]]) -> bool:
        """Decide the packets of one probes partition, given as offset and value.

        False when the shard is not ours (any more): the records must not be acknowledged.
        """
        shard = self.shards.get(partition)
        if shard is None:
            return False
        packets: list[tuple[int, Packet]] = []
        for offset, value in values:
            where = f"{self._settings.topics.probes}/{partition}@{offset}"
            packets.append((offset, self._codec.decode(value, where)))
        return await shard.process(packets)
