"""An event loop with virtual time, and machines that pause, end, and have different clocks.

Time moves only when nothing is ready. The work of other threads runs in real threads, one at a
time, while the loop waits; they take the virtual time that they request. So the seed determines the
order of all events.

A callback belongs to a part of a machine, by the context in which it was scheduled. Callbacks of a
paused part wait. Callbacks of an ended part are never called, and nothing of that part is cleaned
up, as after kill -9.
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
import random
import sys
import threading
import time
import traceback
import types
import uuid
import warnings
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from enum import Enum, auto
from heapq import heappop
from pathlib import Path
from typing import Any, Final, TypeVar
from unittest.mock import patch

import simhash_core
import streams

EPOCH_SECONDS: Final = 1_000.0
"""The time on the brokers' clock when a run begins."""
CALL_SECONDS: Final = 1e-6
"""The time of one function call, where steps are counted: about that of a real call."""
_OWN_CODE: Final = tuple(
    str(Path(package.__file__ or "").parent) for package in (simhash_core, streams)
)
ASKED_SECONDS: Final = 5e-5
"""The time that passes between two readings of the clock by a program."""
_BUSY_SECONDS_MAX: Final = 3.0
"""The limit of that time in total: ten times what a long run takes."""
_RESOLUTION: Final = 1e-9
_THREAD_SECONDS: Final = (0.0002, 0.02)
"""How long a thread waits before it begins its work."""
_STACK_FRAMES: Final = 3

_Result = TypeVar("_Result")


class StuckError(Exception):
    """Nothing is ready and nothing is scheduled, but the program has not ended."""


class LimitError(Exception):
    """A run exceeds its time or its events, or a callback makes too many calls."""


class UnhandledError(Exception):
    """A task or a callback has raised an exception that nothing handles."""


class ThreadEndedError(BaseException):
    """The machine of a thread has ended, so the thread ends immediately."""


class Part:
    """A part of a machine that pauses as a whole: its event loop, or the threads of its clients."""

    __slots__ = ("context", "ended", "holds_up", "machine", "standing", "waiting")

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.standing = False
        self.ended = False
        self.holds_up = False
        self.waiting: deque[asyncio.Handle] = deque()
        self.context = contextvars.copy_context()
        self.context.run(_PART.set, self)

    def new_context(self) -> contextvars.Context:
        return self.context.copy()


_PART: contextvars.ContextVar[Part | None] = contextvars.ContextVar("part", default=None)


class Machine:
    """The machine of one worker; ``clock_seconds`` is its clock's lead over the brokers' clock."""

    def __init__(self, loop: SimulatedLoop, name: str, clock_seconds: float = 0.0) -> None:
        self.name = name
        self.clock_seconds = clock_seconds
        self.program = Part(self)
        self.clients = Part(self)
        self._loop = loop

    @property
    def stands_still(self) -> bool:
        return self.program.standing

    def stand_still(self, *, clients: bool) -> None:
        """Pause for a time; with ``clients``, the whole process pauses."""
        for part in (self.program, self.clients) if clients else (self.program,):
            part.standing = part.holds_up = True

    def go_on(self) -> None:
        for part in (self.clients, self.program):
            part.standing, part.holds_up = False, part.ended
            self._loop.resume(part)

    def kill(self) -> None:
        """End at once: nothing is cleaned up, and nothing is called any more."""
        for part in (self.program, self.clients):
            part.ended = part.holds_up = True
            for handle in part.waiting:
                self._loop.keep(handle)  # a task that is collected before its end is an error
            part.waiting.clear()


class _Work(threading.Thread):
    """The work of a thread: it runs while the loop waits, until it blocks or is done."""

    def __init__(
        self, loop: SimulatedLoop, function: Callable[[], Any], future: asyncio.Future[Any]
    ) -> None:
        super().__init__(daemon=True)
        self._loop = loop
        self.blocks_seconds: float | None = None
        self._function = function
        self._future = future
        self._has_ended = False
        self._result: Any = None
        self._error: BaseException | None = None
        self._go, self._back = threading.Lock(), threading.Lock()
        self._go.acquire()
        self._back.acquire()

    def go_on(self) -> float | None:
        """Let the thread run; return for how many seconds it then blocks, None if it is done."""
        self.blocks_seconds = None
        if self.is_alive():
            self._go.release()
        else:
            self.start()
        self._back.acquire()
        return self.blocks_seconds

    def end(self) -> None:
        self._has_ended = True
        self.go_on()

    def block(self, seconds: float) -> None:
        """Let the loop continue for this time; the thread calls this."""
        if not self._has_ended:
            self.blocks_seconds = seconds
            self._back.release()
            self._go.acquire()
        if self._has_ended:
            raise ThreadEndedError

    def run(self) -> None:
        _OF_THREAD.loop, _OF_THREAD.work = self._loop, self
        try:
            self._result = self._function()
        except BaseException as error:  # noqa: BLE001 - it belongs to the caller
            self._error = error
        self._back.release()

    def resolve(self) -> None:
        if self._future.done():
            return
        if isinstance(self._error, Exception):
            self._future.set_exception(self._error)
        elif self._error is None:
            self._future.set_result(self._result)


class _OfThread(threading.local):
    """``loop``: the thread's clocks are those of this one; other threads may exist."""

    work: _Work | None = None
    loop: SimulatedLoop | None = None


_OF_THREAD = _OfThread()


class SimulatedLoop(asyncio.BaseEventLoop):
    """The loop of one seed; ``simulated`` replaces the clocks of the program."""

    # from the base class:
    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]
    _stopping: bool

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.random = random.Random(seed)
        self.names = random.Random()
        self.events = 0
        self.step_seconds: float | None = None
        """How long one callback of a program may take, by the functions that it calls; None: calls
        are not counted and take no time."""
        self.longest_step = 0.0
        self.unhandled: list[str] = []
        self._now = 0.0
        self._busy = 0.0
        self._limits = (3_600.0, 10_000_000)
        self._blocked: set[_Work] = set()
        self._kept: list[object] = []
        self.set_exception_handler(self._on_exception)

    # ---- time

    def time(self) -> float:
        return self._now

    def monotonic(self) -> float:
        """Return the time to a program; some time has passed since its last reading.

        So a program that waits for a time in a busy loop ends.
        """
        self._now += ASKED_SECONDS
        self._busy += ASKED_SECONDS
        if self._busy > _BUSY_SECONDS_MAX:
            raise LimitError(f"a program asks for the time all the time: {self._waiting()}")
        return self._now

    def wall_seconds(self) -> float:
        """Return the wall clock of the running machine, or that of the brokers."""
        part = _PART.get()
        ahead = 0.0 if part is None else part.machine.clock_seconds
        return EPOCH_SECONDS + self._now + ahead

    def limit(self, seconds: float, events: int) -> None:
        """End the run with ``LimitError`` after this much virtual time, or this many events."""
        self._limits = seconds, events

    def _run_once(self) -> None:
        """Call everything that is ready, until the loop must stop."""
        ready, timers, unhandled = self._ready, self._scheduled, self.unhandled
        counts = self.step_seconds is not None
        while not self._stopping:
            if unhandled:
                raise UnhandledError("; ".join(unhandled))
            now = self._now + _RESOLUTION
            while timers and (timers[0].when() <= now or timers[0].cancelled()):
                ready.append(heappop(timers))
            if not ready:
                self._step_in_time()
                continue
            handle = ready.popleft()
            if handle.cancelled():
                continue
            part: Part | None = handle._context.get(_PART)  # type: ignore[attr-defined]
            if part is not None and part.holds_up:
                (self._kept if part.ended else part.waiting).append(handle)
                continue
            self.events += 1
            if self.events > self._limits[1]:
                raise LimitError(f"no end after {self.events} events: {self._waiting()}")
            if counts and part is not None and part is part.machine.program:
                self._run_counted(handle)
            else:
                handle._run()

    def _step_in_time(self) -> None:
        if not self._scheduled:
            raise StuckError(self._waiting())
        self._now = self._scheduled[0].when()
        if self._now > self._limits[0]:
            raise LimitError(f"no end after {self._limits[0]:g} s: {self._waiting()}")

    def _run_counted(self, handle: asyncio.Handle) -> None:
        """Run a callback while each function that it calls advances the clock.

        Calls by libraries and cached functions do not count, because they depend on what earlier
        runs have left in caches.
        """
        began = self._now
        inside: types.FrameType | None = None

        def count(frame: types.FrameType, event: str, __: object) -> None:
            nonlocal inside
            if event == "call":
                if inside is None:
                    kind = _KINDS.get(id(frame.f_code)) or _kind_of(frame.f_code)
                    if kind is _Kind.OWN:
                        self._now += CALL_SECONDS
                    elif kind is _Kind.CACHED:
                        inside = frame
            elif frame is inside and event == "return":
                inside = None

        sys.setprofile(count)
        try:
            handle._run()
        finally:
            sys.setprofile(None)
        step, limit = self._now - began, self.step_seconds
        self.longest_step = max(self.longest_step, step)
        if limit is not None and step > limit:
            raise LimitError(f"a step of {step:.3f} s, the limit is {limit:g} s: {handle!r}")

    def resume(self, part: Part) -> None:
        """Let the waiting callbacks of a part be called, in their order."""
        self._ready.extend(part.waiting)
        part.waiting.clear()

    def _waiting(self) -> str:
        waiting = []
        for task in asyncio.all_tasks(self):
            frames = task.get_stack(limit=_STACK_FRAMES)
            places = [f"{f.f_code.co_filename.split('/')[-1]}:{f.f_lineno}" for f in frames]
            coroutine = getattr(task.get_coro(), "__qualname__", "")
            waiting.append(f"{coroutine} at {', '.join(places) or 'its end'}")
        return "; ".join(sorted(waiting)) or "no task waits"

    # ---- what asyncio asks of a loop

    def _write_to_self(self) -> None:
        """Do nothing: other threads run only while this one waits for them."""

    def _process_events(self, event_list: list[Any]) -> None:
        """Do nothing: there are no sockets."""

    def _on_exception(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self.unhandled.append(f"{context.get('message')}: {described(error)}")

    # ---- tasks and threads

    def start(self, part: Part | None, work: Coroutine[Any, Any, _Result]) -> asyncio.Task[_Result]:
        context = contextvars.Context() if part is None else part.new_context()
        task = self.create_task(work, context=context)
        self._kept.append(task)
        if part is not None:
            task.add_done_callback(self._check)
        return task

    def keep(self, thing: object) -> None:
        """Keep an object until the run is over, because a collected coroutine runs its end."""
        self._kept.append(thing)

    def _check(self, task: asyncio.Task[Any]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.unhandled.append(f"a task has ended: {described(error)}")

    def run_in_executor(  # type: ignore[override]
        self,
        executor: object,  # noqa: ARG002 - there is one kind of thread
        func: Callable[..., _Result],
        *args: Any,  # noqa: ANN401 - of asyncio
    ) -> asyncio.Future[_Result]:
        future: asyncio.Future[_Result] = self.create_future()
        context = contextvars.copy_context()
        work = _Work(self, lambda: context.run(func, *args), future)
        self.call_later(self.random.uniform(*_THREAD_SECONDS), self._serve, work)
        return future

    def _serve(self, work: _Work) -> None:
        self._blocked.discard(work)
        seconds = work.go_on()
        if seconds is None:
            work.resolve()
        else:
            self._blocked.add(work)
            self.call_later(seconds, self._serve, work)

    def finish(self) -> None:
        for work in self._blocked:
            work.end()
        for task in asyncio.all_tasks(self):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        self._kept.clear()
        self._blocked.clear()
        self.close()
        with warnings.catch_warnings():
            # Killed machines leave coroutines that have not begun.
            warnings.simplefilter("ignore", RuntimeWarning)
            gc.collect()

    def _check_closed(self) -> None:
        """Let coroutines that are collected after the run end without an error."""


def block(seconds: float) -> None:
    """Let time pass in a thread."""
    work = _OF_THREAD.work
    if work is None:
        raise LimitError(f"the event loop is blocked for {seconds:g} s")
    work.block(seconds)


def in_thread() -> bool:
    return _OF_THREAD.work is not None


def current_machine() -> Machine | None:
    part = _PART.get()
    return None if part is None else part.machine


@contextmanager
def simulated(loop: SimulatedLoop) -> Iterator[None]:
    """Replace clocks, sleeps and random names of the program by those of the loop.

    This includes clocks that functions got as defaults when they were imported.
    """
    loop.names.seed(loop.random.random())
    _look_at_modules()
    with ExitStack() as stack:
        for real, other in _CLOCKS.items():
            owner = sys.modules[real.__module__]
            stack.enter_context(patch.object(owner, real.__name__, other))
        stack.callback(random.setstate, random.getstate())
        random.seed(loop.names.random())
        # ``finish`` collects; otherwise objects of other runs would end during counted steps.
        if gc.isenabled():
            gc.disable()
            stack.callback(gc.enable)
        stack.enter_context(patch.object(_OF_THREAD, "loop", loop))
        yield


def _clock(real: Callable[..., _Result], other: Callable[..., _Result]) -> Callable[..., _Result]:
    """Return a function that calls ``other`` with the loop in simulated threads, else the real."""

    def call(*arguments: Any) -> _Result:  # noqa: ANN401 - of any clock
        loop = _OF_THREAD.loop
        return real(*arguments) if loop is None else other(loop, *arguments)

    return call


_CLOCKS: Final[dict[Callable[..., Any], Callable[..., Any]]] = {
    real: _clock(real, other)
    for real, other in (
        (time.monotonic, SimulatedLoop.monotonic),
        (time.time, SimulatedLoop.wall_seconds),
        (time.sleep, lambda _, seconds: block(seconds)),
        (time.thread_time, lambda _: 0.0),  # so an event loop is never busy
        (uuid.uuid4, lambda loop: uuid.UUID(int=loop.names.getrandbits(128))),
    )
}


def described(error: object) -> str:
    """Return an error and its origin, in one line."""
    if not isinstance(error, BaseException):
        return repr(error)
    trace = traceback.extract_tb(error.__traceback__)
    places = [f"{frame.filename.split('/')[-1]}:{frame.lineno}" for frame in trace]
    return f"{error!r} at {' '.join(places)}"


class _Kind(Enum):
    OWN = auto()
    CACHED = auto()
    OTHER = auto()


_KINDS: dict[int, _Kind] = {}
"""By id of the code object, which ``_CODES`` keeps; hashing it takes longer than most calls."""
_CODES: list[types.CodeType] = []


def _kind_of(code: types.CodeType) -> _Kind:
    kind = _Kind.OWN if code.co_filename.startswith(_OWN_CODE) else _Kind.OTHER
    _KINDS[id(code)] = kind = _Kind.CACHED if code in _CACHED else kind
    _CODES.append(code)
    return kind


_CACHED: set[types.CodeType] = set()
_SEEN_MODULES: set[str] = set()


def _look_at_modules() -> None:
    """Note cached functions of new modules, and replace clocks among the defaults of functions."""
    for name, module in list(sys.modules.items()):
        if name in _SEEN_MODULES or name.split(".")[0] not in {"streams", "simhash_core", "tests"}:
            continue
        _SEEN_MODULES.add(name)
        for value in list(vars(module).values()):
            if hasattr(value, "cache_clear"):
                _CACHED.add(value.__wrapped__.__code__)
                _KINDS.clear()
            owners = [value, *(vars(value).values() if isinstance(value, type) else ())]
            for each in owners:
                if isinstance(each, types.FunctionType) and each.__module__ == name:
                    each.__defaults__ = tuple(map(_simulated_one, each.__defaults__ or ())) or None
                    named = each.__kwdefaults__ or {}
                    each.__kwdefaults__ = {key: _simulated_one(named[key]) for key in named} or None


def _simulated_one(default: Any) -> Any:  # noqa: ANN401 - any default
    is_function = isinstance(default, types.BuiltinFunctionType | types.FunctionType)
    return _CLOCKS.get(default, default) if is_function else default
