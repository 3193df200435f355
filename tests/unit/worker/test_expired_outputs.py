"""Outputs older than their topic keeps records are counted, and logged once for each topic."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry

from simhash_core.documents import SourcePosition
from streams.kafka.producers import ProducerRecord
from streams.monitoring.metrics import Metrics
from streams.worker.outputs import ExpiredOutputs, OutputKind, OutputRules
from tests.unit.documents.samples import RULES

DAY_MS = 86_400_000
NOW_MS = 20_000 * DAY_MS


def keeping(retention_ms: int) -> OutputRules:
    """Rules of a worker whose topic of unique documents keeps records for so long."""
    return replace(RULES, retention_ms={RULES.topics.unique: retention_ms})


def output(topic: str, age_ms: int, offset: int = 0) -> ProducerRecord:
    """A record of so long ago."""
    about = (SourcePosition("raw", 3, offset),)
    return ProducerRecord(topic, b"k", b"v", None, NOW_MS - age_ms, (), about)


def counted(metrics: Metrics) -> dict[str, float]:
    return {
        kind: metrics.registry.get_sample_value("firstseen_expired_outputs_total", {"output": kind})
        or 0.0
        for kind in OutputKind
    }


def test_old_outputs_are_counted_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """For a topic that keeps a week; the other topic keeps all."""
    metrics = Metrics(CollectorRegistry())
    expired = ExpiredOutputs(keeping(7 * DAY_MS), metrics)
    caplog.set_level(logging.WARNING)

    expired.note([output("unique", 365 * DAY_MS, offset=42), output("duplicate-of", 9**15)], NOW_MS)
    expired.note([output("unique", 365 * DAY_MS)] * 2, NOW_MS)

    assert counted(metrics) == {
        "unique": 3,
        "duplicate_of": 0,
        "tagged": 0,
        "dead_letter": 0,
    }
    (line,) = caplog.messages
    for part in ("unique", f"{7 * DAY_MS // 1000} s", "raw/3@42", "retention.ms", "topics check"):
        assert part in line


@pytest.mark.parametrize(("age_ms", "expired"), [(DAY_MS + 1, 1), (DAY_MS, 0), (0, 0), (-5, 0)])
def test_the_limit_itself_is_kept(age_ms: int, expired: int) -> None:
    """Records without a time of their own are never past it."""
    metrics = Metrics(CollectorRegistry())
    noticed = ExpiredOutputs(keeping(DAY_MS), metrics)
    noticed.note([output("unique", age_ms), ProducerRecord("unique", b"k", b"v")], NOW_MS)
    assert counted(metrics)["unique"] == expired
