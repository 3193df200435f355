"""One open shard: packets in, a commit to Kafka, then a commit to the table. In that order."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Final, NamedTuple

import msgspec

from simhash_core.block_table import BlockTable
from simhash_core.blocks import Bucket
from simhash_core.effects import Effect, Emit, EmitDeadLetter, Send
from simhash_core.neighbours import Look
from simhash_core.placement import Placement
from simhash_core.probes import Packet, Probe
from simhash_core.shard import Shard
from simhash_core.verdicts import DuplicateOf, verdict_name
from simhash_core.verification import Confirmation
from streams.delivery import Delivery
from streams.metric_labels import TransactionOutcome
from streams.metrics import Metrics
from streams.ops_page.recent_documents import RecentDocuments
from streams.outbox import Outbox, OutboxRules
from streams.transactions import AbortedError

logger = logging.getLogger(__name__)

_TRIES: Final = 3
_PORTION_MESSAGES: Final = 2_000
"""Messages of one commit: bounds how long the event loop stands still, and what an abort undoes."""
_MILLISECONDS: Final = 1000

_LOOK_WAIT_SECONDS: Final = 2.0
"""The longest wait of a look for a batch to end."""

OpenTable = Callable[[int, threading.Event], BlockTable]
"""Opens the table of a shard, brought up to what is committed; blocking.

Raises ``InterruptedError`` soon after the event is set.
"""


class ShardState(NamedTuple):
    """A shard as its last commit left it: entries, pending entries, documents that wait."""

    is_open: bool
    entries: int
    pending: int
    parked: int
    next_offset: int


_CLOSED: Final = ShardState(is_open=False, entries=0, pending=0, parked=0, next_offset=0)


class ShardWorker:
    """Owns one shard while its partition is assigned to this process."""

    def __init__(
        self,
        partition: int,
        placement: Placement,
        confirmation: Confirmation | None,
        delivery: Delivery,
        open_table: OpenTable,
        rules: OutboxRules,
        metrics: Metrics,
        recent: RecentDocuments,
    ) -> None:
        """Nothing is opened before ``open``."""
        self.partition = partition
        self._placement = placement
        self._confirmation = confirmation
        self._delivery = delivery
        self._open_table = open_table
        self._rules = rules
        self._metrics = metrics
        self._recent = recent
        self._table: BlockTable | None = None
        self._shard: Shard | None = None
        self._next_offset = 0
        self._unsettled = False
        self.state = _CLOSED
        self._busy = asyncio.Lock()
        self._interrupted = threading.Event()

    async def open(self) -> None:
        """Fence the owner before, then take up the shard where it was last committed.

        Without effect where it is open. Raises ``InterruptedError`` after ``interrupt``.
        """
        async with self._busy:
            if self._shard is not None:
                return
            if self._interrupted.is_set():
                raise InterruptedError(f"shard {self.partition} has moved away")
            with self._metrics.failures("recover"):
                await self._delivery.take_over()
            await self._reopen()

    @property
    def next_offset(self) -> int:
        """The offset of the probes partition up to which all is decided and committed."""
        return self._next_offset

    @property
    def documents(self) -> int:
        """The number of entries of the shard; 0 while it is closed."""
        return 0 if self._table is None else len(self._table)

    async def process(self, packets: Sequence[tuple[int, Packet]]) -> bool:
        """Decide packets, with the offset of each, and commit them, a portion at a time.

        Offsets that were committed before are skipped. False when the shard was closed meanwhile:
        whoever owns it now will read again what is not committed. On any error the last portion
        may or may not have been committed, and the shard must be opened anew.
        """
        aborted = 0
        while True:
            async with self._busy:
                if self._shard is None:
                    return False
                fresh = [each for each in packets if each[0] >= self._next_offset]
                if not fresh:
                    return True
                try:
                    await self._commit(self._shard, _portion(fresh))
                except AbortedError as error:
                    aborted += 1
                    self._metrics.transaction(TransactionOutcome.ABORTED)
                    logger.warning("shard %d aborted, try %d: %s", self.partition, aborted, error)
                    if aborted == _TRIES:
                        raise
                    await self._reopen()
                else:
                    aborted = 0

    async def look(
        self, probe: Probe, buckets: Sequence[Bucket], most: int, threads: Executor
    ) -> Look | str:
        """Say what a document would meet here, or why that cannot be said; change nothing.

        Read in one of ``threads``, between two batches: none is begun meanwhile.
        """
        try:
            async with asyncio.timeout(_LOOK_WAIT_SECONDS):
                await self._busy.acquire()
        except TimeoutError:
            return "it is busy with a batch: try again"
        try:
            if self._shard is None or self._unsettled:
                return "it is being opened: try again"
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(threads, self._shard.look, probe, list(buckets), most)
        finally:
            self._busy.release()

    def interrupt(self) -> None:
        """Let an opening that is under way end soon, with ``InterruptedError``."""
        self._interrupted.set()

    async def close(self) -> None:
        """Let a batch that is under way end, then let go of the table."""
        async with self._busy:
            self._close()

    def _close(self) -> None:
        if self._table is not None:
            self._table.close()
        self._table = self._shard = None
        self._unsettled = False
        self.state = _CLOSED

    async def _reopen(self) -> None:
        """Forget what is not committed, and begin from what is."""
        self._close()
        loop = asyncio.get_running_loop()
        self._table = await loop.run_in_executor(
            None, self._open_table, self.partition, self._interrupted
        )
        self._shard = Shard(self.partition, self._placement, self._table, self._confirmation)
        self._next_offset = self._table.in_flight().progress.offset
        self._note_state()

    def _note_state(self) -> None:
        """Take down what other threads may read at any time."""
        assert self._table is not None
        assert self._shard is not None
        self.state = ShardState(
            is_open=True,
            entries=len(self._table),
            pending=self._shard.pending,
            parked=self._shard.parked,
            next_offset=self._next_offset,
        )

    async def _commit(self, shard: Shard, fresh: Sequence[tuple[int, Packet]]) -> None:
        assert self._table is not None
        self._unsettled = True
        outbox = Outbox(self.partition, self._rules)
        met_before = shard.candidates_met
        with self._metrics.stage("lookup"):
            shard.expect(message for _, packet in fresh for _, message in packet.messages)
            for _, packet in fresh:
                outbox.add(shard.receive(packet))
        next_offset = fresh[-1][0] + 1
        progress = msgspec.structs.replace(shard.progress(next_offset), index=self._rules.identity)
        with self._metrics.stage("send"):
            log_offset = await self._delivery.commit(outbox.records(), outbox.changes, progress)
        if log_offset:  # none where nothing is logged, and then there is no transaction either
            self._metrics.transaction(TransactionOutcome.COMMITTED)
        now_ms = int(time.time() * _MILLISECONDS)
        progress = msgspec.structs.replace(progress, log_offset=log_offset, log_time_ms=now_ms)
        with self._metrics.stage("store"):
            self._table.commit([*outbox.changes, progress])
        self._next_offset = next_offset
        self._unsettled = False
        self._note_state()
        self._recent.note(outbox.effects, now_ms)
        self._observe(outbox.effects, shard.candidates_met - met_before, now_ms)
        self._metrics.shard_state(self.partition, len(self._table), shard.parked)

    def _observe(self, effects: Sequence[Effect], candidates_met: int, now_ms: int) -> None:
        """Count what the batch did, once it is committed."""
        decided = 0
        for effect in effects:
            match effect:
                case Emit(probe, verdict):
                    decided += 1
                    self._metrics.verdict(verdict_name(verdict))
                    if isinstance(verdict, DuplicateOf):
                        self._metrics.distance(verdict.distance)
                    self._metrics.latency((now_ms - probe.record.timestamp_ms) / _MILLISECONDS)
                    self._metrics.last_record(probe.record.timestamp_ms)
                case EmitDeadLetter(rejection):
                    self._metrics.dead_letter(rejection.reason)
                case Send(_, _, message):
                    self._metrics.internal_message(type(message).__name__.lower())
                case _:
                    pass
        self._metrics.candidates(candidates_met, decided)


def _portion(packets: Sequence[tuple[int, Packet]]) -> Sequence[tuple[int, Packet]]:
    """Return the first packets up to about ``_PORTION_MESSAGES`` messages, at least one packet."""
    messages = 0
    for count, (_, packet) in enumerate(packets, start=1):
        messages += len(packet.messages)
        if messages >= _PORTION_MESSAGES:
            return packets[:count]
    return packets
