"""The Faust app: two agents, and what happens when partitions come and go.

Faust gives group membership, assignment and the delivery of records to agents. It does none of the
producing and keeps none of the state: its sends are not waited for before offsets are committed,
and its tables are written before them (docs/architecture.md says what that loses).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Iterable
from typing import Any, Final, Protocol, TypeVar, cast

import faust
import mode
from faust.types import TP, EventT, StreamT

from simhash_core.documents import RawRecord, SourcePosition
from simhash_core.errors import FirstseenError
from streams.committed_transport import CommittedTransport
from streams.fingerprint_stage import RawInput
from streams.kafka_config import faust_brokers, faust_credentials, faust_fetch_wait_ms
from streams.pipeline import Pipeline
from streams.settings import Settings

logger = logging.getLogger(__name__)

_COMMIT_SECONDS: Final = 1.0
_HEARTBEATS_A_SESSION: Final = 3.0
_REQUEST_SECONDS: Final = 60.0
_MILLISECONDS: Final = 1000.0

_Result = TypeVar("_Result")


class _Batches(Protocol):
    """The part of a stream that the agents use: batches that only ``event.ack()`` acknowledges."""

    def noack_take(self, max_: int, within: float) -> AsyncIterator[list[EventT[bytes]]]: ...


def create_app(settings: Settings, pipeline: Pipeline) -> faust.App:
    """Return the app of one worker process; nothing is connected before it starts.

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
        datadir=str(settings.state_path() / "faust"),
        store="memory://",
        agent_supervisor=mode.CrashingSupervisor,
        stream_buffer_maxsize=settings.batch.documents * 2,
        topic_allow_declare=False,
        topic_disable_leader=True,
        web_enabled=False,
    )
    transport = CommittedTransport(app.conf.broker_consumer, app, loop=app.loop)
    transport.fetch_wait_ms = faust_fetch_wait_ms(settings)
    app.transport = transport
    raw = app.topic(settings.topics.raw, key_serializer="raw", value_serializer="raw")
    probes = app.topic(settings.topics.probes, key_serializer="raw", value_serializer="raw")

    async def fingerprint(stream: StreamT[bytes]) -> None:
        batches = cast(_Batches, stream)
        async for events in batches.noack_take(
            settings.batch.documents, settings.batch.within_seconds
        ):
            current = _current(app, events)
            await _guarded(pipeline, pipeline.fingerprint([_raw_input(e) for e in current]))
            _acknowledge(current)

    async def lookup(stream: StreamT[bytes]) -> None:
        batches = cast(_Batches, stream)
        async for events in batches.noack_take(
            settings.batch.packets, settings.batch.within_seconds
        ):
            by_partition: dict[int, list[EventT[bytes]]] = {}
            for event in _current(app, events):
                by_partition.setdefault(event.message.partition, []).append(event)
            # Shards commit side by side: each waits for the broker most of the time.
            lots = [_lookup(pipeline, partition, lot) for partition, lot in by_partition.items()]
            await asyncio.gather(*lots)

    app.agent(raw, name="fingerprint")(fingerprint)
    app.agent(probes, name="lookup")(lookup)

    async def assigned(_app: object, /, *signalled: Any, **_: Any) -> None:  # noqa: ANN401 - Faust's signals
        tps: set[TP] = signalled[0]
        mine = {tp.partition for tp in tps if tp.topic == settings.topics.probes}
        pipeline.metrics.rebalance()
        await _guarded(pipeline, pipeline.assign(mine))

    async def revoked(_app: object, /, *_signalled: Any, **_: Any) -> None:  # noqa: ANN401 - the same
        await _guarded(pipeline, pipeline.release())

    def crash(error: BaseException) -> None:
        app.add_future(app.crash(error))

    pipeline.crash = crash
    app.on_partitions_assigned.connect(assigned, weak=False)
    app.on_partitions_revoked.connect(revoked, weak=False)
    return app


async def _lookup(pipeline: Pipeline, partition: int, events: list[EventT[bytes]]) -> None:
    values = [(event.message.offset, event.message.value) for event in events]
    if await _guarded(pipeline, pipeline.lookup(partition, values)):
        _acknowledge(events)


async def _guarded(pipeline: Pipeline, work: Awaitable[_Result]) -> _Result:
    """Keep the first failure for the exit message, and let it crash the worker."""
    try:
        return await work
    except FirstseenError as error:
        pipeline.failure = pipeline.failure or error
        raise


def _current(app: faust.App, events: Iterable[EventT[bytes]]) -> list[EventT[bytes]]:
    """Return the events of the present assignment.

    Others were still in a buffer when partitions moved; they come again from the committed offset.
    """
    generation = app.consumer_generation_id
    return [event for event in events if event.message.generation_id == generation]


def _acknowledge(events: Iterable[EventT[bytes]]) -> None:
    for event in events:
        event.ack()


def _raw_input(event: EventT[bytes]) -> RawInput:
    message = event.message
    source = SourcePosition(message.topic, message.partition, message.offset)
    headers = cast(Iterable[tuple[str, bytes | None]], message.headers or ())
    record = RawRecord(
        message.key, message.value, round(message.timestamp * _MILLISECONDS), tuple(headers)
    )
    return source, record
