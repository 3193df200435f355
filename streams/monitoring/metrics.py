"""The metrics of a worker, as its parts note them; ``metric_definitions`` lists and explains them.

They are on a registry of their own, and are handed to whoever notes something.
"""

from __future__ import annotations

import platform
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from typing import Final, NamedTuple

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)

from simhash_core.errors import ErrorReason
from simhash_core.rejections import RejectionReason
from streams.monitoring import metric_definitions as defined
from streams.monitoring.metric_families import (
    BatchHistogram,
    PartitionGauge,
    TotalsSummary,
    counter,
    gauge,
    histogram,
    info,
)
from streams.monitoring.metric_labels import (
    DEAD_LETTER,
    OUTPUTS,
    REJECTION_REASONS,
    VERDICTS,
    Stage,
    TransactionOutcome,
    named,
    reason_of,
)
from streams.monitoring.ordering_metrics import OrderingMetrics
from streams.monitoring.shard_metrics import ShardMetrics
from streams.registry.fetched_schema import FetchOutcome

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST
"""The media type of ``Metrics.exposition``."""


_BITS_LIMIT: Final = 512
"""The widest fingerprint."""


class IndexInfo(NamedTuple):
    """The labels of ``firstseen_index_info``; ``identity`` is the short name of the index."""

    identity: str = ""
    application_id: str = ""
    profile: str = ""
    delivery: str = ""
    mode: str = ""


class _StageSeries(NamedTuple):
    """The series of one step."""

    duration: Histogram
    cpu: Counter


class Metrics(OrderingMetrics, ShardMetrics):
    """All metrics of one worker. Methods may be called from any thread."""

    def __init__(
        self, registry: CollectorRegistry | None = None, *, index: IndexInfo | None = None
    ) -> None:
        """Put the metrics on ``registry``; without one, on a new one that has the process's too."""
        # Of the process, whatever the registry: each counter would have a second series with the
        # time of its creation, which the age of the process says as well.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        if registry is None:
            # It knows the names of each collector, so that one may ask for a part (metric_history).
            registry = CollectorRegistry(auto_describe=True)
            ProcessCollector(registry=registry)
        OrderingMetrics.__init__(self, registry)
        ShardMetrics.__init__(self, registry)
        self.registry = registry
        self._newest_lock = threading.Lock()
        self._newest_ms = 0

        self._input_bytes = counter(defined.INPUT_BYTES, registry)
        self._skipped = counter(defined.SKIPPED, registry)
        self._lag = PartitionGauge(defined.CONSUMER_LAG, registry)
        self._stalled_partitions = gauge(defined.STALLED_PARTITIONS, registry)
        self._broker_up = gauge(defined.BROKER_UP, registry)
        self._open_transaction = gauge(defined.OPEN_TRANSACTION, registry)
        self._last_record = gauge(defined.LAST_RECORD, registry)
        self._latency = BatchHistogram(defined.LATENCY, registry)
        self._candidates = TotalsSummary(defined.CANDIDATES, registry)
        self._distance = BatchHistogram(defined.DISTANCE, registry)
        self.distance_counts = [0] * (_BITS_LIMIT + 1)
        """Duplicates by distance in bits, one by one: the metric has wide buckets."""
        self._bucket_documents = BatchHistogram(defined.BUCKET_DOCUMENTS, registry)
        self._rebalances = counter(defined.REBALANCES, registry)
        self._registry_waiting = gauge(defined.REGISTRY_WAITING, registry)
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
        stages = histogram(defined.STAGE_DURATION, registry)
        stages_cpu = counter(defined.STAGE_CPU, registry)
        self._by_stage = {
            name: _StageSeries(stages.labels(name), stages_cpu.labels(name)) for name in Stage
        }
        expired = counter(defined.EXPIRED_OUTPUTS, registry)
        self._expired_by_output = {name: expired.labels(name) for name in OUTPUTS}
        fetches = counter(defined.SCHEMA_FETCHES, registry)
        self._by_fetch = {name: fetches.labels(name) for name in FetchOutcome}
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

    def verdicts(self, documents: Mapping[str, int]) -> None:
        """Count the documents of a batch by their verdict, of ``VERDICT_NAMES``."""
        for name, count in documents.items():
            self._by_verdict[name].inc(count)

    def dead_letter(self, reason: RejectionReason) -> None:
        """Count a record that could not be read: as a dead letter and as decided."""
        self._by_rejection[reason].inc()
        self._by_verdict[DEAD_LETTER].inc()

    def input_bytes(self, size_bytes: int) -> None:
        """Count bytes of raw records."""
        self._input_bytes.inc(size_bytes)

    def error(self, stage: str, reason: str) -> None:
        """Count a failure; raises ``UnknownNameError`` for no ``Stage`` or ``ErrorReason``."""
        self._by_error[named(Stage, stage), named(ErrorReason, reason)].inc()

    def last_record(self, timestamp_ms: int) -> None:
        """Note the time of a decided record; an older one than the newest changes nothing."""
        with self._newest_lock:
            self._newest_ms = max(self._newest_ms, timestamp_ms)
            self._last_record.set(self._newest_ms / 1000)

    def latency(self, seconds: float) -> None:
        """Note how long a document took; clocks that disagree can make it negative, which is 0."""
        self.latencies((seconds,))

    def latencies(self, seconds: Sequence[float]) -> None:
        """Note how long each document of a batch took; see ``latency``."""
        self._latency.observe([max(0.0, each) for each in seconds])

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time a batch in one step, and count it where it fails; ``name`` is of ``Stage``.

        The CPU time is that of the calling thread, so a coroutine must not wait inside: what others
        do meanwhile would count as well; see ``waiting``. Raises ``UnknownNameError`` for another
        name.
        """
        cpu = self._by_stage[named(Stage, name)].cpu
        started = time.thread_time()
        try:
            with self.waiting(name):
                yield
        finally:
            cpu.inc(time.thread_time() - started)

    @contextmanager
    def waiting(self, name: str) -> Iterator[None]:
        """Time a step that waits for others, without its CPU time; else like ``stage``."""
        duration = self._by_stage[named(Stage, name)].duration
        started = time.perf_counter()
        try:
            with self.failures(name):
                yield
        finally:
            duration.observe(time.perf_counter() - started)

    @contextmanager
    def failures(self, stage: str) -> Iterator[None]:
        """Count what fails inside, untimed; an interruption on purpose is no failure."""
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

    def expired_output(self, output: str) -> None:
        """Count a record that its topic deletes soon; ``output`` is of ``OUTPUTS``."""
        self._expired_by_output[output].inc()

    def candidates(self, count: int, lookups: int) -> None:
        """Count the candidates that a number of look-ups had together."""
        self._candidates.add(count, lookups)

    def distance(self, bits: int) -> None:
        """Note the distance of a duplicate to its original."""
        self.distances((bits,))

    def distances(self, bits: Sequence[int]) -> None:
        """Note the distances of the duplicates of a batch to their originals."""
        self._distance.observe(bits)
        for each in bits:
            self.distance_counts[each] += 1

    def bucket_documents(self, sizes: Collection[int]) -> None:
        """Note how many documents each bucket of a look-up has."""
        self._bucket_documents.observe(sizes)

    def lag(self, messages: Mapping[tuple[str, int], int]) -> None:
        """Note the lag of all partitions of this worker, by topic and partition."""
        self._lag.replace({(topic, str(part)): lag for (topic, part), lag in messages.items()})

    def stalled_partitions(self, partitions: int) -> None:
        """Note how many partitions make no progress."""
        self._stalled_partitions.set(partitions)

    def broker_up(self, *, up: bool) -> None:
        """Note whether the broker has answered."""
        self._broker_up.set(up)

    def open_transaction(self, seconds: float) -> None:
        """Note for how long the oldest transaction is open; 0: none is."""
        self._open_transaction.set(seconds)

    def rebalance(self) -> None:
        """Count an assignment."""
        self._rebalances.inc()

    def registry_waiting(self, *, waiting: bool) -> None:
        """Note whether raw records wait for the schema registry."""
        self._registry_waiting.set(waiting)

    def schema_fetch(self, outcome: FetchOutcome) -> None:
        """Count a question to the schema registry."""
        self._by_fetch[outcome].inc()

    def transaction(self, outcome: TransactionOutcome) -> None:
        """Count a transaction."""
        self._by_outcome[outcome].inc()
