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
from tests.repository.source_tree import ROOT, calls_of, modules_of


class Case(NamedTuple):
    """Something that a worker does not do with what it was given.

    Attributes:
        what: In words.
        metric: That counts it.
        call: The method by which ``module`` counts it.
        module: Where it happens.
        is_logged: Whether the module logs it; False where each is a record with the reason.
        test: Shows it: file, and function.
    """

    what: str
    metric: str
    call: str
    module: str
    is_logged: bool
    test: str


CASES = (
    Case(
        "a raw record that is no document",
        "firstseen_dead_letters_total",
        "dead_letter",
        "streams/worker/commit.py",
        False,
        "tests/embedded/test_bad_input.py::test_each_record_ends_once",
    ),
    Case(
        "raw records that were deleted before they were read",
        "firstseen_skipped_messages_total",
        "skipped",
        "streams/worker/consume.py",
        True,
        "tests/kafka/test_raw_topic_changes.py::test_records_that_were_deleted_unread_are_told",
    ),
    Case(
        "an output that its topic deletes at once",
        "firstseen_expired_outputs_total",
        "expired_output",
        "streams/worker/outputs.py",
        True,
        "tests/unit/worker/test_expired_outputs.py::test_old_outputs_are_counted_and_logged_once",
    ),
    Case(
        "a record of the log that is of another index, or unreadable",
        "firstseen_foreign_records_total",
        "foreign_record",
        "streams/worker/look_up.py",
        True,
        "tests/kafka/test_other_settings.py::test_records_of_another_index_are_passed_over",
    ),
    Case(
        "a report that is of another index, or unreadable",
        "firstseen_foreign_records_total",
        "foreign_record",
        "streams/worker/decide.py",
        True,
        "tests/kafka/test_other_settings.py::test_records_of_another_index_are_passed_over",
    ),
    Case(
        "a packet that does not continue its chain",
        "firstseen_packets_skipped_total",
        "packet_skipped",
        "streams/worker/look_up.py",
        True,
        "tests/unit/core/log/test_decider.py::test_packet_that_breaks_its_chain_is_skipped",
    ),
    Case(
        "a control record that does not continue its chain",
        "firstseen_control_records_refused_total",
        "control_refused",
        "streams/worker/look_up.py",
        True,
        "tests/unit/core/log/test_replica.py::test_record_of_a_succeeded_leader_is_not_accepted",
    ),
    Case(
        "a transaction that was aborted, fenced or not answered",
        "firstseen_transactions_total",
        "transaction",
        "streams/worker/commit.py",
        True,
        "tests/unit/kafka/test_transactions.py::test_another_life_of_the_worker_fences",
    ),
    Case(
        "a store on the disk that is damaged",
        "firstseen_errors_total",
        "error",
        "streams/store/recovery.py",
        True,
        "tests/unit/store/test_shard_stores.py::test_a_damaged_store_is_rebuilt",
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

IN_COMMANDS = {
    "produce: lines that are no document, or too large": (
        "streams/cli/produce_command.py",
        ("unreadable", "blank_lines", "too_large"),
    ),
    "dlq replay: dead letters that are not sent again": (
        "streams/dead_letters/letters.py",
        ("replayed_before", "at_cap", "without_body", "of_another_topic"),
    ),
}
"""Commands count what they leave in the object that they write: where, and the fields."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.what)
def test_each_case_has_its_metric_and_its_line(case: Case) -> None:
    names = {each.name for each in DEFINITIONS}
    calls = {
        name.rpartition(".")[2]
        for module in modules_of("streams")
        if str(module.path) == case.module
        for name in calls_of(module)
    }
    file, _, function = case.test.partition("::")
    tests = {
        node.name
        for node in ast.parse((ROOT / file).read_text("utf-8")).body
        if isinstance(node, ast.FunctionDef)
    }
    assert case.metric in names
    assert case.call in calls
    assert not case.is_logged or calls & LOGGING
    assert function in tests


def test_the_list_is_closed() -> None:
    counters = {each.name for each in DEFINITIONS if each.kind is MetricKind.COUNTER}
    others = {f"firstseen_{name}_total" for name in OTHER_COUNTERS}
    assert counters - {case.metric for case in CASES} == others


def test_nobody_else_counts_what_is_skipped() -> None:
    methods = {case.call for case in CASES} - {"error", "transaction", "skipped"}
    callers = {
        (str(module.path), name.rpartition(".")[2])
        for module in modules_of("streams")
        for name in calls_of(module)
        if name.rpartition(".")[2] in methods and name.startswith(("metrics.", "_metrics."))
    }
    assert callers == {(case.module, case.call) for case in CASES if case.call in methods}


@pytest.mark.parametrize("reason", RejectionReason)
def test_each_reason_of_a_dead_letter_is_explained(reason: RejectionReason) -> None:
    assert f"`{reason.value}`" in (ROOT / "docs" / "formats.md").read_text("utf-8")


@pytest.mark.parametrize("what", IN_COMMANDS)
def test_commands_count_what_they_leave(what: str) -> None:
    module, fields = IN_COMMANDS[what]
    source = (ROOT / module).read_text("utf-8")
    assert [field for field in fields if f'"{field}"' not in source] == []


def test_each_kind_of_failure_is_a_label() -> None:
    (errors,) = [each for each in DEFINITIONS if each.name == "firstseen_errors_total"]
    assert set(errors.labels["reason"]) == {reason.value for reason in ErrorReason}
