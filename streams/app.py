"""The Faust app: two agents, and what happens when partitions come and go.

Faust gives group membership, assignment and the delivery of records to agents. It does none of the
producing and keeps none of the state: its sends are not waited for before offsets are committed,
and its tables are written before them (docs/architecture.md says what that loses).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping
from typing import Any, Final, Protocol, TypeVar, cast

import faust
import mode
from faust.types import TP, EventT, Message, StreamT

from simhash_core.documents import RawRecord, SourcePosition
from simhash_core.errors import FirstseenError
from streams.committed_transport import CommittedConsumer, CommittedTransport
from streams.fingerprint_stage import RawInput
from streams.health import Health
from streams.kafka_config import faust_brokers, faust_credentials, faust_fetch_wait_ms
from streams.ordered_intake import Lost, OrderedIntake
from streams.pipeline import Pipeline
from streams.read_order import Place, ReadOrder
from streams.settings import Settings

logger = logging.getLogger(__name__)

_COMMIT_SECONDS: Final = 1.0
_HEARTBEATS_A_SESSION: Final = 3.0
_REQUEST_SECONDS: Final = 60.0
_METADATA_MS: Final = 5_000
"""How soon a raw topic that is there again, or has more partitions, is noticed."""
_MILLISECONDS: Final = 1000.0
_TAILS_SECONDS: Final = 1.0
_BEAT_SECONDS: Final = 1.0
_QUEUES: Final = 4
"""Queues on the way to an agent, amply: its stream, its batch, one in the consumer's hands."""

_Result = TypeVar("_Result")


class _Batches(Protocol):
    """The part of a stream that the agents use: batches that only ``event.ack()`` acknowledges."""

    def noack_take(self, max_: int, within: float) -> AsyncIterator[list[EventT[bytes]]]: ...


def create_app(settings: Settings, pipeline: Pipeline, health: Health) -> faust.App:
    """Return the app of one worker process; nothing is connected before it starts.

    ``health`` is told that the event loop runs.

    A failure in an agent or while shards are opened ends the process (the supervisor crashes),
    because going on past it would lose records; the cause is left in ``pipeline.failure``.
    """
    app = faust.App(
        settings.application_id,
        broker=faust_brokers(settings),
        broker_credentials=faust_credentials(settings),
        broker_commit_interval=_COMMIT_SECONDS,
        broker_session_timeout=settings.session_timeout_seconds,
        broker_heartbeat_interval=settings.session_timeout_seconds / _HEARTBEATS_A_SESSION,
        broker_request_timeout=max(_REQUEST_SECONDS, 2 * settings.session_timeout_seconds),
        consumer_auto_offset_reset="earliest",
        consumer_metadata_max_age_ms=_METADATA_MS,
        datadir=str(settings.state_path() / "faust"),
        store="memory://",
        agent_supervisor=mode.CrashingSupervisor,
        stream_buffer_maxsize=_queue(settings),
        topic_allow_declare=False,
        topic_disable_leader=True,
        web_enabled=False,
        web_tables_enabled=False,
    )
    transport = CommittedTransport(app.conf.broker_consumer, app, loop=app.loop)
    transport.fetch_wait_ms = faust_fetch_wait_ms(settings)
    transport.order = ReadOrder()
    transport.fail = pipeline.fail
    intake = transport.intake = OrderedIntake(
        transport.order,
        lambda: cast(CommittedConsumer, app.consumer),
        _QUEUES * _queue(settings),
        _lost_to(settings, pipeline),
    )
    app.transport = transport
    raw = app.topic(settings.topics.raw, key_serializer="raw", value_serializer="raw")
    probes = app.topic(settings.topics.probes, key_serializer="raw", value_serializer="raw")

    async def fingerprint(stream: StreamT[bytes]) -> None:
        batches = cast(_Batches, stream)
        async for events in batches.noack_take(
            settings.batch.documents, settings.batch.within_seconds
        ):
            lots = _by_place(app, events)
            with intake.batch(settings.topics.raw, lots, len(events)) as assignment:
                await _fingerprint(pipeline, intake, lots, assignment)
            _acknowledge(events)

    async def lookup(stream: StreamT[bytes]) -> None:
        batches = cast(_Batches, stream)
        async for events in batches.noack_take(
            settings.batch.packets, settings.batch.within_seconds
        ):
            lots = _by_place(app, events)
            with intake.batch(settings.topics.probes, lots, len(events)):
                # Shards commit side by side: each waits for the broker most of the time.
                await asyncio.gather(
                    *(_lookup(pipeline, intake, place, lot) for place, lot in lots.items())
                )
            _acknowledge(events)

    app.agent(raw, name="fingerprint")(fingerprint)
    app.agent(probes, name="lookup")(lookup)

    async def assigned(_app: object, /, *signalled: Any, **_: Any) -> None:  # noqa: ANN401 - Faust's signals
        tps: set[TP] = signalled[0]
        mine = {tp.partition for tp in tps if tp.topic == settings.topics.probes}
        pipeline.metrics.rebalance()
        logger.info(
            "assigned by the group, generation %s: %s", app.consumer_generation_id, _named(tps)
        )
        intake.forget()
        intake.assigned({(tp.topic, tp.partition) for tp in tps})
        await _guarded(pipeline, pipeline.assign(mine))

    async def revoked(_app: object, /, *signalled: Any, **_: Any) -> None:  # noqa: ANN401 - the same
        if signalled[0]:  # there is nothing to revoke when the group is joined
            logger.info("revoked, the group shares out anew: %s", _named(signalled[0]))
        intake.forget()
        await _guarded(pipeline, pipeline.release("the group shares its partitions out anew"))

    app.timer(_TAILS_SECONDS)(intake.read_tails)
    app.loop.call_soon(_beat, app.loop, pipeline, health)

    def crash(error: BaseException) -> None:
        app.add_future(app.crash(error))

    pipeline.crash = crash
    app.on_partitions_assigned.connect(assigned, weak=False)
    app.on_partitions_revoked.connect(revoked, weak=False)
    return app


async def _fingerprint(
    pipeline: Pipeline, intake: OrderedIntake, lots: Mapping[Place, list[Message]], assignment: int
) -> None:
    admitted: list[Message] = []
    for place, lot in lots.items():
        pipeline.metrics.watched(*place)
        fresh = await intake.admit(place, await intake.position(place), lot)
        await intake.check_gaps(place, fresh)
        admitted += fresh
    renewed = await _guarded(pipeline, pipeline.fingerprint([_raw_input(m) for m in admitted]))
    if renewed:
        for topic in renewed:
            logger.warning("%s was deleted and made again: it is read from its beginning", topic)
            await intake.begin_anew(topic)
        return
    last = {(message.topic, message.partition): message for message in admitted}
    for place, message in last.items():
        intake.passed(place, message.offset + 1, assignment)


def _beat(loop: asyncio.AbstractEventLoop, pipeline: Pipeline, health: Health) -> None:
    """Run every second from now on, as the event loop does.

    Not as a timer of Faust's: those begin later, and a loop that stands still by then has no beat
    that is missed.
    """
    loop.call_later(_BEAT_SECONDS, _beat, loop, pipeline, health)
    health.beat()
    pipeline.measure()


async def _lookup(
    pipeline: Pipeline, intake: OrderedIntake, place: Place, arrived: list[Message]
) -> None:
    assignment, (_, partition) = intake.assignment, place
    next_offset = await pipeline.next_probe(partition)
    if next_offset is None:
        return
    admitted = await intake.admit(place, next_offset, arrived)
    values = [(message.offset, message.value) for message in admitted]
    if values and not await _guarded(pipeline, pipeline.lookup(partition, values)):
        return
    intake.passed(place, admitted[-1].offset + 1 if admitted else next_offset, assignment)


async def _guarded(pipeline: Pipeline, work: Awaitable[_Result]) -> _Result:
    """Keep the first failure for the exit message, and let it crash the worker."""
    try:
        return await work
    except FirstseenError as error:
        pipeline.failure = pipeline.failure or error
        raise


def _lost_to(settings: Settings, pipeline: Pipeline) -> Lost:
    """Return what says that raw records are lost; a shard that misses probes ends the worker."""

    def lost(place: Place, first: int, behind: int) -> None:
        if place[0] == settings.topics.raw:
            logger.warning(
                "%s/%d: offsets %d to %d were deleted before they were read, and are skipped: the "
                "topic keeps its records for less time than the workers stood still "
                "(retention.ms, retention.bytes)",
                *place,
                first,
                behind - 1,
            )
            pipeline.metrics.skipped(*place, behind - first)

    return lost


def _named(tps: Iterable[TP]) -> str:
    """Return partitions for the log: ``raw-documents 0 2, firstseen.probes 1``."""
    by_topic: dict[str, list[int]] = {}
    for tp in sorted(tps):
        by_topic.setdefault(tp.topic, []).append(tp.partition)
    named = (f"{topic} {' '.join(map(str, each))}" for topic, each in by_topic.items())
    return ", ".join(named) or "no partitions"


def _queue(settings: Settings) -> int:
    """Return the most records that wait for an agent."""
    return settings.batch.documents * 2


def _by_place(app: faust.App, events: Iterable[EventT[bytes]]) -> dict[Place, list[Message]]:
    """Return the records of the present assignment by partition.

    Others were still in a buffer when partitions moved; they come again from the committed offset.
    """
    generation = app.consumer_generation_id
    found: dict[Place, list[Message]] = {}
    for event in events:
        message = event.message
        if message.generation_id == generation:
            found.setdefault((message.topic, message.partition), []).append(message)
    return found


def _acknowledge(events: Iterable[EventT[bytes]]) -> None:
    """Let Faust know that nobody works on them any more; what is committed, the intake says."""
    for event in events:
        event.ack()


def _raw_input(message: Message) -> RawInput:
    source = SourcePosition(message.topic, message.partition, message.offset)
    headers = cast(Iterable[tuple[str, bytes | None]], message.headers or ())
    record = RawRecord(
        message.key, message.value, round(message.timestamp * _MILLISECONDS), tuple(headers)
    )
    return source, record
