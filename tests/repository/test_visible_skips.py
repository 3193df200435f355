"""Nothing is refused or skipped silently: each case is counted, logged or shown by a command."""

from __future__ import annotations

import re

import pytest

from simhash_core.errors import ErrorReason
from simhash_core.verdicts import RejectionReason
from streams.monitoring.metrics import DEFINITIONS, MetricKind
from tests.repository.source_tree import ROOT, modules_of

COUNTED = {
    # by counter: the method that counts, and its callers, each of which logs
    "skipped_messages": ("skipped", {"worker/consume.py"}),
    "expired_outputs": ("expired_output", {"worker/outputs.py"}),
    "entries_beyond_lateness": ("beyond_lateness", {"worker/commit.py"}),
    "foreign_records": ("foreign_record", {"worker/look_up.py", "worker/decide.py"}),
    "packets_skipped": ("packet_skipped", {"worker/look_up.py"}),
    "control_records_refused": ("control_refused", {"worker/look_up.py"}),
    "transactions": ("transaction", {"worker/commit.py"}),
    "errors": ("error", {"store/recovery.py"}),
    # instead of a log line, a record with the reason is written
    "dead_letters": ("dead_letter", {"worker/commit.py"}),
}
OF_WORK_DONE = frozenset(
    {
        *("documents", "input_bytes", "internal_bytes", "stage_cpu_seconds", "rebalances"),
        *("schema_fetches", "deletes", "removed_entries"),
    }
)
LOGS = frozenset({"info", "warning", "error", "exception", "RateLimitedLog"})


CALL = re.compile(r"(\w+(?:\.\w+)?)\(")


@pytest.mark.parametrize("case", COUNTED)
def test_each_case_is_counted_and_logged_in_one_place(case: str) -> None:
    method, callers = COUNTED[case]
    found = {
        each.path.removeprefix("streams/"): {name.rpartition(".")[2] for name in calls}
        for each in modules_of("streams")
        if {f"metrics.{method}", f"_metrics.{method}"} & (calls := set(CALL.findall(each.text)))
    }
    assert found.keys() == callers
    assert case == "dead_letters" or all(calls & LOGS for calls in found.values())


def test_each_counter_is_of_a_case_or_of_what_is_done() -> None:
    counters = {each.name for each in DEFINITIONS if each.kind is MetricKind.COUNTER}
    assert counters == {f"firstseen_{name}_total" for name in {*COUNTED, *OF_WORK_DONE}}


@pytest.mark.parametrize("reason", RejectionReason)
def test_each_reason_of_a_dead_letter_is_explained(reason: RejectionReason) -> None:
    assert f"`{reason.value}`" in (ROOT / "docs" / "formats.md").read_text("utf-8")


def test_each_kind_of_failure_is_a_label_from_the_start() -> None:
    (errors,) = [each for each in DEFINITIONS if each.name == "firstseen_errors_total"]
    assert set(errors.labels["reason"]) == {reason.value for reason in ErrorReason}
