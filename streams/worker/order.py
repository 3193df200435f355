"""Order: documents become packets, and the log orders them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Final, NamedTuple

from simhash_core.errors import FirstseenError
from simhash_core.log.participant import Participant
from simhash_core.log.records import Packet, Query
from streams.kafka.producers import AppendUnknownError
from streams.kafka.raw_consumer import RawRecords
from streams.monitoring.metrics import Metrics
from streams.settings.settings import TopicSettings
from streams.worker.clients import RecordAppender
from streams.worker.consume import Intake
from streams.worker.fingerprint import PendingRecord, RawBatches
from streams.worker.log_codec import LogCodec
from streams.worker.shard import Shard

logger = logging.getLogger(__name__)

_PACKETS_TOGETHER: Final = 64  # packets appended between two turns of the event loop
RETRY_SECONDS: Final = 0.2


class LogClient(NamedTuple):
    """Writes to the log and to the topic of reports."""

    codec: LogCodec
    appender: RecordAppender
    topics: TopicSettings


class PacketSender:
    """Sends one worker's documents to the log, on the event loop."""

    def __init__(
        self,
        participant: Participant[PendingRecord],
        shards: Mapping[int, Shard],
        batches: RawBatches,
        log: LogClient,
        intake: Intake,
        metrics: Metrics,
        on_failure: Callable[[FirstseenError], None],
    ) -> None:
        self._participant = participant
        self._shards = shards
        self._batches = batches
        self._codec, self._appender, self._topics = log
        self._intake = intake
        self._metrics = metrics
        self._on_failure = on_failure

    async def take_in(self, records: Sequence[RawRecords]) -> None:
        runs = [run for run in records if self._is_current(run)]
        shards = {run.partition: self._shards[run.partition] for run in runs}
        for partition, batch in await self._batches.read(runs):
            shard = shards[partition]
            if shard.is_open and shard.owned is not None:  # it may be closed by now
                shard.owned.stream.add(batch)
                self._intake.taken_in(len(batch.records), batch.size)
        await self.send()

    def _is_current(self, run: RawRecords) -> bool:
        """Return whether records were read for a shard that is still open."""
        shard = self._shards.get(run.partition)
        return shard is not None and shard.is_open and shard.number == run.reading

    async def send(self) -> None:
        while True:
            if not self._append_some():
                return
            await asyncio.sleep(0)  # each of a thousand partitions may have a packet

    def _send_later(self, seconds: float) -> None:
        asyncio.get_running_loop().call_later(seconds, self._append_and_go_on)

    def _append_and_go_on(self) -> None:
        if self._append_some():
            self._send_later(0)

    def _append_some(self) -> bool:
        appended = 0
        with self._metrics.stage("append"):
            for packet in islice(self._participant.packets(), _PACKETS_TOGETHER):
                appended += 1
                value = self._codec.encode(packet)
                self._metrics.internal_bytes("log", len(value))
                future = self._appender.append(self._topics.log, value)
                shard = self._shards[packet.chain.partition]
                future.add_done_callback(partial(self._appended, shard, packet))
        return appended == _PACKETS_TOGETHER

    def _appended(self, shard: Shard, packet: Packet, future: asyncio.Future[int]) -> None:
        if future.cancelled() or (error := future.exception()) is None:
            return
        if not isinstance(error, AppendUnknownError):
            fail_append(error, self._on_failure)
            return
        if shard.is_open and shard.owned is not None:
            # Even if it is in the log: a packet that is there twice counts once.
            logger.warning("sending a packet of shard %d again: %s", shard.partition, error)
            shard.owned.stream.lost(packet)
            self._send_later(RETRY_SECONDS)

    async def ask(self, query: Query) -> None:
        """Append a query, answered in ``Participant.answers``; raises ``AppendUnknownError``."""
        await self._appender.append(self._topics.log, self._codec.encode(query))


def fail_append(error: BaseException, on_failure: Callable[[FirstseenError], None]) -> None:
    if not isinstance(error, FirstseenError):
        error = FirstseenError(f"an append failed: {error!r}")
    on_failure(error)
