"""Workers with a fault, which is one of the functions of this module.

``Worker.start(FAULT)`` forks such a worker. ``python -m tests.rigs.workers.faulty_worker FAULT
[OPTION…]`` is one too: it takes the options of ``firstseen worker`` after the fault, and ends when
its standard input closes.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from simhash_core.log import versions
from streams.cli.main import run
from streams.kafka.clients import Producer
from streams.kafka.raw_consumer import RawRecords
from streams.kafka.transactions import TransactionalProducer
from streams.store.changelog import Changelog, LoggedBatch, Report
from streams.store.recovery import ShardStores
from streams.store.shard_store import ShardStore
from streams.worker import decide
from streams.worker.consume import Intake
from streams.worker.pipeline import Pipeline
from streams.worker.process import _Worker

STALL = b"STALL"
BLOCK = b"BLOCK"
LINGER_SECONDS = 5.0
LONG_SECONDS = 600.0

logger = logging.getLogger(__name__)


def closed() -> None:
    """Shards never open, but heartbeats continue, as in a worker that reads a large changelog."""

    def never(
        self: ShardStores, partition: int, committed_next: int, interrupted: threading.Event
    ) -> ShardStore:
        del self, committed_next
        interrupted.wait(LONG_SECONDS)
        raise InterruptedError(f"shard {partition} is not opened")

    ShardStores.open = never  # type: ignore[method-assign]


def lingering() -> None:
    """The worker waits for some seconds before it ends, so that a test can look at it."""
    shut_down = _Worker.on_worker_shutdown

    def linger(self: _Worker) -> None:
        time.sleep(LINGER_SECONDS)
        shut_down(self)

    _Worker.on_worker_shutdown = linger  # type: ignore[method-assign]


def older() -> None:
    """The worker reads only the format versions that the previous release reads."""
    versions.NEWEST = versions.OLDEST  # type: ignore[misc]


def slow_commit(text: str) -> None:
    """The first transaction with documents waits for ``text`` seconds before its commit."""
    seconds = float(text)
    until_done = TransactionalProducer._until_done
    commits: list[str] = []

    def slowly(
        self: TransactionalProducer, step: str, producer: Producer, call: Callable[[float], None]
    ) -> None:
        if step == "commit":
            commits.append(step)
            # The first commit has only the positions where shards begin, and no documents.
            if len(commits) == 2:
                logger.warning("sleeping in a transaction")
                producer.flush(seconds)
                time.sleep(seconds)
        until_done(self, step, producer, call)

    TransactionalProducer._until_done = slowly  # type: ignore[method-assign]


def slow_recovery(text: str) -> None:
    """The worker sleeps for ``text`` seconds before it reads its first changelog."""
    seconds = float(text)
    read = Changelog.read
    slept: set[int] = set()

    def slowly(
        self: Changelog,
        start: int,
        report: Report,
        lacks: Callable[[], str] = str,
        *,
        waits: bool = False,
    ) -> Iterator[LoggedBatch]:
        if not slept and threading.current_thread() is not threading.main_thread():
            slept.add(self.partition)
            logger.warning("%s: sleeping before it is read", self)
            time.sleep(seconds)
        return read(self, start, report, lacks, waits=waits)

    Changelog.read = slowly  # type: ignore[method-assign]


def stalling() -> None:
    """After a record with ``STALL`` outputs wait for ever; at ``BLOCK`` the event loop stops."""
    batch, commit = Intake.batch, Pipeline.commit
    stalled = threading.Event()

    def look(self: Intake) -> list[RawRecords]:
        found = batch(self)
        messages = (message for records in found for message in records.messages)
        values = b" ".join(message.value() or b"" for message in messages)
        if STALL in values:
            stalled.set()
        if BLOCK in values:
            time.sleep(LONG_SECONDS)
        return found

    async def wait(self: Pipeline) -> None:
        if stalled.is_set():
            await asyncio.Event().wait()
        await commit(self)

    Intake.batch = look  # type: ignore[method-assign]
    Pipeline.commit = wait  # type: ignore[method-assign]


def trimming() -> None:
    """The worker trims the log within a second; others wait a minute."""
    for name in ("_TRIM_SECONDS", "_POSITION_SECONDS"):
        assert name in vars(decide)
        vars(decide)[name] = 1.0


def system_clock(file: str) -> None:
    """Native code would see a wall clock that is off by the number of seconds in a file."""
    true_time, offset = time.clock_gettime, Path(file)

    def wrong_time(clock: int) -> float:
        wrong = float(offset.read_text("ascii") or 0) if clock == time.CLOCK_REALTIME else 0.0
        return true_time(clock) + wrong

    time.clock_gettime = wrong_time


def wall_clock(file: str) -> None:
    """Python's wall clock is off by the number of seconds in a file, which may change."""
    true_time, offset = time.time, Path(file)

    def wrong_time() -> float:
        return true_time() + float(offset.read_text("ascii"))

    time.time = wrong_time


FAULTS: dict[str, Callable[..., None]] = {
    each.__name__: each
    for each in (
        *(closed, lingering, older, slow_commit, slow_recovery, stalling, trimming),
        *(system_clock, wall_clock),
    )
}


def have(faults: str) -> None:
    """Give this process faults, each ``NAME`` or ``NAME=ARGUMENT``, with ``;`` between them."""
    for fault in faults.split(";"):
        name, _, argument = fault.partition("=")
        FAULTS[name](*([argument] if argument else []))


if __name__ == "__main__":
    from streams.cli.worker_launcher import end_when_orphaned

    have(sys.argv[1])
    threading.Thread(target=end_when_orphaned, daemon=True).start()
    run(["worker", *sys.argv[2:]])
