"""The Faust app: four agents, one per stage of the pipeline; channels wake them.

Faust provides agents, their supervision, and the life cycle of a worker. It has no Kafka client
here, because its consumer costs 65 to 100 µs per record and commits offsets without waiting for its
sends (docs/architecture.md).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Final, cast

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

    pipeline: Pipeline | None = None

    async def on_stop(self) -> None:
        if self.pipeline is not None:
            await self.pipeline.close()  # while the agents still run
        await super().on_stop()


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


def create_channels(app: WorkerApp) -> list[ChannelT[None]]:
    """Return the channels of the four agents; their events are empty and only wake an agent."""
    return [app.channel(maxsize=1) for _ in range(4)]


def add_agents(app: WorkerApp, channels: Sequence[ChannelT[None]], pipeline: Pipeline) -> None:
    """Give an app its four agents, which take turns after each event, and its timer."""

    def agent(stage: Callable[[], Awaitable[None]]) -> Callable[[StreamT[None]], Awaitable[None]]:
        async def run(stream: StreamT[None]) -> None:
            async for _ in cast(AsyncIterator[None], stream):
                await stage()
                await asyncio.sleep(0)

        return run

    stages = (pipeline.fingerprint, pipeline.look_up, pipeline.decide, pipeline.commit)
    for channel, stage in zip(channels, stages, strict=True):
        app.agent(channel, name=stage.__name__)(agent(stage))

    async def begin() -> None:
        # Without Faust's consumer nothing else resumes the app, and every send would wait for that.
        app.flow_control.resume()
        await pipeline.open()

    app.task(begin)
    app.pipeline = pipeline
    app.timer(_TICK_SECONDS)(pipeline.tick)
