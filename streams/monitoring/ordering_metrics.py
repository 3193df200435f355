"""The metrics of ordering and deciding: the log, its leader, and what is in flight."""

from __future__ import annotations

from collections.abc import Collection

from prometheus_client import CollectorRegistry

from streams.monitoring import metric_definitions as defined
from streams.monitoring.metric_families import PartitionGauge, counter, gauge
from streams.monitoring.metric_labels import InternalTopic, named


class OrderingMetrics:
    """What a worker notes of the log. Methods may be called from any thread."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Put the metrics on ``registry``."""
        self._log_position = gauge(defined.LOG_POSITION, registry)
        self._log_end = gauge(defined.LOG_END, registry)
        self._undecided_documents = gauge(defined.UNDECIDED_DOCUMENTS, registry)
        self._undecided_age = gauge(defined.UNDECIDED_AGE, registry)
        self._leader = gauge(defined.LEADER, registry)
        self._report_missing = PartitionGauge(defined.REPORT_MISSING, registry)
        self._control_refused = counter(defined.CONTROL_REFUSED, registry)
        self._packets_skipped = counter(defined.PACKETS_SKIPPED, registry)
        self._in_flight_documents = gauge(defined.IN_FLIGHT_DOCUMENTS, registry)
        self._in_flight_bytes = gauge(defined.IN_FLIGHT_BYTES, registry)
        internal_bytes = counter(defined.INTERNAL_BYTES, registry)
        self._internal_bytes = {name: internal_bytes.labels(name) for name in InternalTopic}
        foreign = counter(defined.FOREIGN_RECORDS, registry)
        self._foreign = {name: foreign.labels(name) for name in InternalTopic}

    def log_position(self, position: int, end: int) -> None:
        """Note the offset of the log to be read next, and its end."""
        self._log_position.set(position)
        self._log_end.set(max(position, end))

    def undecided(self, documents: int, oldest_seconds: float) -> None:
        """Note the documents in the log without a verdict, and the age of the oldest."""
        self._undecided_documents.set(documents)
        self._undecided_age.set(oldest_seconds if documents else 0)

    def leader(self, is_leader: bool) -> None:  # noqa: FBT001 - the one thing that it says
        """Note whether this worker leads; one that does not waits for no report."""
        self._leader.set(is_leader)
        if not is_leader:
            self.reports_missing(())

    def reports_missing(self, shards: Collection[int]) -> None:
        """Note the shards whose report the leader waits for, in place of those before."""
        self._report_missing.replace({(str(shard),): 1 for shard in shards})

    def control_refused(self, records: int = 1) -> None:
        """Count control records that are out of their chain."""
        self._control_refused.inc(records)

    def packet_skipped(self, packets: int = 1) -> None:
        """Count packets that do not continue their chain."""
        self._packets_skipped.inc(packets)

    def foreign_record(self, topic: str) -> None:
        """Count a record that is ignored, of another index; ``topic`` is of ``InternalTopic``."""
        self._foreign[named(InternalTopic, topic)].inc()

    def in_flight(self, documents: int, size_bytes: int) -> None:
        """Note the raw records that were read and are not put out yet."""
        self._in_flight_documents.set(documents)
        self._in_flight_bytes.set(size_bytes)

    def internal_bytes(self, topic: str, size_bytes: int) -> None:
        """Count bytes sent to an internal topic; ``topic`` is of ``InternalTopic``."""
        self._internal_bytes[named(InternalTopic, topic)].inc(size_bytes)
