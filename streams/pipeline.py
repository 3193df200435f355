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
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, NamedTuple, Protocol

from simhash_core.documents import Content, Document, SourcePosition
from simhash_core.errors import FirstseenError
from simhash_core.fingerprinter import Fingerprinter
from simhash_core.index.look_up import Nearness
from simhash_core.log.columns import document_columns
from simhash_core.log.participant import Participant
from simhash_core.log.records import Answer, Query, Report
from streams.deciding.leader import Leader
from streams.errors import BrokerUnavailableError, StateMismatchError
from streams.intake.raw_consumer import RawConsumer
from streams.intake.raw_records import RawRecords
from streams.kafka.appender import Appender
from streams.kafka.client_config import (
    appender_config,
    log_reader_config,
    output_config,
    raw_consumer_config,
)
from streams.kafka.log_reader import LogReader, LogRecords
from streams.kafka_config import changelog_group, librdkafka_config
from streams.metrics import Metrics
from streams.ops_page.fullest_buckets import FullestBuckets
from streams.ordering.index_on_kafka import IndexOnKafka
from streams.ordering.log_codec import LogCodec
from streams.ordering.log_stage import LogClient, LogStage
from streams.ordering.raw_batches import RawArrival, RawBatches
from streams.ordering.shard_sessions import ShardSessions, ShardSources
from streams.output.acknowledged_sends import AcknowledgedSends
from streams.output.output_batch import OutputRules
from streams.output.put_out import Observer, PutOut
from streams.output.transactions import Committer, OutputTransactions
from streams.raw_documents import DocumentReader
from streams.settings import Delivery, Settings
from streams.store.shard_stores import ShardStores
from streams.worker_state import CheckUnavailableError, ShardState

logger = logging.getLogger(__name__)

_ANSWER_SECONDS: Final = 5.0
_PARTITIONS_SECONDS: Final = 5.0
_ANSWER_LOOK_SECONDS: Final = 0.005
_WORD_BITS: Final = 64
_PACKET_BYTES: Final = 256 * 1024
"""The columns of one packet; one document may exceed it."""


class Channel(Protocol):
    """Where events wait for an agent."""

    async def send(self, *, value: Any) -> Any:  # noqa: ANN401 - Faust's channels
        """Hand an event over; waits while the channel is full."""
        ...


class _Wake:
    """Lets an agent run soon, once for any number of calls before it does."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._task: asyncio.Task[Any] | None = None

    def __call__(self) -> None:
        if self._task is None:
            self._task = asyncio.ensure_future(self._channel.send(value=None))

    def awake(self) -> None:
        """Note that the agent runs: the next call wakes it again."""
        self._task = None


class Observers(NamedTuple):
    """Who is shown what the worker does."""

    metrics: Metrics
    recent: Observer
    fullest: FullestBuckets


class Pipeline:
    """One worker. Implements ``RawEvents`` for the raw consumer, and ``WorkerView``."""

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
        self._settings = settings
        self._fingerprinter = fingerprinter
        self._raw, self._log, self._reports, outputs = channels
        self._wake_decide, self._wake_put_out = _Wake(self._reports), _Wake(outputs)
        self._held = False
        self._partitions_at = time.monotonic()
        self._stopping = False
        self._stores = ShardStores(
            settings,
            librdkafka_config(settings, group_id=changelog_group(settings)),
            rules.identity,
            metrics,
        )
        self.participant: Participant[RawArrival] = Participant(
            f"{rules.writer}.{uuid.uuid4().hex[:8]}",
            Nearness(fingerprinter.scheme, fingerprinter.confirmation),
        )
        self._consumer = RawConsumer(
            raw_consumer_config(settings, rules.writer),
            topics.raw,
            self,
            batch_records=settings.batch.documents,
        )
        self._log_reader = LogReader(
            log_reader_config(settings), topics.log, self._log_arrived, self.fail
        )
        self._reports_reader = LogReader(
            log_reader_config(settings), topics.reports, self._reports_arrived, self.fail
        )
        self._appender = Appender(appender_config(settings))
        log = LogClient(LogCodec(rules.identity), self._appender, topics)
        self._committer: Committer = (
            OutputTransactions(
                output_config(settings),
                rules.writer,
                source_topic=topics.raw,
                changelog_topic=topics.changelog,
                timeout_seconds=settings.session_timeout_seconds,
                answer_seconds=settings.send_timeout_seconds,
            )
            if settings.delivery is Delivery.EXACTLY_ONCE
            else AcknowledgedSends(
                output_config(settings),
                self._consumer.commit,
                changelog_topic=topics.changelog,
                answer_seconds=settings.send_timeout_seconds,
            )
        )
        self._put_out = PutOut(
            self.participant,
            rules,
            self._committer,
            self._consumer,
            metrics,
            observers.recent,
            limit=settings.batch.documents * settings.batch.packets,
            on_unanswered=self._reopen,
        )
        self._stage = LogStage(
            self.participant,
            RawBatches(
                topics.raw,
                DocumentReader(settings.fields, settings.max_record_bytes),
                fingerprinter,
                _PACKET_BYTES,
                metrics,
            ),
            log,
            metrics,
            limit=settings.batch.packets,
            on_report=self._own_report,
            on_failure=self.fail,
            on_bucket=observers.fullest.note,
        )
        self._leader = Leader(
            self.participant,
            log,
            self._reports_reader,
            metrics,
            index.delete_before,
            limit=settings.batch.packets,
        )
        self._sessions = ShardSessions(
            topics.raw,
            self.participant,
            ShardSources(self._stores, index, self._consumer, self._log_reader),
            self._put_out,
            metrics,
            prepare_leader=self._leader.prepare,
            on_session=self._wake_decide,
            on_failure=self.fail,
        )

    # ---- the life of the worker

    async def open(self) -> None:
        """Connect, and join the group."""
        try:
            self._appender.open()
            await self._committer.open()
            self._log_reader.open()
            self._reports_reader.open()
            self._consumer.open()
        except FirstseenError as error:
            self.fail(error)

    async def close(self) -> None:
        """End the commit under way, close the shards, leave the group."""
        self._stopping = True
        self._consumer.hold()
        await self._sessions.close()
        await self._consumer.close()
        await self._log_reader.close()
        await self._reports_reader.close()
        await self._appender.close()
        await self._committer.close()

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

    def fingerprint(self, batch: Sequence[RawRecords]) -> None:
        """Take raw records in, as far as packets of them in the log."""
        with self._guarded("fingerprint"):
            self._stage.take_raw(batch)
            self._limit_in_flight()
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
                self._limit_in_flight()
                await asyncio.sleep(0)

    async def measure(self) -> None:
        """Note what is measured every second, and do what is done at times."""
        with self._guarded("output"):
            self._stores.measure()
            self._stage.measure()
            self._leader.measure()
            await self._refuse_lost_partitions()
            await self._leader.trim()
            self._wake_decide()
            self._wake_put_out()

    # ---- raw events: what the raw consumer says

    async def records(self, batch: Sequence[RawRecords]) -> None:
        """Hand raw records to their agent."""
        await self._raw.send(value=batch)

    def assigned(self, partitions: frozenset[int]) -> None:
        """Open shards."""
        self.metrics.rebalance()
        logger.info("assigned by the group: %s", _named(partitions))
        self._sessions.assigned(partitions)

    async def revoked(self, partitions: frozenset[int]) -> None:
        """Close shards, after the commit that is under way."""
        logger.info("revoked by the group: %s", _named(partitions))
        await self._sessions.revoked(partitions)

    def lost(self, partitions: frozenset[int]) -> None:
        """Close shards that others may own by now."""
        logger.warning("lost, the group has given them to others: %s", _named(partitions))
        self._sessions.lost(partitions)

    def failed(self, error: FirstseenError) -> None:
        """End the worker: it reads no raw records any more."""
        self.fail(error)

    def generation_changed(self) -> None:
        """Commit again what an older generation was refused."""
        self._wake_put_out()

    # ---- the view from beside the worker

    @property
    def ready(self) -> bool:
        """Whether all assigned shards are open, and the log is read to its end."""
        return self._sessions.ready

    @property
    def leads(self) -> bool:
        """Whether this worker is the leader."""
        return self.participant.leads

    @property
    def leader(self) -> str | None:
        """The name of the worker that leads; None where no leader is known."""
        latest = self.participant.replica.latest
        return None if latest is None else latest.leader.rpartition(".")[0]

    @property
    def log_position(self) -> int | None:
        """The offset of the log that is read next; None before reading begins."""
        return self.participant.replica.position if self.participant.shards else None

    def why_not_ready(self) -> str | None:
        """Return what ``ready`` waits for; None where the worker is ready."""
        opening = sorted(self._sessions.opening)
        if opening:
            count = len(opening) + len(self.participant.shards)
            return f"{len(opening)} of {count} shards are being opened: {_named(opening)}"
        if not self._sessions.assigned_once:
            return "no partitions assigned yet"
        if not self.participant.caught_up:
            return "the log is being read to its end"
        return None

    def shards(self) -> Mapping[int, ShardState]:
        """Return the state of each assigned shard, by raw partition. From any thread."""
        recoveries = self._stores.recoveries()
        states = {
            partition: ShardState(
                is_open=False,
                entries=0,
                waiting=0,
                next_offset=0,
                log_position=0,
                recovery_remaining=recoveries[partition].remaining
                if partition in recoveries
                else 0,
            )
            for partition in list(self._sessions.opening)
        }
        for partition, shard in self.participant.shards.copy().items():
            states[partition] = ShardState(
                is_open=True,
                entries=self.participant.index.documents(shard.slot),
                waiting=shard.stream.waiting,
                next_offset=shard.stream.next,
                log_position=shard.stream.committed.needed,
                recovery_remaining=0,
            )
        return dict(sorted(states.items()))

    async def ask(self, content: Content, limit: int) -> Answer:
        """Return what the whole index says of a document, through the log; nothing is kept.

        Raises ``CheckUnavailableError`` where the worker is not ready, and where no leader has
        answered in time.
        """
        why = self.why_not_ready()
        if why is not None:
            raise CheckUnavailableError(f"this worker is not ready: {why}")
        if not self.participant.shards:
            raise CheckUnavailableError("this worker has no shards: ask another worker")
        document = Document("", content.text, SourcePosition("", 0, 0), 0)
        printed = self._fingerprinter.fingerprint(content)
        words = self._fingerprinter.scheme.bits // _WORD_BITS
        query = Query(uuid.uuid4().hex, limit, document_columns([document], [printed], words))
        await self._stage.ask(query)
        deadline = time.monotonic() + _ANSWER_SECONDS
        while (answer := self.participant.answers.pop(query.identifier, None)) is None:
            if time.monotonic() > deadline:
                raise CheckUnavailableError(
                    f"no answer within {_ANSWER_SECONDS:g} s: no worker leads now, or a shard does "
                    "not report (metrics firstseen_leader and firstseen_reports_missing_shards)"
                )
            await asyncio.sleep(_ANSWER_LOOK_SECONDS)
        return answer

    # ---- within

    def _own_report(self, report: Report) -> None:
        self._leader.take_report(report)
        self._wake_decide()

    async def _log_arrived(self, batch: LogRecords) -> None:
        await self._log.send(value=batch)

    async def _reports_arrived(self, batch: LogRecords) -> None:
        await self._reports.send(value=batch)

    async def _reopen(self, why: FirstseenError) -> None:
        await self._sessions.reopen(why)

    def _limit_in_flight(self) -> None:
        """Hold the raw consumer while too much waits, until half of it has gone."""
        limits = self._settings.in_flight
        streams = [shard.stream for shard in self.participant.shards.values()]
        documents = sum(stream.waiting for stream in streams)
        size = sum(stream.waiting_bytes for stream in streams)
        self.metrics.in_flight(documents, size)
        if documents >= limits.documents or size >= limits.bytes:
            held = True
        elif documents <= limits.documents // 2 and size <= limits.bytes // 2:
            held = False
        else:
            return
        if held != self._held:
            self._held = held
            self._consumer.hold(held)

    async def _refuse_lost_partitions(self) -> None:
        """Fail where the raw topic has fewer partitions than the index has shards."""
        decider = self.participant.decider
        since = time.monotonic() - self._partitions_at
        if decider is None or not decider.shards or since < _PARTITIONS_SECONDS:
            return
        self._partitions_at = time.monotonic()
        try:
            partitions = await self._consumer.partitions()
        except BrokerUnavailableError:
            return  # the watch says so, and this is asked again
        lost = sorted(shard for shard in decider.shards if shard >= partitions)
        if lost and partitions:
            self.fail(
                StateMismatchError(
                    f"{self._settings.topics.raw} has {partitions} partitions, but the index has "
                    f"documents of partition {_named(lost)}: the topic was created again with "
                    "fewer. Create it with as many as before, or begin a new index with another "
                    "application_id"
                )
            )

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
