"""What the stages of one worker share: its settings, clients, shards, and part in the protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from simhash_core.errors import FirstseenError
from simhash_core.log.participant import Participant
from simhash_core.log.records import LogRecord
from simhash_core.verdicts import Rejection
from streams.monitoring.metrics import Metrics
from streams.settings.settings import Settings
from streams.worker.clients import WorkerClients
from streams.worker.fingerprint import PendingRecord
from streams.worker.log_codec import LogCodec
from streams.worker.outputs import OutputRules
from streams.worker.shard import Shard

if TYPE_CHECKING:
    from streams.worker.traces import DocumentTraces


class OutputObserver(Protocol):
    """Receives committed outputs, for the ops page."""

    def note(self, outputs: Sequence[PendingRecord], now_ms: int) -> None: ...
    def note_rejections(self, rejections: Sequence[Rejection], now_ms: int) -> None: ...


class Observers(NamedTuple):
    """Who observes the worker; ``on_bucket`` gets the size of a document's fullest bucket."""

    metrics: Metrics
    recent: OutputObserver
    on_bucket: Callable[[int], None]
    traces: DocumentTraces | None = None


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """What the stages of one worker share.

    ``fail`` keeps an error for the exit message, and stops the worker. ``shards`` are the assigned
    shards, by raw partition.
    """

    settings: Settings
    rules: OutputRules
    clients: WorkerClients
    observers: Observers
    participant: Participant[PendingRecord]
    codec: LogCodec
    fail: Callable[[FirstseenError], None]
    shards: dict[int, Shard] = field(default_factory=dict)

    @property
    def metrics(self) -> Metrics:
        return self.observers.metrics

    def append(self, record: LogRecord) -> asyncio.Future[int]:
        """Append a record to the log, in the version in force; the result is its offset."""
        value = self.codec.encode(record, self.participant.version)
        self.metrics.internal_bytes("log", len(value))
        return self.clients.appender.append(self.settings.topics.log, value)

    def append_failed(self, error: BaseException) -> None:
        if not isinstance(error, FirstseenError):
            error = FirstseenError(f"an append failed: {error!r}")
        self.fail(error)
