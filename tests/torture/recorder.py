"""Follows the log while the cluster runs, for its leader deletes what nobody needs any more."""

from __future__ import annotations

import threading
import time
from typing import Self

from simhash_core.documents import TopicPartition
from simhash_core.text.fingerprinter import Fingerprinter
from streams.kafka.topic_follower import ReadRecord, TopicFollower
from streams.settings.settings import Settings
from streams.worker.log_codec import LogCodec
from tests.torture.history import History

READ_SECONDS = 0.1
END_SECONDS = 60.0


class RecorderError(RuntimeError):
    """The log is not recorded from its beginning to its end: the run says nothing about order."""


class Recorder:
    """A thread that reads the log from its beginning; look at ``history`` after ``finish``."""

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
        """Raise ``RecorderError`` where something is missing so far."""
        if self._failure is not None:
            raise RecorderError(f"the log is not recorded: {self._failure}") from self._failure

    def finish(self) -> History:
        """Read to the present end; return what the log has said, or raise ``RecorderError``."""
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
