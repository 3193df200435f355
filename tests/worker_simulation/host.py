"""What a simulated client needs of its machine: tasks, requests, and calls to the worker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final, TypeVar, overload

from streams.errors import UnansweredError
from tests.worker_simulation.cluster import Cluster
from tests.worker_simulation.loop import Machine
from tests.worker_simulation.network import NoAnswerError, RefusedError, Request
from tests.worker_simulation.transactions import Place

_Answer = TypeVar("_Answer")

AGAIN_SECONDS: Final = (0.01, 0.5)
"""How long a client waits before it connects again."""


class Host:
    def __init__(self, machine: Machine, cluster: Cluster) -> None:
        self.machine = machine
        self.cluster = cluster
        self.loop = cluster.loop
        self.name = machine.name

    def start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        return self.loop.start(self.machine.clients, work)

    def call(self, function: Callable[..., object], *arguments: object) -> None:
        """Call the worker on its event loop; such calls keep their order."""
        self.loop.call_soon(function, *arguments, context=self.machine.program.context)

    @overload
    def ask(
        self, name: str, work: Callable[[], asyncio.Future[_Answer]], seconds: float = ...
    ) -> asyncio.Future[_Answer]: ...

    @overload
    def ask(
        self, name: str, work: Callable[[], _Answer], seconds: float = ...
    ) -> asyncio.Future[_Answer]: ...

    def ask(self, name: str, work: Callable[[], Any], seconds: float = 10.0) -> asyncio.Future[Any]:
        """Return the response to a request; the client waits ``seconds`` for it."""
        future: asyncio.Future[Any] = self.loop.create_future()
        Request(self.cluster.network, self.machine.clients, name, work, future, seconds)
        return future

    async def pause(self) -> None:
        await asyncio.sleep(self.cluster.network.random.uniform(*AGAIN_SECONDS))

    async def ask_until(self, name: str, work: Callable[[], _Answer], seconds: float) -> _Answer:
        """Repeat a request until a response comes; raises ``NoAnswerError`` after ``seconds``."""
        deadline = self.loop.time() + seconds
        while True:
            left = deadline - self.loop.time()
            if left <= 0:
                raise NoAnswerError(name)
            try:
                return await self.ask(name, work, min(10.0, left))
            except NoAnswerError:
                await self.pause()

    async def offsets(
        self, place: Place, seconds: float, *, committed: bool = False
    ) -> tuple[int, int]:
        """Return the start and the end of a partition; raises ``UnansweredError``."""
        ends = partial(self.cluster.offsets, place, committed=committed)
        try:
            return await self.in_client(self.ask_until("list offsets", ends, seconds))
        except (NoAnswerError, RefusedError) as error:
            raise UnansweredError(f"no offsets of {place}: {error}") from error

    def client_done(self, result: asyncio.Future[_Answer]) -> asyncio.Future[_Answer]:
        """Return a future for the worker, which gets the result of a client's task."""
        future: asyncio.Future[_Answer] = self.loop.create_future()
        result.add_done_callback(
            lambda _: self.call(_copy, result, future), context=self.machine.clients.context
        )
        return future

    def in_program(
        self, work: Callable[[], Coroutine[Any, Any, _Answer]]
    ) -> asyncio.Future[_Answer]:
        """Return the result of work on the worker's event loop; the client waits in its thread."""
        result: asyncio.Future[_Answer] = self.loop.create_future()

        def begin() -> None:
            task = self.loop.start(self.machine.program, work())
            task.add_done_callback(
                lambda done: _copy(done, result), context=self.machine.clients.context
            )

        self.call(begin)
        return result

    async def in_client(self, work: Coroutine[Any, Any, _Answer]) -> _Answer:
        """Return the result of work in the client's thread; the worker waits on its event loop."""
        task = self.loop.create_task(work, context=self.machine.clients.new_context())
        self.loop.keep(task)
        return await self.client_done(task)


def _copy(result: asyncio.Future[_Answer], future: asyncio.Future[_Answer]) -> None:
    if future.done():
        return
    if result.cancelled():
        future.cancel()
    elif (error := result.exception()) is not None:
        future.set_exception(error)
    else:
        future.set_result(result.result())
