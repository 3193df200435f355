"""Since when three brokers accept writes: each partition needs a leader and two copies in sync."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol

from confluent_kafka import KafkaException

from streams.kafka.clients import AdminClient

IN_SYNC_MIN = 2
LOOK_SECONDS = 0.5
METADATA_SECONDS = 2.0


class Copies(Protocol):
    """The metadata of a partition."""

    leader: int
    isrs: list[int]


def accept_writes(partitions: Iterable[Copies]) -> bool:
    return all(each.leader >= 0 and len(each.isrs) >= IN_SYNC_MIN for each in partitions)


class WritableBrokers:
    """``since``: in monotonic seconds; infinity while brokers say that they accept no writes.

    Brokers that do not answer change nothing.
    """

    def __init__(self, bootstrap_servers: str) -> None:
        self.since = 0.0
        self._admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
        self._ended = threading.Event()

    @contextmanager
    def watched(self) -> Iterator[None]:
        thread = threading.Thread(target=self._watch, name="writable", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(LOOK_SECONDS):
            try:
                topics = self._admin.list_topics(timeout=METADATA_SECONDS).topics
            except KafkaException:
                continue
            partitions = [each for topic in topics.values() for each in topic.partitions.values()]
            if not accept_writes(partitions):
                self.since = math.inf
            elif self.since == math.inf:
                self.since = time.monotonic()
