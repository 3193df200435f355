"""Waking an agent: one event in its channel, for any number of reasons to run."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol


class Channel(Protocol):
    """Where events wait for an agent."""

    async def send(self, *, value: Any) -> Any:  # noqa: ANN401 - Faust's channels
        """Hand an event over; waits while the channel is full."""
        ...


class Wake:
    """Lets an agent run soon, once for any number of calls before it does."""

    def __init__(self, channel: Channel) -> None:
        """Wake the agent that reads ``channel``."""
        self._channel = channel
        self._task: asyncio.Task[Any] | None = None

    def __call__(self) -> None:
        """Let it run soon."""
        if self._task is None:
            self._task = asyncio.ensure_future(self._channel.send(value=None))

    def awake(self) -> None:
        """Note that the agent runs: the next call wakes it again."""
        self._task = None
