"""The Faust app: four agents, one per stage of the pipeline; channels wake them.

Faust provides agents, their supervision, and the life cycle of a worker. It has no Kafka client
here, because its consumer costs 65 to 100 µs per record and commits offsets without waiting for its
sends (docs/architecture.md).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final, NamedTuple, cast

import faust
import mode
from faust.app.base import BootStrategy
from faust.types import ChannelT, StreamT

from streams.settings.settings import Settings
from streams.worker.pipeline import Pipeline

_TICK_SECONDS: Final = 1.0


class _Boot(BootStrategy):
    """Starts agents, but no Kafka clients."""

    enable_kafka = False


class WorkerApp(faust.App):
    BootStrategy = _Boot

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - Faust's settings
        super().__init__(*args, **kwargs)
        self._before_stop: list[Callable[[], Awaitable[None]]] = []

    def before_stop(self, close: Callable[[], Awaitable[None]]) -> None:
        """Await ``close`` when the app begins to stop, while its agents still run."""
        self._before_stop.append(close)

    async def on_stop(self) -> None:
        for close in self._before_stop:
            await close()
        await super().on_stop()


class Channels(NamedTuple):
    """The channels of the stages; their events are empty and only wake an agent."""

    fingerprint: ChannelT[None]
    look_up: ChannelT[None]
    decide: ChannelT[None]
    commit: ChannelT[None]


def create_app(settings: Settings) -> WorkerApp:
    """Return the app of a worker; a failed agent stops it, as continuing would lose records."""
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
    return Channels(*(app.channel(maxsize=1) for _ in Channels._fields))


def add_agents(app: WorkerApp, channels: Channels, pipeline: Pipeline) -> None:
    """Give an app its four agents, which take turns after each event, and its timer."""

    def agent(stage: Callable[[], Awaitable[None]]) -> Callable[[StreamT[None]], Awaitable[None]]:
        async def run(stream: StreamT[None]) -> None:
            async for _ in cast(AsyncIterator[None], stream):
                await stage()
                await asyncio.sleep(0)

        return run

    app.agent(channels.fingerprint, name="fingerprint")(agent(pipeline.fingerprint))
    app.agent(channels.look_up, name="look_up")(agent(pipeline.look_up))
    app.agent(channels.decide, name="decide")(agent(pipeline.decide))
    app.agent(channels.commit, name="commit")(agent(pipeline.commit))

    async def begin() -> None:
        # Without Faust's consumer nothing else resumes the app, and every send would wait for that.
        app.flow_control.resume()
        await pipeline.open()

    app.task(begin)
    app.before_stop(pipeline.close)
    app.timer(_TICK_SECONDS)(pipeline.tick)
