"""The metrics: fixed names and labels, every series from 0, and a readable exposition."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.parser import text_string_to_metric_families

from simhash_core.errors import ProtocolError
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
from streams.registry.schemas import FetchOutcome
from streams.store.row_store import StoreCorruptError, StoreFullError

DEFINED = {each.name.removesuffix("_total"): each for each in DEFINITIONS}
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


def test_exposition_has_the_names_types_and_labels_of_the_definitions(metrics: Metrics) -> None:
    families = families_of(metrics)
    assert {family.name for family in families} == DEFINED.keys()
    for family in families:
        kind, labels = DEFINED[family.name].kind, DEFINED[family.name].labels
        assert family.type == ("gauge" if kind is MetricKind.INFO else kind)
        assert family.documentation.endswith(".")
        found: dict[str, set[str]] = {}
        for sample in family.samples:
            for label in sample.labels.keys() - {"le"}:
                found.setdefault(label, set()).add(sample.labels[label])
        assert not family.samples or found.keys() == labels.keys()
        assert all(set(labels[each]) == found[each] for each in found if labels[each])
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
    assert {"process_resident_memory_bytes", "process_cpu_seconds", *DEFINED} <= names


def samples(metrics: Metrics) -> dict[str, float]:
    """Return the value of each series, by a name such as ``errors_total{store,broker}``."""
    return {
        sample.name.removeprefix("firstseen_")
        + (f"{{{','.join(sample.labels.values())}}}" if sample.labels else ""): sample.value
        for family in metrics.registry.collect()
        for sample in family.samples
    }


SHARDS = (
    *(("assigned_shards", 2), ("shard_state", 0, 10, 1), ("shard_state", 3, 5, 0)),
    *(("shard_state", 0, 11, 2), ("recovery_remaining", 0, 100), ("recovery_remaining", 3, 50)),
)
LEADER = (("leader", True), ("reports_missing", {1, 4}), ("reports_missing", [4]))


@pytest.mark.parametrize(
    ("calls", "changes"),
    [
        (
            [("dead_letter", reason) for reason in RejectionReason],
            {f"dead_letters_total{{{reason}}}": 1 for reason in RejectionReason}
            | {"documents_total{dead_letter}": len(RejectionReason)},
        ),
        (
            SHARDS,
            {"assigned_shards": 2, "store_documents{0}": 11, "store_documents{3}": 5}
            | {"waiting_documents{0}": 2, "recovery_remaining_messages": 150},
        ),
        (
            [*SHARDS, ("forget_shard", 0)],
            {"assigned_shards": 2, "store_documents{3}": 5, "recovery_remaining_messages": 50},
        ),
        (
            [*SHARDS, ("assigned_shards", 0)],
            {"store_documents{3}": None, "waiting_documents{3}": None},
        ),
        (LEADER, {"leader": 1, "report_missing{4}": 1}),
        ([*LEADER, ("leader", False)], {}),
        ([("log_position", 7, 9)], {"log_position_offset": 7, "log_end_offset": 9}),
        ([("log_position", 12, 9)], {"log_position_offset": 12, "log_end_offset": 12}),
        ([("undecided", 3, 1.5)], {"undecided_documents": 3, "undecided_oldest_seconds": 1.5}),
        ([("undecided", 3, 1.5), ("undecided", 0, 1.5)], {}),
        (
            [("lag", {("raw", 3): 7, ("raw", 0): 2}), ("lag", {("raw", 0): 5})],
            {"consumer_lag_messages{raw,3}": None, "consumer_lag_messages{raw,0}": 5},
        ),
        ([("input_bytes", 1_000)], {"input_bytes_total": 1_000}),
        ([("error", "output", "timeout")], {"errors_total{output,timeout}": 1}),
        ([("internal_bytes", "log", 350)], {"internal_bytes_total{log}": 350}),
        ([("foreign_record", "reports")], {"foreign_records_total{reports}": 1}),
        ([("packet_skipped", 1)], {"packets_skipped_total": 1}),
        ([("control_refused", 2)], {"control_records_refused_total": 2}),
        ([("in_flight", 250, 500)], {"in_flight_documents": 250, "in_flight_bytes": 500}),
        ([("rebalance",)], {"rebalances_total": 1}),
        ([("beyond_lateness", 3)], {"entries_beyond_lateness_total": 3}),
        ([("expired_output", "unique")], {"expired_outputs_total{unique}": 1}),
        ([("schema_fetch", FetchOutcome.UNKNOWN)], {"schema_fetches_total{unknown}": 1}),
        (
            [("removed", 1, 2, 3), ("window", 5_000, None)],
            {"deletes_total": 1, "removed_entries_total{deleted}": 2}
            | {"removed_entries_total{expired}": 3, "oldest_entry_timestamp_seconds": 5},
        ),
        (
            [("standbys", 1, 2, 3)],
            {"standby_shards": 1, "standby_lag_messages": 2, "shards_without_standby": 3},
        ),
        ([("transaction", TransactionOutcome.FENCED)], {"transactions_total{fenced}": 1}),
        (
            [("candidates", 7, 500), ("candidates", 3, 0)],
            {"candidates_per_lookup_sum": 10, "candidates_per_lookup_count": 500},
        ),
        (
            [("last_record", 2_500), ("last_record", 1_000)],
            {"last_record_timestamp_seconds": 2.5},
        ),
    ],
)
def test_events_change_their_own_series_only(
    metrics: Metrics, calls: list[tuple[Any, ...]], changes: dict[str, float | None]
) -> None:
    before = samples(metrics)
    for name, *arguments in calls:
        getattr(metrics, name)(*arguments)
    after = samples(metrics)
    assert {
        name: after.get(name)
        for name in before.keys() | after.keys()
        if after.get(name) != before.get(name)
    } == changes


def test_batch_counts_as_its_documents_do(metrics: Metrics) -> None:
    other = fresh()
    seconds, bits = [0.01, 0.011, -1.0, 4000.0], [0, 3, 3, 200]
    metrics.verdicts({"unique": 3, "near_duplicate": 1})
    metrics.latencies(seconds)
    metrics.distances(bits)
    metrics.bucket_documents([])
    for name in ("unique", "near_duplicate", "unique", "unique"):
        other.verdicts({name: 1})
    for each in seconds:
        other.latencies((max(0.0, each),))
    for distance in bits:
        other.distances((distance,))
    assert metrics.exposition() == other.exposition()


def test_step_counts_its_cpu_time_unless_it_waits(metrics: Metrics) -> None:
    for step in (metrics.stage("lookup"), metrics.waiting("commit")):
        with step:
            end = time.thread_time() + 0.02
            while time.thread_time() < end:
                pass
    found = samples(metrics)
    seconds = found["stage_duration_seconds_sum{lookup}"]
    assert 0.02 <= found["stage_cpu_seconds_total{lookup}"] <= seconds + 0.01
    assert found["stage_duration_seconds_count{commit}"] == 1
    assert found["stage_cpu_seconds_total{commit}"] == 0


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
    with pytest.raises(InterruptedError), metrics.failures("recover"):
        raise InterruptedError
    assert samples(metrics) == samples(fresh())


@pytest.mark.parametrize("distance", [0, 3, 48, 511])
def test_distance_is_in_the_buckets_from_it_upward(metrics: Metrics, distance: int) -> None:
    metrics.distances((distance,))
    bounds = [0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128]
    for bound in bounds:
        counted = value(metrics, "firstseen_duplicate_distance_bucket", le=f"{bound:.1f}")
        assert counted == (1 if distance <= bound else 0)
    assert value(metrics, "firstseen_duplicate_distance_bucket", le="+Inf") == 1


def test_unknown_names_are_refused(metrics: Metrics) -> None:
    for count in (
        lambda: metrics.stage("stroll"),
        lambda: metrics.error(Stage.OUTPUT, "whim"),
        lambda: metrics.internal_bytes("raw", 1),
    ):
        with pytest.raises(KeyError):
            count()
    assert samples(metrics) == samples(fresh())
