"""The metrics: names and labels pinned, every series from 0, the exposition readable."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from simhash_core.errors import ProtocolError, UnknownNameError
from simhash_core.rejections import RejectionReason
from simhash_core.verdicts import VERDICT_NAMES
from streams.acked_producer import DeliveryError
from streams.metric_definitions import DEFINITIONS, MetricKind
from streams.metric_labels import ErrorReason, Stage, TransactionOutcome
from streams.metrics import CONTENT_TYPE, IndexInfo, Metrics
from streams.store.store_errors import StoreCorruptError, StoreFullError
from streams.transactions import AbortedError, FencedError

NAMES = {
    "firstseen_documents": "counter",
    "firstseen_input_bytes": "counter",
    "firstseen_internal_messages": "counter",
    "firstseen_consumer_lag_messages": "gauge",
    "firstseen_stalled_partitions": "gauge",
    "firstseen_broker_up": "gauge",
    "firstseen_skipped_messages": "counter",
    "firstseen_last_record_timestamp_seconds": "gauge",
    "firstseen_end_to_end_latency_seconds": "histogram",
    "firstseen_stage_duration_seconds": "histogram",
    "firstseen_candidates_per_lookup": "summary",
    "firstseen_distance_bits": "histogram",
    "firstseen_bucket_documents": "histogram",
    "firstseen_parked_documents": "gauge",
    "firstseen_store_documents": "gauge",
    "firstseen_store_bytes": "gauge",
    "firstseen_bucket_index_bytes": "gauge",
    "firstseen_state_disk_free_bytes": "gauge",
    "firstseen_state_disk_size_bytes": "gauge",
    "firstseen_rocksdb_block_cache_bytes": "gauge",
    "firstseen_rocksdb_block_cache_pinned_bytes": "gauge",
    "firstseen_rocksdb_block_cache_capacity_bytes": "gauge",
    "firstseen_rocksdb_memtable_bytes": "gauge",
    "firstseen_rocksdb_table_reader_bytes": "gauge",
    "firstseen_rocksdb_pending_compaction_bytes": "gauge",
    "firstseen_rocksdb_running_compactions": "gauge",
    "firstseen_rocksdb_level0_files": "gauge",
    "firstseen_rocksdb_stopped_shards": "gauge",
    "firstseen_rocksdb_background_errors": "gauge",
    "firstseen_assigned_shards": "gauge",
    "firstseen_opening_shards": "gauge",
    "firstseen_recovery_remaining_messages": "gauge",
    "firstseen_recovery_duration_seconds": "histogram",
    "firstseen_rebalances": "counter",
    "firstseen_transactions": "counter",
    "firstseen_dead_letters": "counter",
    "firstseen_errors": "counter",
    "firstseen_index_info": "gauge",
    "firstseen_build_info": "gauge",
}

LABELS = {
    "firstseen_documents": {"verdict": {*VERDICT_NAMES, "dead_letter"}},
    "firstseen_dead_letters": {"reason": set(RejectionReason)},
    "firstseen_errors": {
        "stage": {"fingerprint", "lookup", "send", "store", "recover", "watch"},
        "reason": {"broker", "timeout", "fenced", "format", "storage", "internal"},
    },
    "firstseen_consumer_lag_messages": {"topic": {"raw"}, "partition": {"3"}},
    "firstseen_skipped_messages": {"topic": {"raw"}, "partition": {"3"}},
    "firstseen_stage_duration_seconds": {
        "stage": {"fingerprint", "lookup", "send", "store", "recover", "watch"}
    },
    "firstseen_internal_messages": {"kind": {"visit", "confirm", "withdraw", "refuse"}},
    "firstseen_transactions": {"outcome": {"committed", "aborted", "fenced", "unanswered"}},
    "firstseen_index_info": {
        "identity": {"i 1"},
        "application_id": {"app"},
        "profile": {"wide"},
        "delivery": {"exactly_once"},
        "shards": {"4"},
    },
}

INDEX = IndexInfo("i 1", "app", "wide", "exactly_once", 4)


@pytest.fixture
def metrics() -> Metrics:
    """Metrics on a registry without those of the process, of a worker with one raw partition."""
    metrics = Metrics(CollectorRegistry(), index=INDEX)
    metrics.watched("raw", 3)
    metrics.lag({("raw", 3): 0})
    return metrics


def value(metrics: Metrics, sample: str, **labels: str) -> float | None:
    """The value of one sample, None where there is no such series."""
    return metrics.registry.get_sample_value(sample, labels)


def test_names_types_and_labels_are_pinned(metrics: Metrics) -> None:
    """Given new metrics, when the exposition is parsed, then it has exactly these metrics of these
    types, each with all values of its labels: dashboards and alerts of users go by them.
    """
    families = list(text_string_to_metric_families(metrics.exposition().decode()))

    assert {family.name: family.type for family in families} == NAMES
    for family in families:
        assert family.documentation.endswith(".")
        found: dict[str, set[str]] = {}
        for sample in family.samples:
            for label, text in sample.labels.items():
                if label != "le":
                    found.setdefault(label, set()).add(text)
        if family.name != "firstseen_build_info":
            assert found == LABELS.get(family.name, {})


def test_the_list_is_closed(metrics: Metrics) -> None:
    """Given new metrics, then they are those of the list, each with its help: no more, no fewer."""
    families = text_string_to_metric_families(metrics.exposition().decode())

    assert [d.name.removesuffix("_total") for d in DEFINITIONS] == list(NAMES)
    assert {family.name: family.documentation for family in families} == {
        each.name.removesuffix("_total"): each.help for each in DEFINITIONS
    }
    for each in DEFINITIONS:
        assert each.name.endswith("_total") == (each.kind is MetricKind.COUNTER)
        assert each.answers.endswith((".", "?"))


def test_every_series_begins_at_zero(metrics: Metrics) -> None:
    """Given new metrics, then all series are there and at 0, so that a first event is a rise."""
    for family in text_string_to_metric_families(metrics.exposition().decode()):
        assert family.samples
        for sample in family.samples:
            assert sample.value == (1 if family.name.endswith("_info") else 0), sample


def test_the_process_is_measured_too() -> None:
    """Given no registry, then memory and processor time of the process are there as well."""
    names = {f.name for f in text_string_to_metric_families(Metrics().exposition().decode())}

    assert {"process_resident_memory_bytes", "process_cpu_seconds", *NAMES} <= names


def test_two_workers_in_one_process_are_apart() -> None:
    """Given two metrics without a registry, when one counts, then the other does not."""
    one, other = Metrics(), Metrics()
    one.verdict("unique")

    assert value(one, "firstseen_documents_total", verdict="unique") == 1
    assert value(other, "firstseen_documents_total", verdict="unique") == 0


def test_every_verdict_is_counted(metrics: Metrics) -> None:
    """Given each verdict, when counted once and three times, then four are there."""
    for name in VERDICT_NAMES:
        metrics.verdict(name)
        metrics.verdict(name, 3)

    for name in VERDICT_NAMES:
        assert value(metrics, "firstseen_documents_total", verdict=name) == 4


@pytest.mark.parametrize("reason", RejectionReason)
def test_a_dead_letter_is_a_decided_record(metrics: Metrics, reason: RejectionReason) -> None:
    """Given a dead letter, then its reason is counted, and one record more is decided."""
    metrics.dead_letter(reason)

    assert value(metrics, "firstseen_dead_letters_total", reason=reason) == 1
    assert value(metrics, "firstseen_documents_total", verdict="dead_letter") == 1


def test_shards_are_added_up(metrics: Metrics) -> None:
    """Given what several shards hold, then the gauges have the sums of what each said last; when no
    shard is left, then 0.
    """
    metrics.assigned_shards(2)
    metrics.shard_state(0, documents=10, parked=1)
    metrics.shard_state(3, documents=5, parked=0)
    metrics.shard_state(0, documents=11, parked=2)
    metrics.recovery_remaining(0, 100)
    metrics.recovery_remaining(3, 50)

    def gauges() -> list[float | None]:
        names = ("assigned_shards", "store_documents", "parked_documents")
        return [
            *(value(metrics, f"firstseen_{name}") for name in names),
            value(metrics, "firstseen_recovery_remaining_messages"),
        ]

    assert gauges() == [2, 16, 2, 150]
    metrics.assigned_shards(0)
    assert gauges() == [0, 0, 0, 0]


def test_candidates_have_a_mean(metrics: Metrics) -> None:
    """Given batches of look-ups, then sum and count are those of all, also where a batch decided
    nothing.
    """
    metrics.candidates(7, 500)
    metrics.candidates(3, 0)

    assert value(metrics, "firstseen_candidates_per_lookup_sum") == 10
    assert value(metrics, "firstseen_candidates_per_lookup_count") == 500


def test_the_newest_record_counts(metrics: Metrics) -> None:
    """Given records out of order, then the gauge has the newest, in seconds."""
    metrics.last_record(2_500)
    metrics.last_record(1_000)

    assert value(metrics, "firstseen_last_record_timestamp_seconds") == 2.5


def test_a_latency_is_not_negative(metrics: Metrics) -> None:
    """Given a record from the future, as clocks that disagree make it, then it took no time."""
    metrics.latency(-5.0)
    metrics.latency(0.02)

    assert value(metrics, "firstseen_end_to_end_latency_seconds_sum") == pytest.approx(0.02)
    assert value(metrics, "firstseen_end_to_end_latency_seconds_bucket", le="0.01") == 1


@pytest.mark.parametrize("stage", Stage)
def test_stages_are_timed(metrics: Metrics, stage: Stage) -> None:
    """Given a step that fails, then its time is counted all the same."""
    with pytest.raises(ZeroDivisionError), metrics.stage(stage.value):
        _ = 1 / 0

    assert value(metrics, "firstseen_stage_duration_seconds_count", stage=stage) == 1


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (StoreFullError(Path("shard-0"), "no room"), "storage"),
        (OSError(28, "No space left on device"), "storage"),
        (StoreCorruptError(Path("shard-0"), "damaged"), "format"),
        (ProtocolError("records between them were skipped"), "format"),
        (DeliveryError("not delivered"), "broker"),
        (AbortedError("aborted"), "broker"),
        (FencedError("taken over"), "fenced"),
        (TimeoutError(), "timeout"),
        (ZeroDivisionError(), "internal"),
    ],
)
def test_a_step_that_fails_is_counted_by_its_reason(
    metrics: Metrics, error: Exception, reason: str
) -> None:
    """Given a step, when it fails, then it is counted once, by what made it fail."""
    with pytest.raises(type(error)), metrics.stage("store"):
        raise error

    assert value(metrics, "firstseen_errors_total", stage="store", reason=reason) == 1


def test_an_interruption_is_no_failure(metrics: Metrics) -> None:
    """Given a recovery that is interrupted as its shard moves away, then no error is counted."""
    with pytest.raises(InterruptedError), metrics.stage("recover"):
        raise InterruptedError

    for reason in ErrorReason:
        assert value(metrics, "firstseen_errors_total", stage="recover", reason=reason) == 0


def test_lag_is_that_of_the_present_partitions(metrics: Metrics) -> None:
    """Given partitions that moved away, when lag is noted of others, then the first have none."""
    metrics.lag({("raw", 3): 7, ("probes", 0): 2})
    metrics.lag({("probes", 0): 5})

    lag = "firstseen_consumer_lag_messages"
    assert value(metrics, lag, topic="raw", partition="3") is None
    assert value(metrics, lag, topic="probes", partition="0") == 5


@pytest.mark.parametrize("distance", [0, 3, 48, 511])
def test_distances(metrics: Metrics, distance: int) -> None:
    """Given a distance of any width, then it is in the buckets from it upward."""
    metrics.distance(distance)

    bounds = [0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128]
    for bound in bounds:
        counted = value(metrics, "firstseen_distance_bits_bucket", le=f"{bound:.1f}")
        assert counted == (1 if distance <= bound else 0)
    assert value(metrics, "firstseen_distance_bits_bucket", le="+Inf") == 1


def test_the_other_counters(metrics: Metrics) -> None:
    """Given each other event once, then its series rises, and no other."""
    metrics.input_bytes(1_000)
    metrics.error("send", "timeout")
    metrics.internal_message("withdraw", 2)
    metrics.rebalance()
    metrics.transaction(TransactionOutcome.FENCED)

    risen = {
        sample.name: sample.value
        for family in metrics.registry.collect()
        for sample in family.samples
        if sample.value and family.type != "info"
    }
    assert risen == {
        "firstseen_input_bytes_total": 1_000,
        "firstseen_errors_total": 1,
        "firstseen_internal_messages_total": 2,
        "firstseen_rebalances_total": 1,
        "firstseen_transactions_total": 1,
    }


def test_names_outside_the_lists(metrics: Metrics) -> None:
    """Given a stage or a reason that is none, then it is refused with those that there are."""
    with pytest.raises(UnknownNameError, match="fingerprint, lookup"), metrics.stage("stroll"):
        pytest.fail("not reached")
    with pytest.raises(UnknownNameError, match="broker, fenced"):
        metrics.error(Stage.SEND, "whim")
    assert value(metrics, "firstseen_errors_total", stage="send", reason=ErrorReason.BROKER) == 0


def test_the_media_type_is_the_text_formats() -> None:
    """Given the exposition, then it is served as what a scraper takes for it."""
    assert CONTENT_TYPE.startswith("text/plain; version=")
