"""Notices records that their topic deletes as soon as they are there.

An output has the time of its raw record, and brokers delete by that time. Whoever sends an archive
to topics that keep records for a week would find them empty, and nothing said why.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from streams.kafka.producer_record import ProducerRecord
from streams.monitoring.metrics import Metrics
from streams.output.output_records import OutputKind

logger = logging.getLogger(__name__)


class ExpiredOutputs:
    """Counts them; the first of each topic is logged."""

    def __init__(
        self, retention_ms: Mapping[str, int], kinds: Mapping[str, OutputKind], metrics: Metrics
    ) -> None:
        """See below.

        Args:
            retention_ms: By topic, how long it keeps a record by the record's time. Topics that
                keep records for ever are left out.
            kinds: What each output topic is for.
            metrics: Where they are counted.
        """
        self._retention_ms = retention_ms
        self._kinds = kinds
        self._metrics = metrics
        self._logged: set[str] = set()

    def note(self, records: Iterable[ProducerRecord], now_ms: int) -> None:
        """Take in what was put out."""
        if not self._retention_ms:
            return
        oldest_kept = {topic: now_ms - kept for topic, kept in self._retention_ms.items()}
        for record in records:
            oldest, time_ms = oldest_kept.get(record.topic), record.timestamp_ms
            if oldest is None or time_ms is None or time_ms >= oldest:
                continue
            self._metrics.expired_output(self._kinds[record.topic])
            if record.topic not in self._logged:
                self._logged.add(record.topic)
                logger.warning(
                    "%s deletes records that are older than %d s (retention.ms), and the record "
                    "of %s is %d s old: the broker will soon delete it and others like it. Raise "
                    "retention.ms, or set it to -1: 'firstseen topics check' says how",
                    record.topic,
                    self._retention_ms[record.topic] // 1000,
                    ", ".join(map(str, record.about)),
                    (now_ms - time_ms) // 1000,
                )
