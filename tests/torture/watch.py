"""Follows the outputs and the log while the cluster runs.

From the outputs it determines which documents wait, and how long no output came. It also reads the
log, because the leader deletes records that no shard needs any more.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import NamedTuple, Self

from simhash_core.documents import SourcePosition, TopicPartition
from simhash_core.text.fingerprinter import Fingerprinter
from streams.documents.output_records import received_output
from streams.kafka.topic_follower import ReadRecord, TopicFollower
from streams.settings.settings import Settings
from streams.worker.log_codec import LogCodec
from tests.torture.feed import Feed
from tests.torture.history import History
from tests.torture.stalls import Stall

READ_SECONDS = 0.1
LOGGED_STALL_SECONDS = 5.0
KEPT_SECONDS = 0.5
END_SECONDS = 60.0
OUTPUT_PARTITIONS = 4
DEAD_LETTER_PARTITIONS = 1


class StalledError(RuntimeError):
    """Documents wait, and no output has come for too long, although a worker could work."""


class NobodyWorksError(RuntimeError):
    """No output has come for too long, but no worker could work, so this is not their fault."""


def output_partitions(settings: Settings) -> dict[str, int]:
    outputs = dict.fromkeys(settings.output_topics, OUTPUT_PARTITIONS)
    return outputs | {settings.topics.dead_letters: DEAD_LETTER_PARTITIONS}


class StallLimits(NamedTuple):
    """The seconds without an output after which a run is given up: those that count, and all."""

    counted: float
    raw: float


class Watch:
    """Reads the committed outputs; reports each longer stall when it is over.

    ``able_since`` returns since when a worker and brokers are up, and brokers accept writes;
    infinity if none can work.
    """

    def __init__(
        self,
        settings: Settings,
        feed: Feed,
        limits: StallLimits,
        able_since: Callable[[], float],
        narrate: Callable[[str], None],
    ) -> None:
        self.seen: set[SourcePosition] = set()
        self.longest_stall_seconds = 0.0
        self.stalls: list[Stall] = []
        self._settings = settings
        self._feed = feed
        self._limits = limits
        self._able_since = able_since
        self._narrate = narrate
        self._expected: AbstractSet[SourcePosition] | None = None

    def expect(self, sources: AbstractSet[SourcePosition]) -> None:
        """Wait for these documents after the feed has ended: all that the raw topic has."""
        self._expected = sources

    @property
    def waiting(self) -> int:
        if self._expected is not None:
            return len(self._expected - self.seen)
        return max(0, self._feed.arrived - len(self.seen))

    async def run(self) -> None:
        """Read until cancelled, or raise ``StalledError``."""
        with TopicFollower(
            self._settings, output_partitions(self._settings), from_beginning=True, gaps="error"
        ) as follower:
            moved, counted = time.monotonic(), 0.0
            while True:
                records = await asyncio.to_thread(follower.read, READ_SECONDS)
                for record in records:
                    said = received_output(record.value, record.headers)
                    assert said is not None, f"{record.position} is no output of the filter"
                    self.seen.add(said.source)
                now = time.monotonic()
                stall = now - moved
                self.longest_stall_seconds = max(self.longest_stall_seconds, stall)
                counted = max(counted, now - max(moved, self._able_since()))
                if records or not self.waiting:
                    if stall > KEPT_SECONDS:
                        self.stalls.append(Stall(moved, now, counted))
                    if stall > LOGGED_STALL_SECONDS:
                        self._narrate(f"no output came for {stall:.1f} s, {counted:.1f} counted")
                    moved, counted = now, 0.0
                    continue
                trouble = (
                    f"{self.waiting} documents are waiting, and nothing came for {stall:.0f} s"
                )
                if counted > self._limits.counted:
                    self.stalls.append(Stall(moved, now, counted))
                    raise StalledError(trouble)
                if stall > self._limits.raw:
                    raise NobodyWorksError(f"{trouble}; no worker could work meanwhile")

    @property
    def longest_counted_seconds(self) -> float:
        return max((stall.counted for stall in self.stalls), default=0.0)


class RecorderError(RuntimeError):
    """The log was not recorded completely, so the run shows nothing about order."""


class Recorder:
    """A thread that reads the log from its beginning; use ``history`` only after ``finish``."""

    def __init__(self, settings: Settings) -> None:
        self.history = History()
        self.records = 0
        self._topic = settings.topics.log
        self._settings = settings
        self._codec = LogCodec(Fingerprinter(settings.index_profile()).identity)
        self._next = 0
        self._failure: Exception | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join(END_SECONDS)

    def check(self) -> None:
        if self._failure is not None:
            raise RecorderError(f"the log is not recorded: {self._failure}") from self._failure

    def finish(self) -> History:
        """Read to the present end; return the content of the log, or raise ``RecorderError``."""
        deadline = time.monotonic() + END_SECONDS
        with TopicFollower(self._settings, {self._topic: 1}, from_beginning=False) as follower:
            end = follower.ends()[TopicPartition(self._topic, 0)]
        while self._next < end:
            self.check()
            if time.monotonic() > deadline:
                raise RecorderError(f"the log is recorded up to {self._next}, and ends at {end}")
            time.sleep(READ_SECONDS)
        self.check()
        return self.history

    def _run(self) -> None:
        try:
            with TopicFollower(
                self._settings, {self._topic: 1}, from_beginning=True, gaps="error"
            ) as follower:
                while not self._stopped.is_set():
                    for record in follower.read(READ_SECONDS):
                        self._take(record)
        except Exception as error:  # noqa: BLE001 - told by check, in the main thread
            self._failure = error

    def _take(self, record: ReadRecord) -> None:
        offset = record.position.offset
        if offset != self._next:
            raise RecorderError(f"{self._next} to {offset - 1} were deleted before they were read")
        said = self._codec.decode(record.value or b"", str(record.position))
        self.history.take(offset, said, record.timestamp_ms)
        self._next = offset + 1
        self.records += 1
