"""Follows the outputs while the cluster runs: what is still waiting, and how long nothing came."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from simhash_core.documents import SourcePosition
from streams.documents.output_records import received_output
from streams.kafka.topic_follower import TopicFollower
from streams.settings.settings import Settings
from tests.torture.feed import Feed

READ_SECONDS = 0.1
TOLD_SECONDS = 5.0
OUTPUT_PARTITIONS = 4
DEAD_LETTER_PARTITIONS = 1


class StalledError(RuntimeError):
    """Documents are waiting, and no output has come for too long."""


def output_partitions(settings: Settings) -> dict[str, int]:
    outputs = dict.fromkeys(settings.output_topics, OUTPUT_PARTITIONS)
    return outputs | {settings.topics.dead_letters: DEAD_LETTER_PARTITIONS}


class Watch:
    """Reads the outputs, committed ones only; tells each longer stall when it is over."""

    def __init__(
        self, settings: Settings, feed: Feed, stall_seconds: float, narrate: Callable[[str], None]
    ) -> None:
        self.seen: set[SourcePosition] = set()
        self.longest_stall_seconds = 0.0
        self._settings = settings
        self._feed = feed
        self._stall_seconds = stall_seconds
        self._narrate = narrate

    @property
    def waiting(self) -> int:
        """How many acknowledged documents have no output yet."""
        return max(0, len(self._feed.acknowledged) - len(self.seen))

    async def run(self) -> None:
        """Read until cancelled, or raise ``StalledError``."""
        with TopicFollower(
            self._settings, output_partitions(self._settings), from_beginning=True, gaps="error"
        ) as follower:
            moved = time.monotonic()
            while True:
                records = await asyncio.to_thread(follower.read, READ_SECONDS)
                for record in records:
                    said = received_output(record.value, record.headers)
                    assert said is not None, f"{record.position} is no output of the filter"
                    self.seen.add(said.source)
                now = time.monotonic()
                stall = now - moved
                self.longest_stall_seconds = max(self.longest_stall_seconds, stall)
                if records or not self.waiting:
                    moved = now
                    if stall > TOLD_SECONDS:
                        self._narrate(f"no output came for {stall:.1f} s")
                elif stall > self._stall_seconds:
                    raise StalledError(
                        f"{self.waiting} documents are waiting, and nothing came for {stall:.0f} s"
                    )
