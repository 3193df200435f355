"""A worker process: everything is put together here, and run until a signal or a failure."""

from __future__ import annotations

import asyncio
import gc
import logging
import uuid
from typing import Final, NamedTuple

import faust
from confluent_kafka.admin import AdminClient

from simhash_core.index_digest import index_digest
from simhash_core.text.fingerprinter import Fingerprinter
from streams.app import add_agents, create_app, create_channels
from streams.exit_codes import ExitCode, report
from streams.exit_deadline import ExitDeadline
from streams.kafka.client_config import admin_config
from streams.kafka.connection import connect_admin
from streams.monitoring.group_watch import GroupWatch
from streams.monitoring.health import Health
from streams.monitoring.metrics import IndexInfo, Metrics
from streams.monitoring.transaction_watch import TransactionWatch
from streams.monitoring.worker_watch import WatchedTopics, WorkerWatch
from streams.ops_page.fullest_buckets import FullestBuckets
from streams.ops_page.page import OpsPage
from streams.ops_page.recent_documents import RecentDocuments
from streams.ops_page.server import OpsServer
from streams.ops_page.status import Monitored
from streams.ordering.index_on_kafka import IndexOnKafka
from streams.output.output_batch import OutputRules
from streams.pipeline import Observers, Pipeline
from streams.settings.reading_rules import reading_rules
from streams.settings.settings import Delivery, Settings
from streams.topics.admin import TopicsError, can_administer
from streams.topics.checking import check, output_retentions
from streams.topics.group_state import GroupReader
from streams.topics.open_transactions import partitions_to_check
from streams.topics.permissions import refuse_missing_permissions
from streams.topics.plans import topic_plans
from streams.topics.sync_copies import SyncCopies
from streams.topics.watermarks import BrokerWatermarks

logger = logging.getLogger(__name__)

_LEAVE_SECONDS: Final = 5.0
_WATCH_SECONDS: Final = 5.0
"""The longest wait for an answer to the question for lag."""
_COLLECTED_OBJECTS: Final = 50_000
"""The garbage collector looks at new objects when there are so many."""


def run_worker(settings: Settings) -> int:
    """Run a worker in the main thread until a signal stops it; return its exit code.

    Raises ``FirstseenError`` for what keeps it from starting, and for what it failed of.
    """
    limits = _await_topics(settings)
    settings.state_path().mkdir(parents=True, exist_ok=True)
    profile = settings.index_profile()
    fingerprinter = Fingerprinter(profile)
    identity, reading = fingerprinter.identity, reading_rules(settings)
    logger.info("index %s: %s", index_digest(identity), identity)
    # A static member keeps its name: so its next life aborts what this one leaves open.
    life = settings.group_instance_id or uuid.uuid4().hex[:12]
    writer = f"{settings.application_id}.{life}"
    index = IndexOnKafka(settings, identity, reading, writer)
    index.refuse_other_settings()  # before the group is joined, or anything is sent
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
        settings.web.page_url,
        limits.retention_ms,
        settings.mode,
    )
    pipeline = Pipeline(
        settings,
        fingerprinter,
        index,
        rules,
        Observers(metrics, recent, fullest.note),
        channels,
        lambda error: app.add_future(app.crash(error)),
    )
    health = Health(settings.stall_seconds, lambda: pipeline.failure)
    add_agents(app, channels, pipeline, health)
    group = GroupWatch(
        GroupReader(
            admin_config(settings),
            settings.application_id,
            settings.topics.raw,
            _WATCH_SECONDS,
        )
    )
    monitored = Monitored(
        pipeline.view, metrics, health, recent, fullest, index_info, profile, writer, group
    )
    page = OpsPage(settings, monitored, loop, pipeline.schemas.reader)
    watch = WorkerWatch(
        pipeline.view,
        WatchedTopics(
            settings.topics.raw,
            settings.topics.log,
            SyncCopies(admin_config(settings), limits.min_in_sync, _WATCH_SECONDS),
            limits.transactions,
        ),
        BrokerWatermarks(admin_config(settings), settings.application_id, _WATCH_SECONDS),
        health,
        metrics,
        settings.state_path(),
        settings.stall_seconds,
        group,
    )
    # What was loaded so far stays: the collector need not walk through it again and again. And
    # what belongs to documents under way is gone before so many objects were made.
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECTED_OBJECTS)
    with OpsServer(settings, page) as server, watch:
        if server.url is not None:
            served = "pages" if settings.web.serves_data else "health and metrics, no page,"
            logger.info("%s of this worker: %s", served, server.url)
        code = _Worker(app, pipeline, settings.send_timeout_seconds, loop=loop).run()
        pipeline.interrupt()  # a recovery that still runs in its thread would be waited for
    if pipeline.failure is not None:
        raise pipeline.failure
    logger.info("stopped: exit code %d", code)
    return code


class _TopicLimits(NamedTuple):
    """By topic, ``retention_ms`` of outputs (``output_retentions``) and ``min.insync.replicas``.

    ``transactions``: what watches those that are open; None where the broker has none.
    """

    retention_ms: dict[str, int]
    min_in_sync: dict[str, int]
    transactions: TransactionWatch | None


def _await_topics(settings: Settings) -> _TopicLimits:
    """Wait for a broker, and check the topics.

    Raises ``BrokerUnavailableError`` when the wait has a limit and it is over, ``TopicsError`` for
    topics that are not there or not as they must be, ``SettingsError`` for a user who may not do
    what a worker does.
    """
    admin = connect_admin(settings, settings.broker_wait_seconds, logger.warning)
    if settings.delivery is Delivery.EXACTLY_ONCE and not can_administer(admin):
        raise TopicsError(
            "delivery is exactly_once, but this broker has no transactions that hide what is not "
            "committed (librdkafka's in-process broker has none): set delivery=at_least_once"
        )
    plans = topic_plans(settings)
    checked = check(admin, plans)
    if checked.differences:
        raise TopicsError("\n  ".join(["the topics do not fit:", *map(str, checked.differences)]))
    for note in checked.notes:
        logger.warning("%s", note)
    if can_administer(admin):
        refuse_missing_permissions(admin, settings)
    durable = {plan.name for plan in plans if plan.is_durable}
    return _TopicLimits(
        output_retentions(admin, plans),
        {state.topic: state.min_in_sync or 1 for state in checked.states if state.topic in durable},
        _transaction_watch(admin, settings) if can_administer(admin) else None,
    )


def _transaction_watch(admin: AdminClient, settings: Settings) -> TransactionWatch:
    """Return what watches raw topic and changelog by shard, the outputs and the group's offsets."""
    outputs = partitions_to_check(admin, settings.output_topics, settings.application_id)
    return TransactionWatch((settings.topics.raw, settings.topics.changelog), outputs)


class _Worker(faust.Worker):
    """Faust's worker without its logging, its terminal spinner and its own exit."""

    def __init__(
        self,
        app: faust.App,
        pipeline: Pipeline,
        send_timeout_seconds: float,
        *,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        super().__init__(app, quiet=True, redirect_stdouts=False, override_logging=False, loop=loop)
        self.spinner = None
        self._pipeline = pipeline
        self._stopped_by: ExitCode | None = None
        # A batch under way may wait for all of the first, and is waited for.
        self._deadline = ExitDeadline(send_timeout_seconds + _LEAVE_SECONDS, self._last_words)

    def run(self) -> int:
        """Run until stopped; return the exit code: 0 after SIGTERM, which is how a worker ends."""
        try:
            self.execute_from_commandline()
        except SystemExit as exit_:
            code = exit_.code
        except asyncio.CancelledError:
            # An agent was cut short: because of a signal, or of a failure that the pipeline keeps.
            code = ExitCode.RUNTIME
        finally:
            self._deadline.lift()
        if self._stopped_by is not None:
            return self._stopped_by
        return code if isinstance(code, int) else ExitCode.RUNTIME

    def on_worker_shutdown(self) -> None:
        """Begin to end: after a signal, or after a failure."""
        super().on_worker_shutdown()
        self._deadline.begin()

    def _last_words(self) -> int:
        if self._stopped_by is None and self._pipeline.failure is not None:
            return report(self._pipeline.failure)
        if self._stopped_by is ExitCode.OK:
            return ExitCode.TERMINATED  # it did not end in time: no clean stop
        return self._stopped_by or ExitCode.RUNTIME

    def _on_sigint(self) -> None:
        self._stopped_by = ExitCode.INTERRUPTED
        logger.info("stopping: SIGINT; the batch under way is ended first")
        self._pipeline.interrupt()
        super()._on_sigint()

    def _on_sigterm(self) -> None:
        self._stopped_by = ExitCode.OK
        logger.info("stopping: SIGTERM; the batch under way is ended first")
        self._pipeline.interrupt()
        super()._on_sigterm()

    async def _sentinel_task(self) -> None:
        """Do not sleep for a second at the end: everything of ours has been waited for by then."""

    def _setproctitle(self, info: str, *, ident: str = "") -> None:
        """Leave the process's title: operators look for the command that they started."""
