"""The metrics: fixed names and labels, every series from 0, and a readable exposition."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.parser import text_string_to_metric_families

from simhash_core.errors import ErrorReason, ProtocolError, UnknownNameError
from simhash_core.verdicts import RejectionReason
from streams.kafka.errors import AbortedError, FencedError, StaleGenerationError
from streams.kafka.producers import DeliveryError
from streams.monitoring.metrics import (
    DEFINITIONS,
    IndexInfo,
    MetricKind,
    Metrics,
    Stage,
    TransactionOutcome,
)
from streams.store.row_store import StoreCorruptError, StoreFullError
from tests.repository.source_tree import ROOT

# The table of the documentation, which another test compares with the definitions.
ROW = re.compile(r"^\| `firstseen_(\w+)` \| (\w+) \| (.*?) \|", re.MULTILINE)
LABEL = re.compile(r"`(\w+)`(?:: ([\w, ]+))?")
DOCUMENTED = {
    f"firstseen_{name.removesuffix('_total')}": (kind, dict(LABEL.findall(labels)))
    for name, kind, labels in ROW.findall((ROOT / "docs" / "operations.md").read_text("utf-8"))
}

INDEX = IndexInfo("i 1", "app", "wide", "exactly_once", "split")


def fresh() -> Metrics:
    """Return metrics of a worker with one raw partition, without those of the process."""
    metrics = Metrics(CollectorRegistry(), index=INDEX)
    metrics.watched("raw", 3)
    metrics.lag({("raw", 3): 0})
    metrics.shard_state(3, entries=0, waiting=0)
    return metrics


@pytest.fixture
def metrics() -> Metrics:
    return fresh()


def families_of(metrics: Metrics) -> list[Metric]:
    return list(text_string_to_metric_families(metrics.exposition().decode()))


def value(metrics: Metrics, sample: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(sample, labels)


def test_exposition_has_the_names_types_and_labels_of_the_documentation(metrics: Metrics) -> None:
    families = families_of(metrics)
    assert {family.name for family in families} == DOCUMENTED.keys()
    for family in families:
        kind, labels = DOCUMENTED[family.name]
        assert family.type == {"info": "gauge"}.get(kind, kind)
        assert family.documentation.endswith(".")
        found: dict[str, set[str]] = {}
        for sample in family.samples:
            for label in sample.labels.keys() - {"le"}:
                found.setdefault(label, set()).add(sample.labels[label])
        assert not family.samples or found.keys() == labels.keys()
        assert all(set(labels[each].split(", ")) == found[each] for each in found if labels[each])
    for definition in DEFINITIONS:
        assert definition.name.endswith("_total") == (definition.kind is MetricKind.COUNTER)
        assert definition.answers.endswith((".", "?"))


def test_every_series_begins_at_zero(metrics: Metrics) -> None:
    for family in families_of(metrics):
        assert family.samples or family.name == "firstseen_report_missing"
        for sample in family.samples:
            assert sample.value == (1 if family.name.endswith("_info") else 0), sample


def test_default_registry_measures_the_process() -> None:
    names = {family.name for family in families_of(Metrics())}
    assert {"process_resident_memory_bytes", "process_cpu_seconds", *DOCUMENTED} <= names


def test_dead_letter_counts_as_reason_and_document(metrics: Metrics) -> None:
    for number, reason in enumerate(RejectionReason, 1):
        metrics.dead_letter(reason)
        assert value(metrics, "firstseen_dead_letters_total", reason=reason) == 1
        assert value(metrics, "firstseen_documents_total", verdict="dead_letter") == number


def test_each_assigned_shard_has_its_series(metrics: Metrics) -> None:
    metrics.assigned_shards(2)
    metrics.shard_state(0, entries=10, waiting=1)
    metrics.shard_state(3, entries=5, waiting=0)
    metrics.shard_state(0, entries=11, waiting=2)
    metrics.recovery_remaining(0, 100)
    metrics.recovery_remaining(3, 50)

    def shard(partition: int) -> list[float | None]:
        names = ("store_documents", "waiting_documents")
        return [value(metrics, f"firstseen_{name}", partition=str(partition)) for name in names]

    assert [shard(0), shard(3)] == [[11, 2], [5, 0]]
    assert value(metrics, "firstseen_assigned_shards") == 2
    assert value(metrics, "firstseen_recovery_remaining_messages") == 150
    metrics.forget_shard(0)
    assert [shard(0), shard(3)] == [[None, None], [5, 0]]
    assert value(metrics, "firstseen_recovery_remaining_messages") == 50
    metrics.assigned_shards(0)
    assert shard(3) == [None, None]
    assert value(metrics, "firstseen_recovery_remaining_messages") == 0


def test_only_a_leader_has_missing_reports(metrics: Metrics) -> None:
    metrics.leader(True)
    metrics.reports_missing({1, 4})
    assert value(metrics, "firstseen_leader") == 1
    assert value(metrics, "firstseen_report_missing", partition="1") == 1
    metrics.reports_missing([4])
    assert value(metrics, "firstseen_report_missing", partition="1") is None
    assert value(metrics, "firstseen_report_missing", partition="4") == 1
    metrics.leader(False)
    assert value(metrics, "firstseen_leader") == 0
    assert value(metrics, "firstseen_report_missing", partition="4") is None


def test_log_end_is_not_before_its_position_and_decided_log_has_no_age(metrics: Metrics) -> None:
    metrics.log_position(7, 9)
    assert value(metrics, "firstseen_log_end_offset") == 9
    metrics.log_position(12, 9)
    assert value(metrics, "firstseen_log_position_offset") == 12
    assert value(metrics, "firstseen_log_end_offset") == 12
    metrics.undecided(3, 1.5)
    assert value(metrics, "firstseen_undecided_oldest_seconds") == 1.5
    metrics.undecided(0, 1.5)
    assert value(metrics, "firstseen_undecided_documents") == 0
    assert value(metrics, "firstseen_undecided_oldest_seconds") == 0


def test_batch_counts_as_its_documents_do(metrics: Metrics) -> None:
    other = fresh()
    seconds, bits = [0.01, 0.011, -1.0, 4000.0], [0, 3, 3, 200]
    metrics.verdicts({"unique": 3, "near_duplicate": 1})
    metrics.latencies(seconds)
    metrics.distances(bits)
    metrics.bucket_documents([])
    for name in ("unique", "near_duplicate", "unique", "unique"):
        other.verdict(name)
    for each in seconds:
        other.latencies((each,))
    for distance in bits:
        other.distances((distance,))
    assert metrics.exposition() == other.exposition()


def test_step_counts_its_cpu_time(metrics: Metrics) -> None:
    with metrics.stage("lookup"):
        end = time.thread_time() + 0.02
        while time.thread_time() < end:
            pass
    cpu = value(metrics, "firstseen_stage_cpu_seconds_total", stage="lookup") or 0
    duration = value(metrics, "firstseen_stage_duration_seconds_sum", stage="lookup") or 0
    assert 0.02 <= cpu <= duration + 0.01


def test_step_that_waits_counts_no_cpu_time(metrics: Metrics) -> None:
    with metrics.waiting("commit"):
        sum(range(100_000))
    assert value(metrics, "firstseen_stage_duration_seconds_count", stage="commit") == 1
    assert value(metrics, "firstseen_stage_cpu_seconds_total", stage="commit") == 0


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (StoreFullError(Path("shard-0"), "no room"), "storage"),
        (OSError(28, "No space left on device"), "storage"),
        (StoreCorruptError(Path("shard-0"), "damaged"), "format"),
        (ProtocolError("records between them were skipped"), "format"),
        (DeliveryError("not delivered"), "broker"),
        (AbortedError("aborted"), "broker"),
        (FencedError("another worker has the name"), "fenced"),
        (StaleGenerationError("the group moved on"), "fenced"),
        (TimeoutError(), "timeout"),
        (ZeroDivisionError(), "internal"),
    ],
)
def test_failed_step_is_counted_by_its_reason(
    metrics: Metrics, error: Exception, reason: str
) -> None:
    with pytest.raises(type(error)), metrics.stage("store"):
        raise error
    assert value(metrics, "firstseen_errors_total", stage="store", reason=reason) == 1
    assert value(metrics, "firstseen_stage_duration_seconds_count", stage="store") == 1


def test_interruption_is_no_failure(metrics: Metrics) -> None:
    with pytest.raises(InterruptedError), metrics.stage("recover"):
        raise InterruptedError
    for reason in ErrorReason:
        assert value(metrics, "firstseen_errors_total", stage="recover", reason=reason) == 0


def test_lag_forgets_partitions_that_moved_away(metrics: Metrics) -> None:
    metrics.lag({("raw", 3): 7, ("raw", 0): 2})
    metrics.lag({("raw", 0): 5})
    lag = "firstseen_consumer_lag_messages"
    assert value(metrics, lag, topic="raw", partition="3") is None
    assert value(metrics, lag, topic="raw", partition="0") == 5


@pytest.mark.parametrize("distance", [0, 3, 48, 511])
def test_distance_is_in_the_buckets_from_it_upward(metrics: Metrics, distance: int) -> None:
    metrics.distances((distance,))
    bounds = [0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128]
    for bound in bounds:
        counted = value(metrics, "firstseen_duplicate_distance_bucket", le=f"{bound:.1f}")
        assert counted == (1 if distance <= bound else 0)
    assert value(metrics, "firstseen_duplicate_distance_bucket", le="+Inf") == 1


def test_other_events_raise_their_own_series_only(metrics: Metrics) -> None:
    metrics.input_bytes(1_000)
    metrics.error("output", "timeout")
    metrics.internal_bytes("log", 350)
    metrics.foreign_record("reports")
    metrics.packet_skipped()
    metrics.control_refused(2)
    metrics.in_flight(250, 500_000)
    metrics.rebalance()
    metrics.transaction(TransactionOutcome.FENCED)
    metrics.verdict("unique", 3)
    metrics.candidates(7, 500)
    metrics.candidates(3, 0)
    metrics.last_record(2_500)
    metrics.last_record(1_000)
    risen = {
        sample.name: sample.value
        for family in metrics.registry.collect()
        for sample in family.samples
        if sample.value and family.type != "info"
    }
    assert risen == {
        "firstseen_input_bytes_total": 1_000,
        "firstseen_errors_total": 1,
        "firstseen_internal_bytes_total": 350,
        "firstseen_foreign_records_total": 1,
        "firstseen_packets_skipped_total": 1,
        "firstseen_control_records_refused_total": 2,
        "firstseen_in_flight_documents": 250,
        "firstseen_in_flight_bytes": 500_000,
        "firstseen_rebalances_total": 1,
        "firstseen_transactions_total": 1,
        "firstseen_documents_total": 3,
        "firstseen_candidates_per_lookup_sum": 10,
        "firstseen_candidates_per_lookup_count": 500,
        "firstseen_last_record_timestamp_seconds": 2.5,
    }


def test_unknown_names_are_refused_with_the_known_ones(metrics: Metrics) -> None:
    with (
        pytest.raises(UnknownNameError, match="decide, fingerprint, lookup, output"),
        metrics.stage("stroll"),
    ):
        pytest.fail("not reached")
    with pytest.raises(UnknownNameError, match="broker, fenced"):
        metrics.error(Stage.OUTPUT, "whim")
    with pytest.raises(UnknownNameError, match="changelog, log, reports"):
        metrics.internal_bytes("raw", 1)
    assert value(metrics, "firstseen_errors_total", stage="output", reason=ErrorReason.BROKER) == 0
