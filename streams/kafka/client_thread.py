"""Blocking calls of a client, in order, in a thread that is left behind if one of them hangs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Final, TypeVar

_LOOK_SECONDS: Final = 0.5

_Result = TypeVar("_Result")
_Work = tuple[Callable[[], Any], "asyncio.Future[Any]"]


class ClientThread:
    """Runs calls in order. If it hangs, the process can end all the same."""

    def __init__(self, name: str) -> None:
        """Start no thread before there is work."""
        self._name = name
        self._queue: SimpleQueue[_Work | None] | None = None

    async def run(self, work: Callable[[], _Result], hangs: Callable[[], bool]) -> _Result:
        """Return what ``work`` returns, or raise what it raises.

        Raises ``TimeoutError`` once ``hangs`` says so: later calls have another thread,
        and ``work`` may still go on in the first one.
        """
        if self._queue is None:
            self._queue = SimpleQueue()
            # A daemon: those of an executor are waited for when the interpreter ends.
            threading.Thread(
                target=_serve,
                args=(self._queue, asyncio.get_running_loop()),
                name=self._name,
                daemon=True,
            ).start()
        future: asyncio.Future[_Result] = asyncio.get_running_loop().create_future()
        self._queue.put((work, future))
        while not (await asyncio.wait([future], timeout=_LOOK_SECONDS))[0]:
            if hangs():
                self.end()
                raise TimeoutError
        return future.result()

    def end(self) -> None:
        """End the thread after what it does now."""
        if self._queue is not None:
            self._queue.put(None)
            self._queue = None


def _serve(queue: SimpleQueue[_Work | None], loop: asyncio.AbstractEventLoop) -> None:
    while (item := queue.get()) is not None:
        work, future = item
        result, error = None, None
        try:
            result = work()
        except Exception as raised:  # noqa: BLE001 - it belongs to the caller
            error = raised
        try:
            loop.call_soon_threadsafe(_resolve, future, result, error)
        except RuntimeError:
            return  # the loop has ended
        del work, future, item, result, error


def _resolve(future: asyncio.Future[Any], result: object, error: Exception | None) -> None:
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
        future.exception()  # nobody may wait for it any more
    else:
        future.set_result(result)
