"""What a leader keeps of reports: which shards reported on a packet, and no more than it may."""

from __future__ import annotations

import pytest

from simhash_core.log import decider
from simhash_core.log.decider import ShardReports
from simhash_core.log.records import PacketReport, Report

BEGAN = 10


def report(worker: str, shards: list[int], *offsets: int, control: int = BEGAN) -> Report:
    return Report(worker, shards, [PacketReport(each, control, []) for each in offsets], {})


def begun(*shards: int) -> ShardReports:
    """What a leader keeps once its term has begun."""
    reports = ShardReports()
    reports.begin(BEGAN, 0, shards)
    return reports


def test_packet_waits_for_all_shards_with_documents() -> None:
    reports = begun(1, 7)
    assert reports.missing(3) == {1, 7}
    reports.add(report("a", [1, 5], 3))
    assert (reports.missing(3), reports.are_complete(3)) == ({7}, False)
    reports.add(report("b", [7], 3))
    assert reports.are_complete(3)
    reports.require(5)
    assert reports.are_complete(3)
    reports.require(6)
    assert reports.missing(3) == {6}
    assert 3 in reports
    assert 4 not in reports


def test_second_report_of_a_shard_counts_only_for_another_shard() -> None:
    reports = begun(1, 2)
    first, repeat, wider = report("a", [1], 3), report("b", [1], 3), report("c", [1, 2], 3)
    for each in (first, repeat, wider):
        reports.add(each)
    assert list(reports.on(3)) == [first.packets[0], wider.packets[0]]


def test_reports_before_the_term_count_if_they_were_made_after_its_record() -> None:
    reports = ShardReports()
    reports.add(report("a", [1], 3, 4, control=BEGAN - 1))
    reports.add(report("a", [1], 3, 4, 5))
    reports.begin(BEGAN, 4, [1])
    assert [reports.are_complete(offset) for offset in (3, 4, 5)] == [False, True, True]


def test_decided_packets_are_forgotten() -> None:
    reports = begun(1)
    reports.add(report("a", [1], 3))
    reports.forget(3)
    reports.add(report("b", [1], 2, 3))
    assert 2 not in reports
    assert 3 not in reports


def test_no_more_packets_are_kept_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decider, "REPORTED_PACKETS_MAX", 4)
    monkeypatch.setattr(decider, "_SWEPT_PACKETS_MIN", 2)
    reports = begun(1)
    reports.add(report("a", [1], 1, 2, 3, 4, 5))
    assert [offset in reports for offset in (4, 5)] == [True, False]
    reports.forget(1)
    reports.add(report("a", [1], 5, 6))
    assert [offset in reports for offset in (5, 6)] == [True, False]
    reports.forget(4)  # 2 and 3 were no packets
    reports.add(report("a", [1], 6, 7, 8))
    assert [offset in reports for offset in (2, 3, 5, 6, 7, 8)] == [False] * 2 + [True] * 4


def test_of_early_reports_the_latest_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decider, "REPORTED_PACKETS_MAX", 4)
    reports = ShardReports()
    for offset in range(0, 10, 2):
        reports.add(report("a", [1], offset, offset + 1))
    reports.begin(BEGAN, 0, [1])
    assert [offset for offset in range(10) if offset in reports] == [6, 7, 8, 9]


def test_who_reported_last_on_a_shard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decider, "_REPORTERS_MAX", 2)
    reports = begun(1, 2)
    for worker, shards in (("a", [1, 2]), ("b", [1]), ("a", [2])):
        reports.add(report(worker, shards))
    assert [reports.reporter_of(shard) for shard in (1, 2, 3)] == ["b", "a", None]
    reports.add(report("c", [3]))
    assert [reports.reporter_of(shard) for shard in (1, 2, 3)] == [None, "a", "c"]


def test_sets_of_shards_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decider, "_KNOWN_SETS_MAX", 2)
    reports = begun(1, 2, 3)
    for shards in ([1], [2], [1, 2], [3]):
        reports.add(report("a", shards, 5))
    assert reports.are_complete(5)
