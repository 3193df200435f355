"""A worker process: builds all parts of a worker, and runs it until a signal or a failure."""

from __future__ import annotations

import asyncio
import gc
import logging
import math
import os
import threading
import uuid
from typing import TYPE_CHECKING, Final, NamedTuple

import faust

from simhash_core.log import versions
from simhash_core.text.fingerprinter import Fingerprinter
from simhash_core.text.profiles import index_digest
from streams.errors import BrokerUnavailableError, ExitCode, report
from streams.kafka.client_config import (
    appender_config,
    changelog_group,
    client_config,
    log_reader_config,
    output_config,
    raw_consumer_config,
)
from streams.kafka.clients import AdminClient
from streams.kafka.connection import connect_admin
from streams.kafka.errors import Retries
from streams.kafka.log_reader import LogReader
from streams.kafka.producers import AcknowledgedSends, Appender, SendThread
from streams.kafka.raw_consumer import RawConsumer
from streams.kafka.transactions import OutputTransactions
from streams.monitoring.clock_watch import ClockWatch
from streams.monitoring.group_watch import GroupWatch
from streams.monitoring.health import Health
from streams.monitoring.metrics import IndexInfo, Metrics
from streams.monitoring.worker_watch import LoopBeat, TransactionWatch, WatchedTopics, WorkerWatch
from streams.ops_page.duplicates import RecentDocuments
from streams.ops_page.server import OpsPage, OpsServer
from streams.ops_page.status import FullestBuckets, Monitored
from streams.settings.settings import Delivery, Settings, TraceExport
from streams.store.changelog import ChangelogFollower
from streams.store.recovery import ShardStores
from streams.store.shard_directory import make_state_directory
from streams.topics.admin import TopicsError, can_administer
from streams.topics.checking import (
    SyncCopies,
    check,
    output_retentions,
    refuse_missing_permissions,
    session_notes,
)
from streams.topics.consumer_group import GroupReader
from streams.topics.plans import topic_plans
from streams.topics.watermarks import BrokerWatermarks, partitions_to_check
from streams.worker.app import add_agents, create_app, create_channels
from streams.worker.clients import OutputCommitter, WorkerClients
from streams.worker.context import Observers
from streams.worker.index_on_kafka import GroupOwners, IndexOnKafka, reading_rules
from streams.worker.outputs import OutputRules
from streams.worker.pipeline import Pipeline
from streams.worker.status import PipelineView

if TYPE_CHECKING:
    from streams.worker.traces import DocumentTraces

logger = logging.getLogger(__name__)

_WATCH_SECONDS: Final = 5.0  # the longest wait for lag, group members, and copies of topics
_AGAIN_SECONDS: Final = 0.5  # between two attempts of a request without a response
_COLLECTED_OBJECTS: Final = 50_000  # new objects between two runs of the garbage collector


def run_worker(settings: Settings) -> int:
    """Run a worker in the main thread until a signal stops it; return its exit code.

    Raises ``FirstseenError`` if the worker cannot start, and for the failure that stops it.
    """
    make_state_directory(settings)
    with ClockWatch(_end_set_back), OpsServer(settings) as server:
        return _run(settings, server)


def _end_set_back(seconds: float) -> None:
    """End the process at once: its Kafka clients stand still, so it cannot leave its group."""
    logger.error(
        "the clock of this machine was set back by %.0f s, and the Kafka client would stand still "
        "for as long: this worker ends with code %d, and nothing is lost. Start it again",
        seconds,
        ExitCode.RUNTIME,
    )
    os._exit(ExitCode.RUNTIME)


def _run(settings: Settings, server: OpsServer) -> int:
    limits = _await_topics(settings)
    profile = settings.index_profile()
    fingerprinter = Fingerprinter(profile)
    identity, reading = fingerprinter.identity, reading_rules(settings)
    logger.info("index %s: %s", index_digest(identity), identity)
    # A static member keeps its name, so its next process aborts the transaction of this one.
    life = settings.group_instance_id or uuid.uuid4().hex[:12]
    writer = f"{settings.application_id}.{life}"
    index = IndexOnKafka(settings, identity, reading, writer)
    # This must happen before the worker joins the group or sends anything.
    _until_answered(settings)(index.refuse_mismatch)
    index_info = IndexInfo(
        index_digest(identity),
        settings.application_id,
        settings.profile,
        settings.delivery,
        settings.mode,
    )
    metrics = Metrics(index=index_info)
    recent = RecentDocuments(settings.web.recent_bytes if settings.web.serves_data else 0)
    fullest = FullestBuckets()
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    app = create_app(settings)
    channels = create_channels(app)
    rules = OutputRules(
        identity,
        reading,
        writer,
        fingerprinter.scheme.bits,
        settings.topics,
        settings.include_body,
        settings.application_id,
        settings.web.page_url,
        limits.retention_ms,
        settings.mode,
        limits.output_partitions,
        fingerprinter.profile.replaces_expired,
    )
    clients = _connect(settings, rules, index, metrics)
    traces = _traces(settings, writer)
    pipeline = Pipeline(
        settings,
        fingerprinter,
        rules,
        Observers(metrics, recent, fullest.note, traces),
        clients,
        channels,
        lambda error: app.add_future(app.crash(error)),
        reads=versions.NEWEST,
    )
    view = PipelineView(pipeline, clients.stores, fingerprinter)
    health = Health(settings.stall_seconds, lambda: pipeline.failure)
    add_agents(app, channels, pipeline)
    # The order matters: if ``note_waits`` fails, ``health`` must not get a beat.
    LoopBeat(loop, metrics.event_loop_lag, (view.note_waits, health.beat))
    reader = GroupReader(
        client_config(settings), settings.application_id, settings.topics.raw, _WATCH_SECONDS
    )
    group = GroupWatch(reader.read)
    monitored = Monitored(
        view, metrics, health, recent, fullest, index_info, profile, writer, group
    )
    watch = WorkerWatch(
        view,
        WatchedTopics(
            settings.topics.raw,
            settings.topics.log,
            settings.topics.changelog,
            SyncCopies(client_config(settings), limits.min_in_sync, _WATCH_SECONDS),
            limits.transactions,
        ),
        BrokerWatermarks(client_config(settings), settings.application_id, _WATCH_SECONDS),
        health,
        metrics,
        settings.state_path(),
        settings.stall_seconds,
        group,
    )
    # Everything loaded until now stays, so the collector can skip it. Objects of pending documents
    # are released before the threshold is reached.
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECTED_OBJECTS)
    server.open(OpsPage(settings, monitored, loop, pipeline.schemas.reader))
    with watch:
        if server.url is not None:
            served = (
                "pages" if settings.web.serves_data else "health and metrics, without the page,"
            )
            logger.info("%s of this worker: %s", served, server.url)
        code = _Worker(app, pipeline, settings.stop_seconds, loop=loop).run()
        pipeline.interrupt()  # otherwise the exit would wait for a recovery in its thread
        if traces is not None:
            traces.close()
    if pipeline.failure is not None:
        raise pipeline.failure
    logger.info("stopped: exit code %d", code)
    return code


def _traces(settings: Settings, writer: str) -> DocumentTraces | None:
    if settings.traces is TraceExport.OFF:
        return None
    from streams.worker.traces import document_traces  # noqa: PLC0415 - it needs the extra `otel`

    return document_traces(settings, writer)


def _connect(
    settings: Settings, rules: OutputRules, index: IndexOnKafka, metrics: Metrics
) -> WorkerClients:
    topics = settings.topics
    member = RawConsumer(
        raw_consumer_config(settings, rules.writer),
        topics.raw,
        poll_records=settings.batch.documents,
    )
    committer: OutputCommitter
    if settings.delivery is Delivery.EXACTLY_ONCE:
        committer = OutputTransactions(
            output_config(settings),
            rules.writer,
            source_topic=topics.raw,
            changelog_topic=topics.changelog,
            timeout_seconds=settings.session_timeout_seconds,
            answer_seconds=settings.send_timeout_seconds,
        )
    else:
        client = SendThread(
            output_config(settings),
            changelog_topic=topics.changelog,
            answer_seconds=settings.send_timeout_seconds,
        )
        committer = AcknowledgedSends(client, member.commit, changelog_topic=topics.changelog)
    changelog_config = client_config(settings, group_id=changelog_group(settings))
    return WorkerClients(
        member,
        LogReader(log_reader_config(settings), topics.log),
        LogReader(log_reader_config(settings), topics.reports),
        Appender(appender_config(settings)),
        committer,
        index,
        ShardStores(settings, changelog_config, rules.identity, index.changelog_id(), metrics),
        lambda deliver: ChangelogFollower(changelog_config, topics.changelog, deliver),
        GroupOwners(settings, rules.writer).read,
    )


class _TopicLimits(NamedTuple):
    """The broker's settings of each output topic, and whether it has transactions."""

    retention_ms: dict[str, int]
    output_partitions: int  # of the topic with the most
    min_in_sync: dict[str, int]
    transactions: TransactionWatch | None  # None if the broker has none


def _await_topics(settings: Settings) -> _TopicLimits:
    """Wait for a broker, and check the topics.

    Raises ``BrokerUnavailableError`` after the limit of the wait, if there is one, ``TopicsError``
    if topics are missing or wrong, ``SettingsError`` if the user lacks permissions.
    """
    connect_admin(settings, settings.broker_wait_seconds, logger.warning)
    return _until_answered(settings)(_checked_topics, settings)


def _until_answered(settings: Settings) -> Retries:
    """Return a caller that retries requests without a response, for ``broker_wait_seconds``.

    A broker that fails or is cut off is replaced after its session of some seconds. Until then
    requests to this broker may get no response, although other brokers respond.
    """
    seconds = settings.broker_wait_seconds
    return Retries(math.inf if seconds is None else seconds, _AGAIN_SECONDS, _is_unanswered)


def _is_unanswered(error: BaseException) -> bool:
    if not isinstance(error, BrokerUnavailableError):
        return False
    logger.warning("waiting for the Kafka brokers before the next try: %s", error)
    return True


def _checked_topics(settings: Settings) -> _TopicLimits:
    # This needs its own client, because one that lost its broker may wait for a controller for ever
    # (2.16).
    admin = AdminClient(client_config(settings))
    if settings.delivery is Delivery.EXACTLY_ONCE and not can_administer(admin):
        raise TopicsError(
            "delivery is exactly_once, but this broker has no transactions that hide what is not "
            "committed (librdkafka's in-process broker has none): set delivery=at_least_once"
        )
    plans = topic_plans(settings)
    checked = check(admin, plans)
    if checked.differences:
        raise TopicsError("\n  ".join(["the topics do not fit:", *map(str, checked.differences)]))
    for note in (*checked.notes, *session_notes(admin, settings)):
        logger.warning("%s", note)
    transactions: TransactionWatch | None = None
    if can_administer(admin):
        refuse_missing_permissions(admin, settings)
        outputs = partitions_to_check(admin, settings.output_topics, settings.application_id)
        sources = (settings.topics.raw, settings.topics.changelog)
        transactions = TransactionWatch(sources, outputs)
    durable = {plan.name for plan in plans if plan.is_durable}
    return _TopicLimits(
        output_retentions(admin, plans),
        max(each.partitions for each in checked.states if each.topic in settings.output_topics),
        {state.topic: state.min_in_sync or 1 for state in checked.states if state.topic in durable},
        transactions,
    )


class _Worker(faust.Worker):
    """Faust's worker, but without its logging, its terminal spinner and its exit."""

    def __init__(
        self,
        app: faust.App,
        pipeline: Pipeline,
        exit_seconds: float,
        *,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        super().__init__(app, quiet=True, redirect_stdouts=False, override_logging=False, loop=loop)
        self.spinner = None
        self._pipeline = pipeline
        self._stopped_by: ExitCode | None = None
        self._exit_seconds = exit_seconds
        self._shutdown_watchdog = threading.Timer(self._exit_seconds, self._end_now)
        self._shutdown_watchdog.daemon = True

    def run(self) -> int:
        """Run until stopped; return the exit code, which is 0 after SIGTERM."""
        try:
            self.execute_from_commandline()
        except SystemExit as exit_:
            code = exit_.code
        except asyncio.CancelledError:
            # A signal cancelled an agent, or a failure did; the pipeline then has the failure.
            code = ExitCode.RUNTIME
        finally:
            self._shutdown_watchdog.cancel()
        if self._stopped_by is not None:
            return self._stopped_by
        return code if isinstance(code, int) else ExitCode.RUNTIME

    def on_worker_shutdown(self) -> None:
        super().on_worker_shutdown()
        self._shutdown_watchdog.start()

    def _end_now(self) -> None:
        """End the process if the broker does not confirm in time that this worker left its group.

        Nothing is lost: everything that counts is committed, or will be repeated, as after SIGKILL.
        """
        logger.warning(
            "the broker did not confirm within %g s that this worker left the group; it ends "
            "anyway, and nothing is lost",
            self._exit_seconds,
        )
        os._exit(self._exit_code())

    def _exit_code(self) -> int:
        if self._stopped_by is None and self._pipeline.failure is not None:
            return report(self._pipeline.failure)
        if self._stopped_by is ExitCode.OK:
            return ExitCode.TERMINATED  # the stop was not clean
        return self._stopped_by or ExitCode.RUNTIME

    def _on_sigint(self) -> None:
        self._stopped_by = ExitCode.INTERRUPTED
        logger.info("stopping: SIGINT; the current batch is completed first")
        self._pipeline.interrupt()
        super()._on_sigint()

    def _on_sigterm(self) -> None:
        self._stopped_by = ExitCode.OK
        logger.info("stopping: SIGTERM; the current batch is completed first")
        self._pipeline.interrupt(hands_over=True)
        super()._on_sigterm()

    async def _sentinel_task(self) -> None:
        """Skip Faust's sleep of one second at the end."""

    def _setproctitle(self, info: str, *, ident: str = "") -> None:
        """Keep the title of the process: operators look for the command that they started."""
