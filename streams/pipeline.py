"""The pipeline of one worker: from raw records to outputs, and what others may know of it.

::

    raw consumer ─► fingerprint ─► appender ─► log ─► log reader ─► look up ─► reports
                                                ▲                                 │
                                     control records ◄──────── decide ◄───────────┘
    put out ◄── verdicts read back in the log

The four steps are agents (``streams.app``); each method here is what one of them does with one
event. Everything runs on the event loop; clients have threads of their own.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Final, NamedTuple

from simhash_core.errors import FirstseenError
from simhash_core.index.look_up import Nearness
from simhash_core.log.participant import Participant
from simhash_core.log.records import Report
from simhash_core.text.fingerprinter import Fingerprinter
from streams.agent_wake import Channel, Wake
from streams.deciding.leader import Leader
from streams.intake.in_flight import InFlight
from streams.intake.lost_records import LostRecords
from streams.intake.raw_batches import RawArrival, RawBatches
from streams.intake.raw_records import RawRecords
from streams.intake.schema_waits import SchemaWaits
from streams.kafka.client_config import changelog_group, consumer_config
from streams.kafka.log_reader import LogRecords
from streams.kept_files import KeptFiles
from streams.monitoring.metrics import Metrics
from streams.ordering.index_on_kafka import IndexOnKafka
from streams.ordering.log_codec import LogCodec
from streams.ordering.log_stage import LogClient, LogStage, OnBucket
from streams.ordering.raw_topic_look import RawTopicLook
from streams.ordering.shard_opening import ShardSources
from streams.output.output_batch import OutputRules
from streams.output.put_out import Observer, PutOut
from streams.settings.settings import Settings
from streams.shard_sessions import ShardSessions
from streams.standbys import standbys_of
from streams.store.shard_stores import ShardStores
from streams.worker_clients import WorkerClients
from streams.worker_view import PipelineView

logger = logging.getLogger(__name__)

_PACKET_BYTES: Final = 256 * 1024
"""The columns of one packet; one document may exceed it."""
_STORES_SECONDS: Final = 5.0
"""How often RocksDB is queried for its figures, of which there are eight for each shard."""


class Observers(NamedTuple):
    """Who is shown what the worker does."""

    metrics: Metrics
    recent: Observer
    on_bucket: OnBucket


class Pipeline:
    """One worker. Implements ``ClientEvents``."""

    def __init__(
        self,
        settings: Settings,
        fingerprinter: Fingerprinter,
        index: IndexOnKafka,
        rules: OutputRules,
        observers: Observers,
        channels: Sequence[Channel],
        on_failure: Callable[[FirstseenError], object],
    ) -> None:
        """Connect nothing yet. ``channels``: of raw records, log, decisions and outputs."""
        topics = settings.topics
        metrics = self.metrics = observers.metrics
        self.failure: FirstseenError | None = None
        self._on_failure = on_failure
        self._raw, self._log, self._reports, outputs = channels
        self._wake_decide, self._wake_put_out = Wake(self._reports), Wake(outputs)
        self._stopping = False
        self._stores_measured = -math.inf
        self._stores = ShardStores(
            settings,
            consumer_config(settings, group_id=changelog_group(settings)),
            rules.identity,
            index.changelog_id(),
            metrics,
        )
        self.participant: Participant[RawArrival] = Participant(
            f"{rules.writer}.{uuid.uuid4().hex[:8]}",
            Nearness.of(fingerprinter.profile),
        )
        self.schemas = SchemaWaits(settings, metrics)
        clients = self._clients = WorkerClients(settings, rules.writer, self)
        log = LogClient(LogCodec(rules.identity), clients.appender, topics)
        self._put_out = PutOut(
            self.participant,
            rules,
            clients.committer,
            clients.consumer,
            metrics,
            observers.recent,
            limit=settings.batch.documents * settings.batch.packets,
            on_unanswered=self._reopen,
        )
        self._stage = LogStage(
            self.participant,
            RawBatches(
                topics.raw,
                self.schemas.reader,
                fingerprinter,
                _PACKET_BYTES,
                metrics,
            ),
            log,
            metrics,
            limit=settings.batch.packets,
            on_report=self._own_report,
            on_failure=self.fail,
            on_bucket=observers.on_bucket,
        )
        self._leader = Leader(
            self.participant,
            log,
            clients.reports_reader,
            metrics,
            index.delete_before,
            limit=settings.batch.packets,
        )
        self._standbys = standbys_of(
            settings,
            rules,
            self.participant,
            self._stores,
            clients.log_reader,
            metrics,
            self._watch_leader,
        )
        self._sessions = ShardSessions(
            topics.raw,
            self.participant,
            ShardSources(self._stores, index, clients.consumer, clients.log_reader, self._standbys),
            self._put_out,
            metrics,
            prepare_leader=self._leader.prepare,
            on_session=self._session_began,
            on_failure=self.fail,
        )
        self._topic = topics.raw
        self._files = KeptFiles(self.participant, self._put_out, self._standbys.stores, self.fail)
        self._in_flight = InFlight(settings.in_flight, self.participant, clients.consumer, metrics)
        self._lost_records = LostRecords(topics.raw, self.participant, clients.consumer, metrics)
        self._raw_topic_look = RawTopicLook(topics.raw, self.participant, index, self._reopen)
        self.view = PipelineView(
            self.participant,
            self._stage,
            self._sessions,
            self._stores,
            self._put_out,
            fingerprinter,
            lambda: self.failure,
            self.schemas.why_waiting,
        )

    # ---- the life of the worker

    async def open(self) -> None:
        """Connect, and join the group."""
        try:
            await self._clients.open()
            self._standbys.open(self._sessions)
        except FirstseenError as error:
            self.fail(error)

    async def close(self) -> None:
        """End the commit under way, close the shards, leave the group."""
        self._stopping = True
        self._clients.consumer.hold()
        await self._sessions.close()
        await self._clients.close()

    def interrupt(self) -> None:
        """Let recoveries that are under way end soon."""
        self._stopping = True
        self._sessions.interrupt()

    def fail(self, error: FirstseenError) -> None:
        """Keep the first failure for the exit message, and end the worker."""
        if self.failure is None and not self._stopping:
            self.failure = error
            self._on_failure(error)

    # ---- what the agents do with one event

    async def fingerprint(self, batch: Sequence[RawRecords]) -> None:
        """Take raw records in, as far as packets of them in the log."""
        with self._guarded("fingerprint"):
            await self.schemas.ready(batch)  # in that time partitions may go
            starts = self._sessions.starts
            runs = [run for run in batch if starts.get(run.partition) == run.start]
            for run in runs:
                self._lost_records.check(run)
            self._stage.take_raw(runs)
            self._in_flight.check()
            self._wake_put_out()  # what holds no document needs no verdict

    def look_up(self, batch: LogRecords) -> None:
        """Take records of the log in, as far as reports."""
        if batch.epoch != self._sessions.epoch:
            return
        with self._guarded("lookup"):
            if self._stage.take_log(batch):
                self._wake_put_out()
            if self.participant.decider is not None:
                self._wake_decide()

    async def decide(self, reports: LogRecords | None) -> None:
        """Take in reports that were read, and decide what can be decided."""
        self._wake_decide.awake()
        with self._guarded("decide"):
            if reports is not None:
                self._leader.take_reports(reports)
            await self._leader.decide()

    async def put_out(self) -> None:
        """Put out what is decided."""
        self._wake_put_out.awake()
        with self._guarded("output"):
            while not self._stopping and await self._put_out.cycle():
                self._in_flight.check()
                await asyncio.sleep(0)

    async def measure(self) -> None:
        """Note what is measured every second, and do what is done at times."""
        with self._guarded("output"):
            if time.monotonic() - self._stores_measured >= _STORES_SECONDS:
                self._stores_measured = time.monotonic()
                self._stores.measure()
            self._standbys.stores.measure()
            self._files.keep()
            self._put_out.measure()
            self._stage.measure()
            self._leader.measure()
            self._in_flight.check()
            await self._raw_topic_look.look()
            await self._leader.trim(self._raw_topic_look.partitions)
            self._wake_decide()
            self._wake_put_out()

    # ---- what the clients say

    async def records(self, batch: Sequence[RawRecords]) -> None:
        """Hand raw records to their agent."""
        await self._raw.send(value=batch)

    async def log_read(self, batch: LogRecords) -> None:
        """Hand records of the log to their agent."""
        await self._log.send(value=batch)

    async def reports_read(self, batch: LogRecords) -> None:
        """Hand reports of other workers to their agent."""
        await self._reports.send(value=batch)

    def assigned(self, partitions: frozenset[int]) -> None:
        """Open shards."""
        self.metrics.rebalance()
        for partition in partitions:
            self.metrics.watched(self._topic, partition)
        logger.info("assigned by the group: %s", _named(partitions))
        self._sessions.assigned(partitions)

    async def revoked(self, partitions: frozenset[int]) -> None:
        """Close shards, after the commit that is under way."""
        logger.info("revoked by the group: %s", _named(partitions))
        await self._sessions.revoked(partitions)

    def lost(self, partitions: frozenset[int]) -> None:
        """Close shards that others may own by now."""
        logger.warning("lost, the group has moved them to other workers: %s", _named(partitions))
        self._sessions.lost(partitions)

    def failed(self, error: FirstseenError) -> None:
        """End the worker: it reads no raw records any more."""
        self.fail(error)

    def generation_changed(self) -> None:
        """Commit again what an older generation was refused."""
        self._wake_put_out()

    # ---- within

    async def _watch_leader(self) -> None:
        if self._leader.is_missing:
            async with self._put_out.lock:
                if await self._leader.stand_in():
                    self._wake_decide()

    def _own_report(self, report: Report) -> None:
        self._leader.take_report(report)
        self._wake_decide()

    def _session_began(self) -> None:
        """Go on with what waits, where the log has nothing new to read."""
        self._stage.report()
        self._stage.append_packets()
        self._wake_decide()

    async def _reopen(self, why: FirstseenError) -> None:
        await self._sessions.reopen(why)

    def _guarded(self, stage: str) -> _Guard:
        return _Guard(self, stage)


class _Guard:
    """Keeps the first failure of a stage for the exit message, and lets it crash the agent."""

    def __init__(self, pipeline: Pipeline, stage: str) -> None:
        self._pipeline = pipeline
        self._failures = pipeline.metrics.failures(stage)

    def __enter__(self) -> None:
        self._failures.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._failures.__exit__(kind, error, trace)
        if isinstance(error, FirstseenError):
            self._pipeline.failure = self._pipeline.failure or error


def _named(partitions: Iterable[int]) -> str:
    return " ".join(map(str, sorted(partitions))) or "none"
