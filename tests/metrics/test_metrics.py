"""The metrics: names and labels pinned, every series from 0, the exposition readable."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from simhash_core.errors import UnknownNameError
from simhash_core.rejections import RejectionReason
from simhash_core.verdicts import VERDICT_NAMES
from streams.metric_labels import ErrorReason, Stage, TransactionOutcome
from streams.metrics import CONTENT_TYPE, Metrics

NAMES = {
    "firstseen_documents": "counter",
    "firstseen_input_bytes": "counter",
    "firstseen_dead_letters": "counter",
    "firstseen_errors": "counter",
    "firstseen_last_record_timestamp_seconds": "gauge",
    "firstseen_end_to_end_latency_seconds": "histogram",
    "firstseen_stage_duration_seconds": "histogram",
    "firstseen_candidates_per_lookup": "summary",
    "firstseen_distance_bits": "histogram",
    "firstseen_parked_documents": "gauge",
    "firstseen_internal_messages": "counter",
    "firstseen_store_documents": "gauge",
    "firstseen_assigned_shards": "gauge",
    "firstseen_rebalances": "counter",
    "firstseen_transactions": "counter",
    "firstseen_recovery_remaining_messages": "gauge",
    "firstseen_index_info": "gauge",
    "firstseen_build_info": "gauge",
}

LABELS = {
    "firstseen_documents": {"verdict": {*VERDICT_NAMES, "dead_letter"}},
    "firstseen_dead_letters": {"reason": set(RejectionReason)},
    "firstseen_errors": {
        "stage": {"fingerprint", "lookup", "send", "store", "recover"},
        "reason": {"broker", "timeout", "fenced", "format", "storage", "internal"},
    },
    "firstseen_stage_duration_seconds": {
        "stage": {"fingerprint", "lookup", "send", "store", "recover"}
    },
    "firstseen_internal_messages": {"kind": {"visit", "confirm", "withdraw", "refuse"}},
    "firstseen_transactions": {"outcome": {"committed", "aborted", "fenced"}},
    "firstseen_index_info": {"identity": {"i 1"}},
}


@pytest.fixture
def metrics() -> Metrics:
    """Metrics on a registry without those of the process."""
    return Metrics(CollectorRegistry(), identity="i 1")


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
