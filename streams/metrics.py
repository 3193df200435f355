"""The metrics of a worker: a closed list, on a registry of its own.

Names have the prefix ``firstseen_``, base units (seconds, bytes), ``_total`` for counters. Each
metric says beside its definition what it answers. Ratios are left to the monitoring system, which
can take them over any time.
"""

from __future__ import annotations

import platform
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from importlib.metadata import version
from typing import Final, TypeVar

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import Metric, SummaryMetricFamily
from prometheus_client.registry import Collector

from simhash_core.errors import UnknownNameError
from simhash_core.rejections import RejectionReason
from streams.metric_labels import (
    DEAD_LETTER,
    MESSAGE_KINDS,
    REJECTION_REASONS,
    VERDICTS,
    ErrorReason,
    Stage,
    TransactionOutcome,
)

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST
"""The media type of ``Metrics.exposition``."""

# Up to a batch's wait: the pipeline's own time. Beyond: waiting for a broker or behind a backlog.
_LATENCY_SECONDS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800)
_STAGE_SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30)
# To the classic profile's distance one by one, then up to the widest fingerprint's.
_DISTANCE_BITS: Final = (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128)

_Name = TypeVar("_Name", bound=StrEnum)


class Metrics:
    """All metrics of one worker. Methods may be called from any thread."""

    def __init__(self, registry: CollectorRegistry | None = None, *, identity: str = "") -> None:
        """Put the metrics on ``registry``; without one, on a new one that has the process's too.

        ``identity`` is that of the index, for ``firstseen_index_info``.
        """
        # Of the process, whatever the registry: each counter would have a second series with the
        # time of its creation, which the age of the process says as well.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        if registry is None:
            registry = CollectorRegistry()
            ProcessCollector(registry=registry)
        self.registry = registry
        self._shards: dict[int, tuple[int, int]] = {}
        self._recovering: dict[int, int] = {}
        self._newest_ms = 0
        self._lock = threading.Lock()

        # How many documents went where? Throughput, and the share of duplicates.
        self._documents = Counter(
            "firstseen_documents", "Raw records decided.", ["verdict"], registry=registry
        )
        # How much comes in?
        self._input_bytes = Counter(
            "firstseen_input_bytes", "Bytes of raw records read.", registry=registry
        )
        # What is wrong with the records that cannot be read?
        self._dead_letters = Counter(
            "firstseen_dead_letters", "Raw records not readable.", ["reason"], registry=registry
        )
        # What fails in the service itself?
        self._errors = Counter(
            "firstseen_errors", "Steps that failed.", ["stage", "reason"], registry=registry
        )
        # How fresh is the output? now − this, where documents keep coming.
        self._last_record = Gauge(
            "firstseen_last_record_timestamp_seconds",
            "Newest record time decided, seconds since 1970.",
            registry=registry,
        )
        # How long does a document take, from its record's time to its verdict?
        self._latency = Histogram(
            "firstseen_end_to_end_latency_seconds",
            "From a record's time to its verdict.",
            buckets=_LATENCY_SECONDS,
            registry=registry,
        )
        # Where does the time go?
        self._stage = Histogram(
            "firstseen_stage_duration_seconds",
            "Time of one batch in one step.",
            ["stage"],
            buckets=_STAGE_SECONDS,
            registry=registry,
        )
        # Do blocks still tell documents apart? Candidates are what a look-up pays for.
        self._candidates = _CandidateSummary()
        registry.register(self._candidates)
        # Is the threshold in the right place? Duplicates heaped up below it say that it is low.
        self._distance = Histogram(
            "firstseen_distance_bits",
            "Distance of near duplicates to their originals.",
            buckets=_DISTANCE_BITS,
            registry=registry,
        )
        # Do documents wait for one another?
        self._parked = Gauge(
            "firstseen_parked_documents", "Documents behind an undecided one.", registry=registry
        )
        # What does the spread over partitions cost?
        self._internal_messages = Counter(
            "firstseen_internal_messages", "Messages to shards.", ["kind"], registry=registry
        )
        # How large is the state?
        self._store_documents = Gauge(
            "firstseen_store_documents", "Documents in the block tables.", registry=registry
        )
        # Who does the work?
        self._assigned_shards = Gauge(
            "firstseen_assigned_shards", "Shards that this worker owns.", registry=registry
        )
        # Is the group at rest?
        self._rebalances = Counter(
            "firstseen_rebalances", "Assignments of partitions received.", registry=registry
        )
        # Do commits go through?
        self._transactions = Counter(
            "firstseen_transactions", "Transactions ended.", ["outcome"], registry=registry
        )
        # How long until a started worker works?
        self._recovery_remaining = Gauge(
            "firstseen_recovery_remaining_messages",
            "Changelog records that shards have yet to read.",
            registry=registry,
        )
        # Do all workers have one index?
        Info("firstseen_index", "The index identity.", registry=registry).info(
            {"identity": identity}
        )
        # Which version runs where?
        Info("firstseen_build", "Versions.", registry=registry).info(
            {"version": version("firstseen"), "python_version": platform.python_version()}
        )

        self._by_verdict = {name: self._documents.labels(name) for name in VERDICTS}
        self._by_rejection = {name: self._dead_letters.labels(name) for name in REJECTION_REASONS}
        self._by_kind = {name: self._internal_messages.labels(name) for name in MESSAGE_KINDS}
        self._by_stage = {name: self._stage.labels(name) for name in Stage}
        self._by_outcome = {name: self._transactions.labels(name) for name in TransactionOutcome}
        self._by_error = {
            (stage, reason): self._errors.labels(stage, reason)
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
        """Time what is done inside, errors included; ``name`` is a ``Stage``'s.

        Raises ``UnknownNameError`` for another name.
        """
        timed = self._by_stage[_named(Stage, name)]
        started = time.perf_counter()
        try:
            yield
        finally:
            timed.observe(time.perf_counter() - started)

    def candidates(self, met: int, lookups: int) -> None:
        """Note the candidates that a number of look-ups met together."""
        self._candidates.add(met, lookups)

    def distance(self, bits: int) -> None:
        """Note the distance of a near duplicate to its original."""
        self._distance.observe(bits)

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


class _CandidateSummary(Collector):
    """Sum and count, which together give the mean over any time.

    Only the total of a batch is known, so the client library's ``Summary``, which takes one value
    at a time, does not fit.
    """

    def __init__(self) -> None:
        self._met = 0
        self._lookups = 0
        self._lock = threading.Lock()

    def add(self, met: int, lookups: int) -> None:
        with self._lock:
            self._met += met
            self._lookups += lookups

    def collect(self) -> Iterator[Metric]:
        with self._lock:
            met, lookups = self._met, self._lookups
        yield SummaryMetricFamily(
            "firstseen_candidates_per_lookup",
            "Candidates that look-ups met.",
            count_value=lookups,
            sum_value=met,
        )


def _named(names: type[_Name], name: str) -> _Name:
    try:
        return names(name)
    except ValueError:
        raise UnknownNameError(names.__name__, name, names) from None
