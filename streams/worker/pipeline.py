"""The stages of one worker, and how they are connected.

::

    group member ─► consume, fingerprint ─► order ─► log ─► look up ─► reports
                                              ▲                           │
                                    control records ◄──── decide ◄────────┘
    commit ◄── verdicts read back in the log

Four stages are Faust agents (``streams.worker.app``). The channel of each agent has at most one
event, which only wakes it. Data waits in one place between two stages: raw records in the queues of
shards, log records and reports in their readers, pending records in the streams of shards. All
stages run on the event loop; Kafka clients have their own threads.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Protocol

from simhash_core.errors import FirstseenError
from simhash_core.index.look_up import Nearness
from simhash_core.log import versions
from simhash_core.log.participant import Participant
from simhash_core.log.records import Report
from simhash_core.log.shards import OwnedShard
from simhash_core.text.fingerprinter import Fingerprinter
from streams.errors import BrokerUnavailableError, StateMismatchError
from streams.kafka.log_reader import LogCutError
from streams.monitoring.worker_state import partition_ranges
from streams.settings.settings import HAND_OVER_SECONDS, Delivery, Settings
from streams.store.compaction import KeptShard, SegmentKeeper
from streams.store.row_store import StoreCorruptError
from streams.store.shard_store import ShardStore
from streams.topics.admin import TopicsError
from streams.worker.acquisition import Acquisitions
from streams.worker.assignment import Assignment, AssignmentEvents
from streams.worker.clients import WorkerClients
from streams.worker.commit import CommitEvents, OutputCommits
from streams.worker.consume import Intake
from streams.worker.context import Observers, WorkerContext
from streams.worker.decide import Leader
from streams.worker.fingerprint import PendingRecord, RawBatches
from streams.worker.log_codec import LogCodec
from streams.worker.look_up import LogLookUp, LogReplacedError, LookUpEvents
from streams.worker.order import BUNDLE_BYTES, BundleSender
from streams.worker.outputs import OutputRules
from streams.worker.schema_prefetch import SchemaPrefetch
from streams.worker.shard import Shard
from streams.worker.standbys import Standbys

logger = logging.getLogger(__name__)

_STORES_SECONDS: Final = 5.0  # how often figures of the stores are read: nine per shard,
_STORES_A_SECOND: Final = 25  # and of at most so many stores per second
_SEGMENTS_A_SECOND: Final = 200  # shards that are searched for segments to write or merge
_REPORTED_AGAIN: Final = 64  # bundles that are reported again at once if a report may be lost
_HANDED_OVER_SECONDS: Final = 0.25
_LOOK_SECONDS: Final = 5.0  # how often to check for a new raw topic, or missing partitions,
_LOOKS_A_SECOND: Final = 50  # and at most so many partitions per second


class Channel(Protocol):
    async def send(self, *, value: Any) -> Any:  # noqa: ANN401 - Faust's channels
        ...


class Wake:
    """Wakes an agent; several calls before the agent runs make only one event."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._task: asyncio.Task[Any] | None = None

    def __call__(self) -> None:
        if self._task is None:
            self._task = asyncio.ensure_future(self._channel.send(value=None))

    def awake(self) -> None:
        """Make the next call wake the agent again."""
        self._task = None


class Pipeline:
    """One worker; implements ``GroupEvents``."""

    def __init__(
        self,
        settings: Settings,
        fingerprinter: Fingerprinter,
        rules: OutputRules,
        observers: Observers,
        clients: WorkerClients,
        channels: Sequence[Channel],
        on_failure: Callable[[FirstseenError], object],
        *,
        reads: int = versions.NEWEST,
    ) -> None:
        """Open no connections yet; ``channels`` are in the order of the four agents.

        ``reads`` is the newest version of the formats that this worker reads.
        """
        participant: Participant[PendingRecord] = Participant(
            f"{rules.writer}.{uuid.uuid4().hex[:8]}", Nearness.of(fingerprinter.profile), reads
        )
        codec = LogCodec(rules.identity, fingerprinter.scheme, reads)
        self.context = context = WorkerContext(
            settings, rules, clients, observers, participant, codec, self.fail
        )
        self.participant, self.shards = context.participant, context.shards
        self.metrics = observers.metrics
        self.failure: FirstseenError | None = None
        self._topic, self._log = settings.topics.raw, settings.topics.log
        self._log_id = ""  # "" before it is known
        self._clients = clients
        self._on_failure = on_failure
        self._is_stopping = self._hands_over = False
        self._tasks: set[asyncio.Task[Any]] = set()
        self._is_asking = False
        self._wakes = [Wake(channel) for channel in channels]
        self._wake_intake, self._wake_look_up, self._wake_decide, self._wake_commit = self._wakes
        self.schemas = SchemaPrefetch(settings, self.metrics)
        self.intake = Intake(context, self._wake_intake)
        batches = RawBatches(
            self._topic,
            self.schemas.reader,
            fingerprinter,
            BUNDLE_BYTES,
            self.metrics,
            observers.traces,
        )
        self.sender = BundleSender(context, batches, self.intake)
        self._leader = Leader(context)
        self._look_up = LogLookUp(
            context,
            self.sender,
            LookUpEvents(self._own_report, self._wake_commit, self._wake_look_up),
            self._stores,
        )
        self._acquisitions = Acquisitions(context)
        self.standbys = Standbys(context, self._watch_leader)
        self._commits = OutputCommits(
            context,
            self.intake,
            CommitEvents(
                lambda: self.assignment.begun(),  # noqa: PLW0108 - it is made below
                self._acquisitions.rebalance_began,
                lambda shards, error: self.assignment.reopen(shards, error),  # noqa: PLW0108
            ),
        )
        self.assignment = Assignment(
            context,
            self.standbys,
            self._acquisitions,
            AssignmentEvents(
                self._leader.prepare,
                self._session_began,
                self._shard_opened,
                self._shard_closed,
                self._begin_shards,
                self._commits.without,
                self._wake_all,
                self._keeps_moved,
            ),
        )
        self._segments = SegmentKeeper(self.participant.index)
        self._partitions = 0
        self._looked_at = self._stores_measured_next = self._segments_next = -math.inf

    # ---- start and stop

    async def open(self) -> None:
        clients = self._clients
        try:
            clients.appender.open()
            await clients.committer.open()
            clients.log.open(self._wake_look_up, self.fail)
            clients.reports.open(self._wake_decide, self._reports_failed)
            self.assignment.open()
            self._acquisitions.rebalance_began()  # the group rebalances for the new member
            clients.member.open(self)
            self.standbys.open(self.assignment.join)
        except FirstseenError as error:
            self.fail(error)

    async def close(self) -> None:
        self.interrupt()
        clients = self._clients
        if self._hands_over and self._keeps_moved() and not await self._is_alone():
            await self._hand_over()
        await self.assignment.close()
        # All requests are sent at once, because each waits for its full time-out if the broker is
        # silent.
        await asyncio.gather(
            clients.member.close(),
            clients.log.close(),
            clients.reports.close(),
            clients.appender.close(),
            clients.committer.close(),
        )

    def _keeps_moved(self) -> bool:
        """Return whether verdicts may go on while shards move: not in an archive with a window.

        There the watermark would pass the documents of the partitions that move.
        """
        is_leaving = self._is_stopping and not self._hands_over
        return not (is_leaving or self.failure or self.sender.alignment.reads_archive)

    async def _hand_over(self) -> None:
        """Leave the group, but report for the shards until their next owners have opened them."""
        self.standbys.leaves = True
        await self.assignment.keep_all()
        await self._clients.member.close()
        kept = self.standbys.stores
        logger.info("shards wait for their next owners: %s", partition_ranges(kept.kept) or "none")
        end = time.monotonic() + HAND_OVER_SECONDS
        while kept.kept and time.monotonic() < end:
            await asyncio.sleep(_HANDED_OVER_SECONDS)
            if await self._is_alone():
                return

    async def _is_alone(self) -> bool:
        """Return whether no other worker is known that could open this worker's shards."""
        try:
            members = await self._clients.index.members()
        except BrokerUnavailableError:
            return True
        return not members.keys() - {self.context.rules.writer}

    def interrupt(self, *, hands_over: bool = False) -> None:
        """Stop reading and committing, and make running recoveries end soon.

        ``hands_over``: other workers may get the shards, so ``close`` waits for them. A static
        member does not hand over, because it keeps its partitions for its next process.
        """
        settings = self.context.settings
        can_leave = settings.delivery is Delivery.EXACTLY_ONCE and not settings.group_instance_id
        self._hands_over |= hands_over and can_leave
        self._is_stopping = True
        self.intake.stop()
        self._commits.stop()
        self.assignment.interrupt()

    def fail(self, error: FirstseenError) -> None:
        """Keep the first failure for the exit message, and stop the worker."""
        if self.failure is None and not self._is_stopping:
            self.failure = error
            self._on_failure(error)

    def _reports_failed(self, error: FirstseenError) -> None:
        if isinstance(error, LogCutError):
            self._leader.continue_after(error)
        else:
            self.fail(error)

    # ---- the stages: each runs after an event of its channel

    async def fingerprint(self) -> None:
        self._wake_intake.awake()
        with self._guarded("fingerprint"):
            while batch := self.intake.batch():
                await self.schemas.ready(batch)  # shards may close while this waits
                await self.sender.take_in(batch)
                self._wake_commit()  # records without a document need no verdict
                await asyncio.sleep(0)

    async def look_up(self) -> None:
        self._wake_look_up.awake()
        with self._guarded("lookup"):
            await self._look_up.step()
            self._acquisitions.step()
            if self.participant.decider is not None:
                self._wake_decide()

    async def decide(self) -> None:
        self._wake_decide.awake()
        with self._guarded("decide"):
            self._leader.take_reports()
            await self._leader.decide()

    async def commit(self) -> None:
        self._wake_commit.awake()
        with self._guarded("output"):
            self._acquisitions.step()
            await self._commits.step()
            self._acquisitions.step()

    async def tick(self) -> None:
        """Update metrics and do periodic work; called every second."""
        with self._guarded("output"):
            self.intake.measure()
            if ended := self.intake.end_chains():
                self.assignment.reopen(ended, FirstseenError("its next chain begins"))
            if time.monotonic() >= self._stores_measured_next:
                wait = max(_STORES_SECONDS, len(self.assignment.shards) / _STORES_A_SECOND)
                self._stores_measured_next = time.monotonic() + wait
                self._clients.stores.measure()
                self._commits.measure()
            self.standbys.measure()
            self._look_up.measure()
            self._leader.measure()
            if time.monotonic() >= self._segments_next:
                wait = len(self.assignment.shards) / _SEGMENTS_A_SECOND
                self._segments_next = time.monotonic() + wait
                self._start(self._segments.step(self._kept))
            if self._leader.needs_members:
                self._start(self._leader.update_members())
            self._look_up.report_news()
            if not self._is_asking:
                self._is_asking = True
                self._start(self._query_brokers())
            if self._look_up.is_report_lost():
                self.participant.report_again(_REPORTED_AGAIN)
            for wake in self._wakes:
                wake()

    async def _query_brokers(self) -> None:
        """Do work that waits for brokers; while one is silent, a tick must still wake stages."""
        try:
            await self._look_at_topic()
            await self._leader.trim(self._partitions)
        finally:
            self._is_asking = False

    # ---- GroupEvents

    def fetched(self) -> None:
        self._wake_intake()

    def assigned(self, partitions: frozenset[int], metadata: bytes) -> None:
        """Open shards, and repeat a commit that was refused for its old generation."""
        self._commits.metadata = metadata
        self.sender.alignment.moved()
        self._start(self._clients.index.remember_members())
        if partitions:
            self.metrics.rebalance()
            for partition in partitions:
                self.metrics.watched(self._topic, partition)
            logger.info("assigned by the group: %s", partition_ranges(partitions))
        self.assignment.assigned(partitions)
        self._acquisitions.rebalance_ended()
        self._wake_commit()

    def revoked(self, partitions: frozenset[int], metadata: bytes) -> Awaitable[None]:
        """Close shards at once; the result waits until no commit has any of them."""
        self._rebalance_began(metadata)
        logger.info("revoked by the group: %s", partition_ranges(partitions))
        return self.assignment.revoked(partitions)

    def lost(self, partitions: frozenset[int], metadata: bytes) -> None:
        self._rebalance_began(metadata)
        logger.warning(
            "lost, the group has assigned them to other workers: %s", partition_ranges(partitions)
        )
        self.assignment.lost(partitions)

    def _rebalance_began(self, metadata: bytes) -> None:
        self._commits.metadata = metadata
        self._acquisitions.rebalance_began()
        self.sender.alignment.moved()

    def failed(self, error: FirstseenError) -> None:
        self.fail(error)

    # ---- events of the parts

    def _session_began(self, offset: int) -> None:
        self._look_up.begin(offset)
        self._wake_all()

    def _shard_opened(self, shard: Shard) -> None:
        assert shard.progress is not None
        self.intake.begin(shard, shard.progress.next)

    def _shard_closed(self, shard: Shard) -> None:
        self.intake.end(shard)
        if (traces := self.context.observers.traces) is not None:
            traces.drop(shard.partition)

    def _begin_shards(self, shards: Iterable[Shard]) -> None:
        self._commits.begin(shards)
        self._wake_commit()

    def _wake_all(self) -> None:
        self._wake_look_up()
        self._wake_decide()
        self._wake_commit()

    def _own_report(self, report: Report) -> None:
        self._leader.take_report(report)
        self._wake_decide()

    async def _watch_leader(self) -> None:
        if self._leader.is_missing and await self._leader.fail_over():
            self._wake_decide()

    def _open_shards(self) -> list[tuple[Shard, OwnedShard[PendingRecord], ShardStore]]:
        return [
            (shard, shard.owned, shard.store)
            for shard in self.shards.values()
            if shard.owned is not None and shard.store is not None
        ]

    def _stores(self) -> list[ShardStore]:
        owned = (store for _, _, store in self._open_shards())
        return [*owned, *self.standbys.stores.open_stores()]

    def rebuild(self, damage: StoreCorruptError) -> bool:
        """Refill the shard or standby whose store is damaged; return False if there is none."""
        for shard in list(self.shards.values()):
            if shard.store is not None and shard.store.path == damage.path:
                logger.error("shard %d is rebuilt from its changelog: %s", shard.partition, damage)
                shard.store.mark_damaged(damage)
                self.assignment.reopen([shard], damage)
                break
        else:
            if not self.standbys.stores.drop_damaged(damage):
                return False
        self.participant.look_up_again()  # the error may have interrupted a look-up
        self._wake_all()
        return True

    def _kept(self) -> list[KeptShard]:
        kept = [
            KeptShard(owned.slot, store, segments, removed=owned.copy.removed)
            for _, owned, store in self._open_shards()
            if (segments := store.segments) is not None
        ]
        return [*kept, *self.standbys.stores.to_compact()]

    async def _look_at_topic(self) -> None:
        """Reopen shards of a recreated raw topic.

        Raises ``StateMismatchError`` if it has fewer partitions, and ``LogReplacedError``.
        """
        wait = max(_LOOK_SECONDS, self._partitions / _LOOKS_A_SECOND)
        if time.monotonic() - self._looked_at < wait:
            return
        opened = [shard for shard, _, _ in self._open_shards()]
        if not opened:
            return
        self._looked_at = time.monotonic()
        index = self._clients.index
        try:
            partitions = self._partitions = await index.partitions()
            self.sender.alignment.partitions = partitions
            topic_id = await index.topic_id()
            log_id = await index.log_id()
        except (BrokerUnavailableError, TopicsError):
            return  # ``WorkerWatch`` logs it, and the next tick tries again
        # A young log may have as many records as before, so its reader would notice nothing.
        if self._log_id and log_id and log_id != self._log_id:
            raise LogReplacedError(self._log, "was deleted and created again while it was used")
        self._log_id = log_id or self._log_id
        others = [  # of shards that are still open
            shard
            for shard in opened
            if shard.owned is not None and not shard.owned.stream.chain.is_of(topic_id)
        ]
        if others:
            why = FirstseenError(f"{self._topic} was deleted and created again")
            self.assignment.reopen(others, why)
            return
        decider = self.participant.decider
        missing = [] if decider is None else [s for s in sorted(decider.shards) if s >= partitions]
        if missing and partitions:
            raise StateMismatchError(
                f"{self._topic} has {partitions} partitions, but the index has documents of "
                f"partition {partition_ranges(missing)}: the topic was created again with fewer. "
                "Create it with as many as before, or start a new index with another application_id"
            )

    def _start(self, work: Coroutine[Any, Any, object]) -> None:
        """Run a background task; its error stops the worker, unless the broker is unavailable."""

        async def guarded() -> None:
            try:
                await work
            except BrokerUnavailableError as error:
                logger.debug("to be retried: %s", error)
            except FirstseenError as error:
                self.fail(error)

        task = asyncio.ensure_future(guarded())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    @contextmanager
    def _guarded(self, stage: str) -> Iterator[None]:
        """Keep a stage's first failure for the exit message; rebuild a store that is damaged."""
        try:
            with self.metrics.failures(stage):
                yield
        except FirstseenError as error:
            if isinstance(error, StoreCorruptError) and self.rebuild(error):
                return
            self.failure = self.failure or error
            raise
