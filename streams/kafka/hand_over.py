"""From a client's own thread to the event loop: batches one way, calls the other, both bounded.

A confluent-kafka consumer is served by one thread alone. What it reads goes through ``HandOver``,
which holds a few batches and delivers them one at a time; what the loop wants of the client goes
through ``Calls``, which the thread serves between two polls.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Any, Final, Generic, TypeVar

logger = logging.getLogger(__name__)

Item = TypeVar("Item")
Result = TypeVar("Result")


_POLLS: Final = ((1.0, 0.005), (3.0, 0.05))
"""Until so many seconds after the last event, the longest wait of a poll."""
_IDLE_SECONDS: Final = 0.2
"""The same after that. Three threads poll, and each poll takes some 150 µs of an idle worker."""


async def joined(thread: threading.Thread, seconds: float) -> None:
    """Wait on the loop until a client's thread has ended, if it was started.

    A thread that has not ended within ``seconds`` is logged, and left to the end of the process.
    """
    if thread.ident is None:
        return
    await asyncio.get_running_loop().run_in_executor(None, thread.join, seconds)
    if thread.is_alive():
        logger.warning("the thread %r did not end within %g s", thread.name, seconds)


class PollInterval:
    """How long a thread polls at most, which is the longest wait of a call from the loop.

    A record ends a poll at once, a call does not: so polls are short for a second after either, and
    longer after that, when nobody waits and each poll is only work.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        """Begin with short polls. ``now``: a clock, in seconds."""
        self._now = now
        self.extend()

    def extend(self) -> None:
        """Poll shortly for a second: something has happened."""
        self._since = self._now()

    @property
    def seconds(self) -> float:
        """The longest wait of the next poll."""
        quiet = self._now() - self._since
        return next((wait for until, wait in _POLLS if quiet < until), _IDLE_SECONDS)


class HandOver(Generic[Item]):
    """A queue of at most ``limit`` items from one thread to a coroutine on the loop."""

    def __init__(
        self,
        limit: int,
        deliver: Callable[[Item], Awaitable[None]],
        failed: Callable[[Exception], None],
        wake: threading.Condition,
    ) -> None:
        """``deliver`` is awaited for one item at a time; ``wake`` is notified when there is room.

        An exception that ``deliver`` raises ends the delivery and goes to ``failed``.
        """
        self._limit = limit
        self._deliver = deliver
        self._failed = failed
        self._wake = wake
        self._items: deque[Item] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._filled = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Deliver from now on, on the running loop."""
        self._loop = asyncio.get_running_loop()
        self._task = self._loop.create_task(self._run())

    async def close(self) -> None:
        """Deliver no more; what is queued is dropped."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        with self._wake:
            self._items.clear()
            self._wake.notify_all()

    @property
    def full(self) -> bool:
        """Whether there is no room; from any thread."""
        return len(self._items) >= self._limit

    def put(self, item: Item) -> None:
        """Queue an item; from the client's thread, which has seen that there is room."""
        self._items.append(item)
        self.call(self._filled.set)

    def call(self, function: Callable[..., object], *arguments: object) -> None:
        """Call something on the loop soon, from the client's thread; not if the loop has ended."""
        assert self._loop is not None
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function, *arguments)

    def filter(self, keep: Callable[[Item], Item | None]) -> None:
        """Replace each queued item by what ``keep`` returns; None drops it. On the loop."""
        with self._wake:
            kept = (keep(self._items.popleft()) for _ in range(len(self._items)))
            self._items.extend(item for item in kept if item is not None)
            self._wake.notify_all()

    async def _run(self) -> None:
        try:
            while True:
                await self._filled.wait()
                self._filled.clear()
                while self._items:
                    with self._wake:
                        item = self._items.popleft() if self._items else None
                        self._wake.notify_all()
                    if item is not None:
                        await self._deliver(item)
        except Exception as error:  # noqa: BLE001 - whatever the owner raises is the owner's to judge
            self._failed(error)


class Calls:
    """Calls of a client from the loop, served in its thread."""

    def __init__(self, wake: threading.Condition) -> None:
        """``wake`` is notified of each call."""
        self._wake = wake
        self._waiting: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        self._closed = False

    def __bool__(self) -> bool:
        """Whether any waits."""
        return bool(self._waiting)

    def submit(self, function: Callable[[], Result]) -> Future[Result]:
        """Have the client's thread call a function soon; cancelled if the thread has ended."""
        future: Future[Result] = Future()
        with self._wake:
            if self._closed:
                future.cancel()
            else:
                self._waiting.append((function, future))
                self._wake.notify_all()
        return future

    async def ask(self, function: Callable[[], Result]) -> Result:
        """Return what a function returns that the client's thread calls, or raise its exception."""
        return await asyncio.wrap_future(self.submit(function))

    def serve(self) -> bool:
        """Call what waits; return whether anything did. In the client's thread."""
        served = bool(self._waiting)
        while self._waiting:
            function, future = self._waiting.popleft()
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(function())
            except Exception as error:  # noqa: BLE001 - it belongs to the caller
                future.set_exception(error)
        return served

    def close(self) -> None:
        """Cancel what waits, and whatever is submitted from now on; in the client's thread."""
        with self._wake:
            self._closed = True
            waiting, self._waiting = self._waiting, deque()
        for _, future in waiting:
            future.cancel()
