"""Which shards have reported on undecided bundles, and what they found."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simhash_core.log import decider
from simhash_core.log.decider import ShardReports
from simhash_core.log.records import Found, Report

BEGAN = 10


def report_of(
    worker: str,
    shards: list[int],
    first: int = 0,
    end: int = 0,
    found: Sequence[int] = (),
    *,
    control: int = BEGAN,
) -> Report:
    """Return a report on a range of the log; ``found`` has the offsets with findings."""
    return Report(worker, shards, control, first, end, [Found(each, []) for each in found], {})


def begun(*shards: int) -> ShardReports:
    reports = ShardReports()
    reports.begin(BEGAN, 0, shards)
    return reports


def complete(reports: ShardReports, offsets: range = range(12)) -> list[int]:
    return [offset for offset in offsets if reports.are_complete(offset)]


def found_on(reports: ShardReports, offsets: range = range(12)) -> list[int]:
    return [offset for offset in offsets if reports.on(offset)]


def test_reports_before_the_term_count_if_they_were_made_after_its_record() -> None:
    reports = ShardReports()
    reports.add(report_of("a", [1], 3, 9, [3, 8], control=BEGAN - 1))
    reports.add(report_of("a", [1], 3, 6, [3, 5]))
    reports.begin(BEGAN, 4, [1])
    reports.add(report_of("a", [1], 6, 9, control=BEGAN - 1))
    assert (complete(reports), found_on(reports)) == ([4, 5], [5])


def test_no_more_findings_are_kept_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A report counts up to the first finding over the limit; decisions make room."""
    monkeypatch.setattr(decider, "KEPT_FOUND_MAX", 3)
    reports = begun(1)
    reports.add(report_of("a", [1], 0, 9, [0, 2, 4, 6, 8]))
    assert (found_on(reports), complete(reports)) == ([0, 2, 4], [*range(6)])
    reports.add(report_of("b", [1], 0, 12, [0, 2, 4, 7]))  # known bundles need no room
    assert complete(reports) == [*range(7)]
    for offset in range(2):
        reports.forget(offset)
    reports.add(report_of("a", [1], 6, 9, [6, 8]))
    assert found_on(reports) == [2, 4, 6]
    assert complete(reports, range(2, 12)) == [*range(2, 8)]


def test_of_early_reports_the_latest_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A report takes room for its findings and one more; one without a range takes none."""
    monkeypatch.setattr(decider, "KEPT_FOUND_MAX", 5)
    reports = ShardReports()
    reports.add(report_of("a", [1], 0, 12, range(12)))  # too many to be kept
    for first in range(0, 10, 2):
        reports.add(report_of("a", [1], first, first + 2, [first]))
        reports.add(report_of("a", [1]))
    reports.begin(BEGAN, 0, [1])
    assert (complete(reports), found_on(reports)) == ([6, 7, 8, 9], [6, 8])


def test_who_reported_last_on_a_shard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports without a range, and those before the term, name shards too."""
    monkeypatch.setattr(decider, "_REPORTERS_MAX", 2)
    reports = ShardReports()
    for worker, shards in (("a", [1, 2]), ("b", [1]), ("a", [2])):
        reports.add(report_of(worker, shards))
    assert [reports.reporter_of(shard) for shard in (1, 2, 3)] == ["b", "a", None]
    reports.add(report_of("c", [3]))
    assert [reports.reporter_of(shard) for shard in (1, 2, 3)] == [None, "a", "c"]


def test_workers_that_reported_on_nothing_undecided_are_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """This is needed because each start of a worker has a new name."""
    monkeypatch.setattr(decider, "_DROPPED_AT_MIN", 4)
    reports = begun(1, 2)
    reports.add(report_of("stays", [2], 0, 1_000))
    for offset in range(100):
        reports.add(report_of(f"start {offset}", [1], offset, offset + 1, [offset]))
        assert complete(reports, range(offset, offset + 2)) == [offset]
        reports.forget(offset)
        assert len(reports._covered) <= 4
    assert not reports._found


SHARDS = st.sets(st.integers(1, 4), max_size=3)
ENDS = st.integers(0, 12)


@given(st.lists(st.tuples(st.sampled_from("abc"), SHARDS, ENDS, ENDS) | SHARDS | st.none()))
def test_a_bundle_waits_for_each_shard_that_nobody_reported_on(
    steps: list[tuple[str, set[int], int, int] | set[int] | None],
) -> None:
    """A step is a report on a range, a set of shards with documents, or a decision."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(decider, "_DROPPED_AT_MIN", 3)
        patched.setattr(decider, "_KNOWN_SETS_MAX", 2)
        reports, required = begun(1), {1}
        reported: set[tuple[int, int]] = set()
        following = 0
        for step in steps:
            if step is None:
                reports.forget(following)
                following += 1
            elif isinstance(step, set):
                reports.require(step)
                required |= step
            else:
                worker, shards, first, end = step
                reports.add(report_of(worker, sorted(shards), first, end))
                reported |= {(shard, at) for shard in shards for at in range(first, end)}
            for offset in range(following, 14):
                missing = {shard for shard in required if (shard, offset) not in reported}
                assert reports.missing(offset) == missing
                assert reports.are_complete(offset) == (not missing)
