"""One open shard: packets in, a commit to Kafka, then a commit to the table. In that order."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from simhash_core.block_table import BlockTable
from simhash_core.effects import Effect, Emit, EmitDeadLetter, Send
from simhash_core.placement import Placement
from simhash_core.probes import Packet
from simhash_core.shard import Shard
from simhash_core.verdicts import DuplicateOf, verdict_name
from streams.delivery import Delivery
from streams.metrics import Metrics
from streams.outbox import Outbox
from streams.packet_codec import PacketCodec
from streams.settings import Settings


class ShardWorker:
    """Owns the table of one shard while its partition is assigned to this process."""

    def __init__(
        self,
        partition: int,
        placement: Placement,
        table: BlockTable,
        delivery: Delivery,
        codec: PacketCodec,
        identity: str,
        settings: Settings,
        metrics: Metrics,
    ) -> None:
        """Take up the shard where the table was last committed."""
        self.partition = partition
        self._placement = placement
        self._shard = Shard(partition, placement, table)
        self._table = table
        self._delivery = delivery
        self._codec = codec
        self._identity = identity
        self._settings = settings
        self._metrics = metrics
        self._next_offset = table.in_flight().progress.offset
        self._busy = asyncio.Lock()
        self._closed = False

    @property
    def next_offset(self) -> int:
        """The offset of the probes partition up to which all is decided and committed."""
        return self._next_offset

    @property
    def shard(self) -> Shard:
        """The state machine, to be looked at."""
        return self._shard

    @property
    def documents(self) -> int:
        """The number of entries of the shard."""
        return len(self._table)

    async def process(self, packets: Sequence[tuple[int, Packet]]) -> bool:
        """Decide a batch, with the offset of each packet, and commit it whole.

        Offsets that were committed before are skipped. False when the shard was closed meanwhile:
        then nothing was done, and whoever owns it now will read the packets again. On any error
        the batch may or may not have been sent, and the shard must be opened anew.
        """
        async with self._busy:
            if self._closed:
                return False
            fresh = [(offset, packet) for offset, packet in packets if offset >= self._next_offset]
            if fresh:
                await self._commit(fresh)
            return True

    async def close(self) -> None:
        """Let a batch that is under way end, then let go of the table."""
        async with self._busy:
            if not self._closed:
                self._closed = True
                self._table.close()

    async def _commit(self, fresh: Sequence[tuple[int, Packet]]) -> None:
        bits = self._placement.scheme.bits
        outbox = Outbox(self.partition, self._identity, bits, self._codec, self._settings)
        met_before = self._shard.candidates_met
        with self._metrics.stage("lookup"):
            for _, packet in fresh:
                outbox.add(self._shard.receive(packet))
        next_offset = fresh[-1][0] + 1
        with self._metrics.stage("send"):
            await self._delivery.commit(outbox.records())
        with self._metrics.stage("store"):
            self._table.commit([*outbox.changes, self._shard.progress(next_offset)])
        self._next_offset = next_offset
        self._observe(outbox.effects, self._shard.candidates_met - met_before)

    def _observe(self, effects: Sequence[Effect], candidates_met: int) -> None:
        """Count what the batch did, once it is committed."""
        now_ms = time.time() * 1000.0
        decided = 0
        for effect in effects:
            match effect:
                case Emit(probe, verdict):
                    decided += 1
                    self._metrics.verdict(verdict_name(verdict))
                    if isinstance(verdict, DuplicateOf):
                        self._metrics.distance(verdict.distance)
                    self._metrics.latency((now_ms - probe.record.timestamp_ms) / 1000.0)
                    self._metrics.last_record(probe.record.timestamp_ms)
                case EmitDeadLetter(rejection):
                    self._metrics.dead_letter(rejection.reason)
                case Send(_, _, message):
                    self._metrics.internal_message(type(message).__name__.lower())
                case _:
                    pass
        self._metrics.candidates(candidates_met, decided)
        self._metrics.shard_state(self.partition, self.documents, self._shard.parked)
