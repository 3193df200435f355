"""Connects a client's own thread and the event loop: batches one way, calls the other way.

Only one thread serves a confluent-kafka consumer. Its records wait in an ``Inbox`` for the event
loop. Requests of the event loop go through ``Calls``, which the thread serves between two polls.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, Generic, TypeVar

logger = logging.getLogger(__name__)

Item = TypeVar("Item")
Result = TypeVar("Result")


_POLLS: Final = ((1.0, 0.005), (3.0, 0.05))
"""Pairs: seconds since the last event, and the longest poll until then."""
_IDLE_SECONDS: Final = 0.2
"""The longest poll after that. Three threads poll, and a poll takes some 150 µs of an idle worker's
CPU time."""


async def joined(thread: threading.Thread, seconds: float) -> None:
    """Wait for a client's thread to end; after ``seconds`` log that it has not, and return."""
    if thread.ident is None:
        return
    await asyncio.get_running_loop().run_in_executor(None, thread.join, seconds)
    if thread.is_alive():
        logger.warning("the thread %r did not end within %g s", thread.name, seconds)


class PollInterval:
    """The maximum duration of a poll, which is also the longest wait of a call from the event loop.

    Polls are short for a second after a record or a call. Later they are longer, which costs less.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self.extend()

    def extend(self) -> None:
        self._since = self._now()

    @property
    def seconds(self) -> float:
        quiet = self._now() - self._since
        return next((wait for until, wait in _POLLS if quiet < until), _IDLE_SECONDS)


class Inbox(Generic[Item]):
    """A queue of at most ``limit`` items from a client's thread to the event loop."""

    def __init__(self, limit: int, wake: threading.Condition) -> None:
        self._limit = limit
        self._wake = wake
        self._items: deque[Item] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._filled: Callable[[], object] = _nothing

    def open(self, filled: Callable[[], object]) -> None:
        self._loop = asyncio.get_running_loop()
        self._filled = filled

    def close(self) -> None:
        self._filled = _nothing
        with self._wake:
            self._items.clear()
            self._wake.notify_all()

    @property
    def full(self) -> bool:
        return len(self._items) >= self._limit

    def take(self) -> Item | None:
        if not self._items:
            return None
        with self._wake:
            item = self._items.popleft()
            self._wake.notify_all()
        return item

    def put(self, item: Item) -> None:
        self._items.append(item)
        self.call(self._announce)

    def call(self, function: Callable[..., object], *arguments: object) -> None:
        """Call a function on the event loop soon; the client's thread calls this."""
        assert self._loop is not None
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function, *arguments)

    def _announce(self) -> None:
        self._filled()


def _nothing() -> None: ...


class Calls:
    """Calls from the event loop, served in a client's thread; each call notifies ``wake``."""

    def __init__(self, wake: threading.Condition) -> None:
        self._wake = wake
        self._waiting: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        self._closed = False

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def submit(self, function: Callable[[], Result]) -> Future[Result]:
        """Call a function in the client's thread soon; cancelled if the thread has ended."""
        future: Future[Result] = Future()
        with self._wake:
            if self._closed:
                future.cancel()
            else:
                self._waiting.append((function, future))
                self._wake.notify_all()
        return future

    async def run(self, function: Callable[[], Result]) -> Result:
        return await asyncio.wrap_future(self.submit(function))

    def serve(self) -> bool:
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
        """Cancel waiting and later calls; the client's thread calls this."""
        with self._wake:
            self._closed = True
            waiting, self._waiting = self._waiting, deque()
        for _, future in waiting:
            future.cancel()
