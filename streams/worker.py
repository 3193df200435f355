"""A worker process: everything is put together here, and run until a signal or a failure."""

from __future__ import annotations

import asyncio
import logging
from typing import Final, cast

import faust
from aiokafka.errors import KafkaConnectionError
from confluent_kafka.admin import AdminClient

from simhash_core.fingerprinter import Fingerprinter
from simhash_core.placement import Placement
from streams.acked_producer import AckedProducer
from streams.app import create_app
from streams.broker_connection import connect_admin
from streams.broker_watermarks import BrokerWatermarks
from streams.committed_transport import CommittedTransport
from streams.delivery import AtLeastOnce, Delivery, ExactlyOnce
from streams.errors import BrokerUnavailableError
from streams.exit_codes import ExitCode, report
from streams.exit_deadline import ExitDeadline
from streams.fingerprint_stage import FingerprintStage
from streams.health import Health
from streams.kafka_config import librdkafka_config
from streams.metrics import IndexInfo, Metrics
from streams.ops_page.page import OpsPage
from streams.ops_page.recent_documents import RecentDocuments
from streams.ops_page.status import Monitored
from streams.ops_server import OpsServer
from streams.ordered_intake import OrderedIntake
from streams.outbox import OutboxRules
from streams.output.output_records import OutputKind
from streams.packet_codec import PacketCodec
from streams.permissions import refuse_missing_permissions
from streams.pipeline import Pipeline
from streams.raw_documents import DocumentReader
from streams.settings import Delivery as DeliveryMode
from streams.settings import Settings
from streams.shard_tables import ShardTables
from streams.shard_worker import ShardWorker
from streams.topic_ids import TopicIdAsker, TopicIds
from streams.topic_plans import topic_plans
from streams.topics import (
    TopicsError,
    can_administer,
    check,
    partitions_of,
)
from streams.transactions import ShardTransactions
from streams.worker_watch import WorkerWatch

logger = logging.getLogger(__name__)

_SEND_TRIES: Final = 5
_LEAVE_SECONDS: Final = 5.0
_WATCH_SECONDS: Final = 5.0
"""The longest wait for an answer to the question for lag."""


def run_worker(settings: Settings) -> int:
    """Run a worker in the main thread until it is told to stop; return its exit code.

    Raises ``FirstseenError`` for what keeps it from starting, and for what it failed of.
    """
    return _run(settings, _await_topics(settings))


def _run(settings: Settings, partitions: int) -> int:
    """Run a worker whose topics have been seen; ``partitions``: of the probes."""
    settings.state_path().mkdir(parents=True, exist_ok=True)
    parts = _build_pipeline(settings, partitions)
    pipeline = parts.pipeline
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    health = parts.health
    app = create_app(settings, pipeline, health)
    watch = _watch(settings, pipeline, cast(CommittedTransport, app.transport).intake, health)
    page = OpsPage(settings, parts, loop)
    with OpsServer(settings, pipeline, health, page) as server, watch:
        if server.url is not None:
            served = "pages" if settings.web.serves_data else "health and metrics, no page,"
            logger.info("%s of this worker: %s", served, server.url)
        code = _Worker(app, pipeline, settings.send_timeout_seconds, loop=loop).run()
        pipeline.interrupt()  # a recovery that still runs in its thread would be waited for
    if pipeline.failure is not None:
        raise pipeline.failure
    logger.info("stopped: exit code %d", code)
    return code


def _watch(
    settings: Settings, pipeline: Pipeline, intake: OrderedIntake, health: Health
) -> WorkerWatch:
    """Return what looks at the worker from beside it."""
    return WorkerWatch(
        intake.positions,
        pipeline.opening,
        BrokerWatermarks(librdkafka_config(settings), settings.application_id, _WATCH_SECONDS),
        health,
        pipeline.metrics,
        settings.state_path(),
        settings.stall_seconds,
    )


def _await_topics(settings: Settings) -> int:
    """Wait for a broker, check the topics, return the number of shards.

    Raises ``BrokerUnavailableError`` when the wait has a limit and it is over, ``TopicsError`` for
    topics that are not there or not as they must be, ``SettingsError`` for a user who may not do
    what a worker does.
    """
    admin = connect_admin(settings, settings.broker_wait_seconds, logger.warning)
    if settings.delivery is DeliveryMode.EXACTLY_ONCE and not can_administer(admin):
        raise TopicsError(
            "delivery is exactly_once, but this broker has no transactions that hide what is not "
            "committed (librdkafka's in-process broker has none): set delivery=at_least_once"
        )
    differences = check(admin, topic_plans(settings))
    if differences:
        raise TopicsError("the topics do not fit:\n  " + "\n  ".join(map(str, differences)))
    if can_administer(admin):
        refuse_missing_permissions(admin, settings)
    return partitions_of(admin, [settings.topics.probes])[settings.topics.probes]


def _build_pipeline(settings: Settings, partitions: int) -> Monitored:
    """Put a pipeline together for a probes topic of ``partitions`` partitions."""
    profile = settings.index_profile()
    fingerprinter = Fingerprinter(profile)
    identity = fingerprinter.identity
    logger.info("index identity: %s", identity)
    placement = Placement(fingerprinter.scheme, partitions)
    confirmation = fingerprinter.confirmation
    index_info = IndexInfo(
        identity, settings.application_id, settings.profile, settings.delivery, partitions
    )
    metrics = Metrics(index=index_info)
    recent = RecentDocuments(settings.web.recent_bytes if settings.web.serves_data else 0)
    # Shards know the messages that they have had, so what is sent twice counts once.
    producer = AckedProducer(
        librdkafka_config(settings), settings.send_timeout_seconds, tries=_SEND_TRIES
    )
    tables = ShardTables(settings, identity, placement, metrics)
    topics = settings.topics
    rules = OutboxRules(
        identity=identity,
        bits=placement.scheme.bits,
        codec=PacketCodec(identity, partitions),
        output_topics={
            OutputKind.UNIQUE: topics.unique,
            OutputKind.DUPLICATE_OF: topics.duplicates,
            OutputKind.DEAD_LETTER: topics.dead_letters,
        },
        probes_topic=topics.probes,
        packet_bytes=settings.batch.packet_bytes,
        include_body=settings.include_body,
    )

    def new_shard(partition: int) -> ShardWorker:
        return ShardWorker(
            partition,
            placement,
            confirmation,
            _delivery(settings, producer, partition),
            tables.open,
            rules,
            metrics,
            recent,
        )

    stage = FingerprintStage(
        DocumentReader(settings.fields, settings.max_record_bytes),
        fingerprinter,
        placement,
        settings.batch.packet_bytes,
        metrics,
    )
    transactions = settings.delivery is DeliveryMode.EXACTLY_ONCE
    ask = TopicIdAsker(lambda: AdminClient(librdkafka_config(settings)), has_ids=transactions)
    pipeline = Pipeline(
        stage=stage,
        topic_ids=TopicIds(ask, _SEND_TRIES * settings.send_timeout_seconds),
        producer=producer,
        rules=rules,
        new_shard=new_shard,
        session_timeout_seconds=settings.session_timeout_seconds,
        metrics=metrics,
    )
    pipeline.measure = tables.measure
    return Monitored(
        pipeline=pipeline,
        health=Health(settings.stall_seconds, lambda: pipeline.failure),
        recent=recent,
        fullest=tables.fullest,
        recoveries=tables.recoveries,
        index_info=index_info,
        profile=profile,
    )


def _delivery(settings: Settings, shared: AckedProducer, partition: int) -> Delivery:
    """Return how the batches of a shard are committed."""
    if settings.delivery is DeliveryMode.AT_LEAST_ONCE:
        return AtLeastOnce(shared)
    transactions = ShardTransactions(
        librdkafka_config(settings),
        f"{settings.application_id}.shard-{partition}",
        timeout_seconds=settings.send_timeout_seconds,
    )
    return ExactlyOnce(transactions, settings.topics.changelog, partition)


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
        """Run until stopped; return the exit code, that of the signal where one stopped it."""
        try:
            self.execute_from_commandline()
        except SystemExit as exit_:
            code = exit_.code
        except asyncio.CancelledError:
            # An agent was cut short: because of a signal, or of a failure that the pipeline keeps.
            code = ExitCode.RUNTIME
        finally:
            self._deadline.lift()
        return self._stopped_by or (code if isinstance(code, int) else ExitCode.RUNTIME)

    async def start(self) -> None:
        """Start; a broker that went away since it was waited for is no error of ours."""
        try:
            await super().start()
        except KafkaConnectionError as error:
            self._pipeline.failure = BrokerUnavailableError(
                f"the Kafka broker went away while the worker started: {error}"
            )
            raise

    def on_worker_shutdown(self) -> None:
        """Begin to end: told to stop, or after a failure."""
        super().on_worker_shutdown()
        self._deadline.begin()

    def _last_words(self) -> int:
        if self._stopped_by is None and self._pipeline.failure is not None:
            return report(self._pipeline.failure)
        return self._stopped_by or ExitCode.RUNTIME

    def _on_sigint(self) -> None:
        self._stopped_by = ExitCode.INTERRUPTED
        logger.info("stopping: SIGINT; the batch under way is ended first")
        self._pipeline.interrupt()
        super()._on_sigint()

    def _on_sigterm(self) -> None:
        self._stopped_by = ExitCode.TERMINATED
        logger.info("stopping: SIGTERM; the batch under way is ended first")
        self._pipeline.interrupt()
        super()._on_sigterm()

    async def _sentinel_task(self) -> None:
        """Do not sleep for a second at the end: everything of ours has been waited for by then."""

    def _setproctitle(self, info: str, *, ident: str = "") -> None:
        """Leave the process's title: operators look for the command that they started."""
