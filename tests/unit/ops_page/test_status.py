"""The status of a worker, made from its parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from simhash_core.errors import FirstseenError
from streams.ops_page.status import KEPT_SECONDS, FullestBuckets
from tests.rigs.manual_clock import ManualClock
from tests.rigs.waiting import await_that
from tests.unit.ops_page.served_page import INDEX, LEADER, WORKER, Served, at_work, served_page


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with served_page(tmp_path) as running:
        yield running


def status_when(served: Served, holds: Callable[[Any], bool]) -> Any:  # noqa: ANN401 - JSON
    """Return the status once ``holds`` is true for it, within some samples."""
    await_that(lambda: holds(served.status()), shows=served.status)
    return served.status()


def test_status_of_a_worker_at_work(served: Served) -> None:
    at_work(served)
    served.view.format_version = 5
    served.metrics.skipped("raw-documents", 0, 12)
    served.metrics.foreign_record("log")
    status = status_when(served, lambda status: status["in_flight"]["documents"] == 240)
    assert (status["index"], status["schema"]) == (INDEX, "firstseen.status/3")
    assert status["ordering"] == {
        "leads": False,
        "leader": f"{LEADER}.7f3a",
        "format_version": 5,
        "log_position": 4_381,
        "log_end": 4_390,
        "undecided_documents": 250,
        "undecided_oldest_seconds": 0.012,
        "reports_missing": [],
        "packets_skipped": 3,
        "control_records_refused": 1,
        "foreign_records": 1,
    }
    assert status["in_flight"]["bytes"] == 480_000
    assert status["candidates"]["fullest_bucket"] == 37
    assert [lag["messages"] for lag in status["lag"]] == [1_260, 7]
    distances = status["distances"]
    counts = distances["counts"]
    assert (len(counts), distances["beyond"]) == (distances["near"] + 1, 0)
    assert (counts[0], counts[33], sum(counts)) == (25, 15, 115)
    assert status["worker"]["name"] == WORKER
    assert status["process"]["memory_bytes"] > 1_000_000
    assert 0 < status["latency"]["p50"] < status["latency"]["p99"] <= 0.1
    troubles = status["troubles"]
    assert troubles["errors"] == {"commit/broker": 1}
    assert troubles["dead_letters"] == {"not_json": 2, "missing_text": 1}
    assert (troubles["rebalances"], troubles["skipped"]) == (1, 12)


def test_status_of_a_leader_names_missing_reports(served: Served) -> None:
    served.view.leads = True
    served.metrics.leader(True)
    served.metrics.reports_missing({7, 1})
    status = status_when(served, lambda status: bool(status["ordering"]["reports_missing"]))
    assert (status["ordering"]["leads"], status["ordering"]["reports_missing"]) == (True, [1, 7])


def test_status_of_a_shard_from_recovery_to_ready(served: Served) -> None:
    served.status()
    state = served.view.states[2]
    served.view.states[2] = state._replace(recovery_remaining=6_000)
    ready, recovering = served.status()["shards"]
    assert (ready["partition"], ready["state"], ready["entries"]) == (0, "ready", 120_345)
    assert (ready["waiting"], ready["next_offset"], ready["log_position"]) == (240, 130_001, 4_120)
    assert ready["recovered"] is None
    assert (recovering["state"], recovering["remaining"]) == ("recovering", 6_000)
    assert recovering["recovered"] == pytest.approx(1 - 6_000 / 12_345, abs=1e-4)
    served.view.states[2] = state._replace(recovery_remaining=0)
    assert served.status()["shards"][1]["state"] == "opening"
    served.view.states[2] = state._replace(is_open=True, recovery_remaining=0)
    assert served.status()["shards"][1]["state"] == "ready"


OPENING, DEAD = "shards [2] are being opened", "no room on the disk"
WAITS = (
    "documents have waited 130 s for the reports of shard 1 (last owned by worker firstseen.51aa)"
)
MISSING = "shards without an open standby: 0 1 3-6"


@pytest.mark.parametrize(
    ("is_open", "dead", "waits", "without_standby", "healthz", "readyz"),
    [
        (False, None, None, (), "ok", OPENING),
        (True, None, None, (), "ok", "ready"),
        (True, DEAD, None, (), DEAD, "ready"),
        (False, None, WAITS, (), f"ok: {WAITS}", OPENING),
        (True, None, WAITS, (), f"ok: {WAITS}", f"ready: {WAITS}"),
        (True, None, None, (0, 1, 3, 4, 5, 6), "ok", f"ready: {MISSING}"),
        (True, None, WAITS, (0, 1, 3, 4, 5, 6), f"ok: {WAITS}", f"ready: {WAITS}; {MISSING}"),
    ],
)
def test_probes_say_what_is_wrong_and_for_whom_a_healthy_worker_waits(
    served: Served,
    is_open: bool,
    dead: str | None,
    waits: str | None,
    without_standby: tuple[int, ...],
    healthz: str,
    readyz: str,
) -> None:
    served.view.states[2] = served.view.states[2]._replace(is_open=is_open)
    served.view.failure = None if dead is None else FirstseenError(dead)
    served.view.without_standby = without_standby
    served.health.why_waiting = waits
    for path, body in (("/healthz", healthz), ("/readyz", readyz)):
        is_well = body not in {OPENING, DEAD}
        status = HTTPStatus.OK if is_well else HTTPStatus.SERVICE_UNAVAILABLE
        reply = served.ask("GET", path)
        assert (reply.status, reply.body.decode()) == (status, f"{body}\n")
    status = served.status()
    assert (status["why_dead"], status["why_waiting"]) == (dead, waits)


def test_group_sums_present_figures_of_this_worker_and_notes_of_others(served: Served) -> None:
    served.metrics.verdicts({"unique": 880})
    status = status_when(served, lambda status: status["documents"]["unique"] == 880)
    group = status["group"]
    this, leader, new = group["workers"]
    assert (this["name"], this["is_this"], this["partitions"]) == (WORKER, True, [0, 2])
    assert this["documents"]["unique"] == 880
    assert (leader["name"], leader["leads"], leader["is_this"]) == (LEADER, True, False)
    assert leader["page"] == "http://worker-1.internal:6066/"
    assert (new["documents"], new["page"], new["partitions"]) == (None, None, [])
    assert group["documents"]["unique"] == 880 + 5_120
    assert group["documents"]["dead_letter"] == 4
    assert (group["lag"], group["partitions"], group["described"]) == (1_904, 3, True)


def test_fullest_bucket_is_that_of_the_last_five_minutes() -> None:
    clock = ManualClock()
    fullest = FullestBuckets(clock)
    assert fullest.fullest() is None
    fullest.note(90)
    clock.now += KEPT_SECONDS / 2
    fullest.note(4)
    assert fullest.fullest() == 90
    clock.now += KEPT_SECONDS * 0.6
    assert fullest.fullest() == 4
    clock.now += KEPT_SECONDS
    assert fullest.fullest() is None
