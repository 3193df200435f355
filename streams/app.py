"""The Faust app: its agents take the events of the pipeline from channels, one stage each.

Faust gives agents, their supervision, and the life of a worker. It has no Kafka client here: its
consumer costs 65 to 100 µs a record, and its sends are not waited for before offsets are committed
(docs/architecture.md). librdkafka's clients read and write in batches, and hand them over.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Final, NamedTuple, cast

import faust
import mode
from faust.app.base import BootStrategy
from faust.types import ChannelT, StreamT

from streams.intake.raw_records import RawRecords
from streams.kafka.log_reader import LogRecords
from streams.monitoring.health import Health
from streams.pipeline import Pipeline
from streams.settings.settings import Settings

_BEAT_SECONDS: Final = 1.0
_RAW_EVENTS: Final = 1
_LOG_EVENTS: Final = 4


class _Boot(BootStrategy):
    """Starts agents and nothing that speaks to Kafka."""

    enable_kafka = False


class WorkerApp(faust.App):
    """An app whose agents read from channels alone."""

    BootStrategy = _Boot

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - Faust's settings
        """Take Faust's settings."""
        super().__init__(*args, **kwargs)
        self._before_stop: list[Callable[[], Awaitable[None]]] = []

    def before_stop(self, close: Callable[[], Awaitable[None]]) -> None:
        """Await ``close`` when the app begins to stop, while its agents still run."""
        self._before_stop.append(close)

    async def on_stop(self) -> None:
        """Close what was opened for the agents, then stop as Faust does."""
        for close in self._before_stop:
            await close()
        await super().on_stop()


class Channels(NamedTuple):
    """Where events of the pipeline wait for their agents; each is bounded."""

    raw: ChannelT[Sequence[RawRecords]]
    log: ChannelT[LogRecords]
    decide: ChannelT[LogRecords | None]
    put_out: ChannelT[None]


def create_app(settings: Settings) -> WorkerApp:
    """Return the app of one worker process, without agents.

    A failure in an agent ends the process (the supervisor crashes), because going on past it would
    lose records.
    """
    return WorkerApp(
        settings.application_id,
        broker="kafka://unused",
        datadir=str(settings.state_path() / "faust"),
        store="memory://",
        agent_supervisor=mode.CrashingSupervisor,
        topic_allow_declare=False,
        topic_disable_leader=True,
        web_enabled=False,
        web_tables_enabled=False,
    )


def create_channels(app: WorkerApp) -> Channels:
    """Return the channels of an app."""
    return Channels(
        app.channel(maxsize=_RAW_EVENTS),
        app.channel(maxsize=_LOG_EVENTS),
        app.channel(maxsize=_LOG_EVENTS),
        app.channel(maxsize=1),
    )


def add_agents(app: WorkerApp, channels: Channels, pipeline: Pipeline, health: Health) -> None:
    """Give an app its four agents and its timers; ``health`` notes that the event loop runs.

    After each event an agent lets the others run: in a backlog the stages take turns.
    """

    async def fingerprint(stream: StreamT[Sequence[RawRecords]]) -> None:
        async for batch in _events(stream):
            await pipeline.fingerprint(batch)
            await asyncio.sleep(0)

    async def look_up(stream: StreamT[LogRecords]) -> None:
        async for batch in _events(stream):
            pipeline.look_up(batch)
            await asyncio.sleep(0)

    async def decide(stream: StreamT[LogRecords | None]) -> None:
        async for reports in _events(stream):
            await pipeline.decide(reports)

    async def put_out(stream: StreamT[None]) -> None:
        async for _ in _events(stream):
            await pipeline.put_out()

    app.agent(channels.raw, name="fingerprint")(fingerprint)
    app.agent(channels.log, name="look_up")(look_up)
    app.agent(channels.decide, name="decide")(decide)
    app.agent(channels.put_out, name="put_out")(put_out)

    async def begin() -> None:
        # Nobody else resumes it without Faust's consumer, and until then every send waits.
        app.flow_control.resume()
        await pipeline.open()

    app.task(begin)
    app.before_stop(pipeline.close)
    app.timer(_BEAT_SECONDS)(pipeline.measure)
    app.loop.call_soon(_beat, app.loop, health)


def _beat(loop: asyncio.AbstractEventLoop, health: Health) -> None:
    """Run every second from now on, as the event loop does.

    Not as a timer of Faust's: those begin later, and a loop that stands still by then has no beat
    that is missed.
    """
    loop.call_later(_BEAT_SECONDS, _beat, loop, health)
    health.beat()


def _events(stream: StreamT[Any]) -> AsyncIterator[Any]:
    return cast(AsyncIterator[Any], stream)
