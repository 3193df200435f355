"""Nothing is refused or skipped in silence: the closed list of all cases, each with what shows it.

A case is shown by a metric, by a reason where there are several, and by a line of the log; or, in
a command, by a count in what it writes. Each has a test of its behaviour, which is named here.
"""

from __future__ import annotations

import ast
from typing import NamedTuple

import pytest

from simhash_core.errors import ErrorReason
from simhash_core.verdicts import RejectionReason
from streams.monitoring.metric_definitions import DEFINITIONS, MetricKind
from tests.repository.source_tree import ROOT, Module, calls_of, modules_of


class Case(NamedTuple):
    """Something that a worker does not do with what it was given.

    ``call`` counts it in the metric ``firstseen_…_total``, in ``module``, which logs it as well,
    unless each is a record with the reason. ``test`` shows it: file and function.
    """

    what: str
    metric: str
    call: str
    module: str
    test: str
    is_logged: bool = True


CASES = (
    Case(
        "a raw record that is no document",
        *("dead_letters", "dead_letter", "worker/commit.py"),
        "embedded/test_bad_input.py::test_each_record_ends_once",
        is_logged=False,
    ),
    Case(
        "raw records that were deleted before they were read",
        *("skipped_messages", "skipped", "worker/consume.py"),
        "kafka/test_raw_topic_changes.py::test_records_that_were_deleted_unread_are_told",
    ),
    Case(
        "an output that its topic deletes at once",
        *("expired_outputs", "expired_output", "worker/outputs.py"),
        "unit/worker/test_outputs.py::test_old_outputs_are_counted_and_logged_once",
    ),
    Case(
        "a record of the log that is of another index, or unreadable",
        *("foreign_records", "foreign_record", "worker/look_up.py"),
        "kafka/test_other_settings.py::test_records_of_another_index_are_passed_over",
    ),
    Case(
        "a report that is of another index, or unreadable",
        *("foreign_records", "foreign_record", "worker/decide.py"),
        "kafka/test_other_settings.py::test_records_of_another_index_are_passed_over",
    ),
    Case(
        "a packet that does not continue its chain",
        *("packets_skipped", "packet_skipped", "worker/look_up.py"),
        "unit/core/log/test_decider.py::test_packet_that_breaks_its_chain_is_skipped",
    ),
    Case(
        "a control record that does not continue its chain",
        *("control_records_refused", "control_refused", "worker/look_up.py"),
        "unit/core/log/test_replica.py::test_record_of_a_succeeded_leader_is_not_accepted",
    ),
    Case(
        "a transaction that was aborted, fenced or not answered",
        *("transactions", "transaction", "worker/commit.py"),
        "unit/kafka/test_transactions.py::test_another_life_of_the_worker_fences",
    ),
    Case(
        "a store on the disk that is damaged",
        *("errors", "error", "store/recovery.py"),
        "unit/store/test_recovery.py::test_a_damaged_store_is_rebuilt",
    ),
)

LOGGING = frozenset({"info", "warning", "error", "exception", "RateLimitedLog"})
"""Calls that write a line of the log, at once or now and then."""

OTHER_COUNTERS = frozenset(
    {
        *("documents", "input_bytes", "internal_bytes", "stage_cpu_seconds", "rebalances"),
        "schema_fetches",
        # A tombstone is done as it asks, and entries leave as the window says.
        *("deletes", "removed_entries"),
    }
)
"""Counters of what is done, and not of what is left."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.what)
def test_each_case_is_counted_logged_and_tested(case: Case) -> None:
    module = Module.of(ROOT / "streams" / case.module)
    calls = {name.rpartition(".")[2] for name in calls_of(module)}
    assert case.call in calls
    assert not case.is_logged or calls & LOGGING
    file, _, function = case.test.partition("::")
    tests = Module.of(ROOT / "tests" / file).tree.body
    functions = ast.FunctionDef | ast.AsyncFunctionDef
    assert function in {node.name for node in tests if isinstance(node, functions)}


def test_each_counter_is_of_a_case_or_of_what_is_done() -> None:
    counters = {each.name for each in DEFINITIONS if each.kind is MetricKind.COUNTER}
    names = {case.metric for case in CASES} | OTHER_COUNTERS
    assert counters == {f"firstseen_{name}_total" for name in names}


def test_nobody_else_counts_what_is_skipped() -> None:
    methods = {case.call for case in CASES} - {"error", "transaction", "skipped"}
    callers = {
        (module.path.removeprefix("streams/"), name.rpartition(".")[2])
        for module in modules_of("streams")
        for name in calls_of(module)
        if name.rpartition(".")[2] in methods and name.startswith(("metrics.", "_metrics."))
    }
    assert callers == {(case.module, case.call) for case in CASES if case.call in methods}


@pytest.mark.parametrize("reason", RejectionReason)
def test_each_reason_of_a_dead_letter_is_explained(reason: RejectionReason) -> None:
    assert f"`{reason.value}`" in (ROOT / "docs" / "formats.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("module", "fields"),
    [
        ("cli/produce_command.py", "unreadable blank_lines too_large"),
        ("dead_letters/letters.py", "replayed_before at_cap without_body of_another_topic"),
    ],
)
def test_commands_count_what_they_leave_in_their_output(module: str, fields: str) -> None:
    source = (ROOT / "streams" / module).read_text("utf-8")
    assert [field for field in fields.split() if f'"{field}"' not in source] == []


def test_each_kind_of_failure_is_a_label_from_the_start() -> None:
    (errors,) = [each for each in DEFINITIONS if each.name == "firstseen_errors_total"]
    assert set(errors.labels["reason"]) == {reason.value for reason in ErrorReason}
