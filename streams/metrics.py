"""The metrics of a worker, as its parts note them; ``metric_definitions`` lists and explains them.

They are on a registry of their own, and are handed to whoever notes something.
"""

from __future__ import annotations

import platform
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from importlib.metadata import version
from typing import Final, NamedTuple, TypeVar

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)

from simhash_core.errors import UnknownNameError
from simhash_core.rejections import RejectionReason
from streams import metric_definitions as defined
from streams.error_reasons import reason_of
from streams.metric_families import ReplacedGauge, TotalsSummary, counter, gauge, histogram, info
from streams.metric_labels import (
    DEAD_LETTER,
    MESSAGE_KINDS,
    REJECTION_REASONS,
    VERDICTS,
    ErrorReason,
    Stage,
    TransactionOutcome,
)
from streams.store_statistics import STATISTICS, StoreStatistics

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST
"""The media type of ``Metrics.exposition``."""

_Name = TypeVar("_Name", bound=StrEnum)


class IndexInfo(NamedTuple):
    """What ``firstseen_index_info`` tells."""

    identity: str = ""
    application_id: str = ""
    profile: str = ""
    delivery: str = ""
    shards: int = 0


class Metrics:
    """All metrics of one worker. Methods may be called from any thread."""

    def __init__(
        self, registry: CollectorRegistry | None = None, *, index: IndexInfo | None = None
    ) -> None:
        """Put the metrics on ``registry``; without one, on a new one that has the process's too."""
        # Of the process, whatever the registry: each counter would have a second series with the
        # time of its creation, which the age of the process says as well.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        if registry is None:
            registry = CollectorRegistry()
            ProcessCollector(registry=registry)
        self.registry = registry
        self._lock = threading.Lock()
        self._shards: dict[int, tuple[int, int]] = {}
        self._recovering: dict[int, int] = {}
        self._newest_ms = 0

        self._input_bytes = counter(defined.INPUT_BYTES, registry)
        self._skipped = counter(defined.SKIPPED, registry)
        self._lag = ReplacedGauge(defined.CONSUMER_LAG, registry)
        self._stalled_partitions = gauge(defined.STALLED_PARTITIONS, registry)
        self._broker_up = gauge(defined.BROKER_UP, registry)
        self._last_record = gauge(defined.LAST_RECORD, registry)
        self._latency = histogram(defined.LATENCY, registry)
        self._candidates = TotalsSummary(defined.CANDIDATES, registry)
        self._distance = histogram(defined.DISTANCE, registry)
        self._bucket_documents = histogram(defined.BUCKET_DOCUMENTS, registry)
        self._parked = gauge(defined.PARKED_DOCUMENTS, registry)
        self._store_documents = gauge(defined.STORE_DOCUMENTS, registry)
        self._statistics = {
            name: gauge(definition, registry) for name, definition in STATISTICS.items()
        }
        self._disk_free = gauge(defined.STATE_DISK_FREE, registry)
        self._disk_size = gauge(defined.STATE_DISK_SIZE, registry)
        self._assigned_shards = gauge(defined.ASSIGNED_SHARDS, registry)
        self._opening_shards = gauge(defined.OPENING_SHARDS, registry)
        self._recovery_remaining = gauge(defined.RECOVERY_REMAINING, registry)
        self._recovery_duration = histogram(defined.RECOVERY_DURATION, registry)
        self._rebalances = counter(defined.REBALANCES, registry)
        index_labels = {
            label: str(value) for label, value in (index or IndexInfo())._asdict().items()
        }
        info(defined.INDEX_INFO, registry, index_labels)
        build = {"version": version("firstseen"), "python_version": platform.python_version()}
        info(defined.BUILD_INFO, registry, build)

        documents = counter(defined.DOCUMENTS, registry)
        self._by_verdict = {name: documents.labels(name) for name in VERDICTS}
        dead_letters = counter(defined.DEAD_LETTERS, registry)
        self._by_rejection = {name: dead_letters.labels(name) for name in REJECTION_REASONS}
        internal_messages = counter(defined.INTERNAL_MESSAGES, registry)
        self._by_kind = {name: internal_messages.labels(name) for name in MESSAGE_KINDS}
        stages = histogram(defined.STAGE_DURATION, registry)
        self._by_stage = {name: stages.labels(name) for name in Stage}
        transactions = counter(defined.TRANSACTIONS, registry)
        self._by_outcome = {name: transactions.labels(name) for name in TransactionOutcome}
        errors = counter(defined.ERRORS, registry)
        self._by_error = {
            (stage, reason): errors.labels(stage, reason)
            for stage in Stage
            for reason in ErrorReason
        }

    def exposition(self) -> bytes:
        """Return all metrics in the text format, of media type ``CONTENT_TYPE``."""
        return generate_latest(self.registry)

    def verdict(self, name: str, documents: int = 1) -> None:
        """Count documents with a verdict of ``VERDICT_NAMES``."""
        self._by_verdict[name].inc(documents)

    def dead_letter(self, reason: RejectionReason) -> None:
        """Count a record that could not be read: as a dead letter and as decided."""
        self._by_rejection[reason].inc()
        self._by_verdict[DEAD_LETTER].inc()

    def input_bytes(self, size_bytes: int) -> None:
        """Count bytes of raw records."""
        self._input_bytes.inc(size_bytes)

    def error(self, stage: str, reason: str) -> None:
        """Count a failure; raises ``UnknownNameError`` for no ``Stage`` or ``ErrorReason``."""
        self._by_error[_named(Stage, stage), _named(ErrorReason, reason)].inc()

    def last_record(self, timestamp_ms: int) -> None:
        """Note the time of a decided record; an older one than the newest changes nothing."""
        with self._lock:
            self._newest_ms = max(self._newest_ms, timestamp_ms)
            self._last_record.set(self._newest_ms / 1000)

    def latency(self, seconds: float) -> None:
        """Note how long a document took; clocks that disagree can make it negative, which is 0."""
        self._latency.observe(max(0.0, seconds))

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time what is done inside, and count it where it fails; ``name`` is a ``Stage``'s.

        Raises ``UnknownNameError`` for another name.
        """
        timed = self._by_stage[_named(Stage, name)]
        started = time.perf_counter()
        try:
            with self.failures(name):
                yield
        finally:
            timed.observe(time.perf_counter() - started)

    @contextmanager
    def failures(self, stage: str) -> Iterator[None]:
        """Count what fails inside, untimed; that it was interrupted on purpose is no failure."""
        try:
            yield
        except InterruptedError:
            raise
        except Exception as error:
            self.error(stage, reason_of(error))
            raise

    def watched(self, topic: str, partition: int) -> None:
        """Begin to count what is skipped of a raw partition, at 0."""
        self._skipped.labels(topic, str(partition))

    def skipped(self, topic: str, partition: int, offsets: int) -> None:
        """Count offsets of a raw partition that were deleted before they were read."""
        self._skipped.labels(topic, str(partition)).inc(offsets)

    def candidates(self, met: int, lookups: int) -> None:
        """Note the candidates that a number of look-ups met together."""
        self._candidates.add(met, lookups)

    def distance(self, bits: int) -> None:
        """Note the distance of a duplicate to its original."""
        self._distance.observe(bits)

    def bucket_documents(self, sizes: Iterable[int]) -> None:
        """Note how many documents each bucket of a look-up has."""
        for size in sizes:
            self._bucket_documents.observe(size)

    def internal_message(self, kind: str, messages: int = 1) -> None:
        """Count messages to shards, of ``MESSAGE_KINDS``."""
        self._by_kind[kind].inc(messages)

    def assigned_shards(self, shards: int) -> None:
        """Note how many shards are open; 0 forgets what was noted of each."""
        with self._lock:
            if shards == 0:
                self._shards.clear()
                self._recovering.clear()
                self._sum_up()
            self._assigned_shards.set(shards)

    def shard_state(self, partition: int, documents: int, parked: int) -> None:
        """Note how many documents a shard holds, and how many wait in it."""
        with self._lock:
            self._shards[partition] = documents, parked
            self._sum_up()

    def recovery_remaining(self, partition: int, messages: int) -> None:
        """Note how many changelog records a shard has yet to read."""
        with self._lock:
            self._recovering[partition] = messages
            self._sum_up()

    def opening_shards(self, shards: int) -> None:
        """Note how many of the assigned shards are not open yet."""
        self._opening_shards.set(shards)

    def recovered(self, seconds: float) -> None:
        """Note how long a shard took to open, from its assignment."""
        self._recovery_duration.observe(seconds)

    def lag(self, messages: Mapping[tuple[str, int], int]) -> None:
        """Note the lag of all partitions of this worker, by topic and partition."""
        self._lag.replace({(topic, str(part)): lag for (topic, part), lag in messages.items()})

    def stalled_partitions(self, partitions: int) -> None:
        """Note how many partitions stand still."""
        self._stalled_partitions.set(partitions)

    def broker_up(self, *, up: bool) -> None:
        """Note whether the broker has answered."""
        self._broker_up.set(up)

    def store(self, statistics: StoreStatistics) -> None:
        """Note what RocksDB tells of all shards together."""
        for name, series in self._statistics.items():
            series.set(getattr(statistics, name))

    def state_disk(self, free_bytes: int, size_bytes: int) -> None:
        """Note the room on the disk of the state."""
        self._disk_free.set(free_bytes)
        self._disk_size.set(size_bytes)

    def rebalance(self) -> None:
        """Count an assignment."""
        self._rebalances.inc()

    def transaction(self, outcome: TransactionOutcome) -> None:
        """Count a transaction."""
        self._by_outcome[outcome].inc()

    def _sum_up(self) -> None:
        """Set the gauges that are sums over shards; the lock is held."""
        self._store_documents.set(sum(documents for documents, _ in self._shards.values()))
        self._parked.set(sum(parked for _, parked in self._shards.values()))
        self._recovery_remaining.set(sum(self._recovering.values()))


def _named(names: type[_Name], name: str) -> _Name:
    try:
        return names(name)
    except ValueError:
        raise UnknownNameError(names.__name__, name, names) from None
