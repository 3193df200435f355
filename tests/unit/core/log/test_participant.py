"""One worker's part: sessions, reports, and shards that come and go."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from simhash_core.errors import ProtocolError
from simhash_core.index.look_up import Nearness
from simhash_core.index.prints import prints_of
from simhash_core.log import removals, unique_documents
from simhash_core.log.local_decider import MemoryEntries
from simhash_core.log.participant import REMEMBERED_OFFSETS_MIN, BundleLimit, Participant, Waiting
from simhash_core.log.records import (
    NO_CONTROL,
    Bundle,
    Decision,
    Progress,
    Query,
    Removal,
    Report,
    sequence_number,
)
from simhash_core.log.removals import REMOVALS_A_DOCUMENT
from simhash_core.log.shard_stream import ShardStream
from simhash_core.log.unique_documents import RecentUniques
from tests.unit.core.log.made_to_order import (
    BEGINS,
    FAR,
    NEARNESS,
    A,
    Made,
    append,
    batch,
    bundle,
    bundle_of,
    chain,
    columns_of,
    control,
    flipped,
    found,
    packet,
    present,
    read,
    report,
    worker_with,
)

LIMIT = BundleLimit(documents=100, size=1 << 20)


def looked_up(worker: Participant[str], documents: int = 100) -> list[int]:
    made = worker.report(documents)
    if made is None:
        return []
    assert {each.offset for each in made.found} <= {*range(made.first, made.end)}
    return [each for each in worker.replica.undecided if made.first <= each < made.end]


def bundles(worker: Participant[str], limit: BundleLimit = LIMIT) -> list[Bundle]:
    return [*iter(lambda: worker.bundle(limit), None)]


def is_waiting(
    worker: Participant[str], offset: int, leader: str | None, missing: dict[int, str | None]
) -> bool:
    """Check what a bundle waits for; return whether this worker must act."""
    found = present(worker.waits_for())
    assert found == Waiting(offset, leader, missing, own_turn=found.own_turn)
    return found.own_turn


def test_nothing_is_sent_before_the_log_is_read() -> None:
    worker = worker_with(0, end=2)
    worker.shards[0].stream.add(batch(FAR[:1]))
    read(worker, bundle_of(FAR[:1]))
    assert bundles(worker) == []
    assert worker.control(9) is None
    read(worker, control(NO_CONTROL, [Decision(0, [])], heads=[(chain(0), 0)]))
    assert worker.caught_up
    assert bundles(worker) == []
    assert worker.control(9) is not None


def test_a_worker_knows_what_its_documents_wait_for() -> None:
    worker = worker_with(1)
    read(worker, control(NO_CONTROL, leads=True, leader="first.of.names.7"))
    assert worker.waits_for() is None
    read(worker, bundle_of(FAR[:1]))
    assert is_waiting(worker, 1, "first.of.names", {})
    looked_up(worker)
    assert not is_waiting(worker, 1, "first.of.names", {})
    worker.report_again(1)
    assert is_waiting(worker, 1, "first.of.names", {})
    looked_up(worker)
    read(worker, control(0, [Decision(1, [], skipped=[0])], leader="first.of.names.7"))
    assert worker.waits_for() is None
    assert worker.packets_skipped == 1


def test_a_worker_that_is_behind_waits_for_itself() -> None:
    worker = worker_with(1, end=3)
    read(worker, BEGINS, bundle_of(FAR[:1]))
    looked_up(worker)
    assert is_waiting(worker, 1, "leader", {})
    read(worker, bundle_of(FAR[:1], 5))
    assert not is_waiting(worker, 1, "leader", {})


def test_a_leader_knows_who_has_not_reported() -> None:
    worker = worker_with(0)
    heads = [(chain(number), -1) for number in range(3)]
    read(worker, control(NO_CONTROL, leads=True, heads=heads), bundle_of(FAR[:1]))
    assert is_waiting(worker, 1, None, {})
    begins = present(worker.control(9))
    worker.control_appended(2, begins.leader)
    assert is_waiting(worker, 1, None, {})
    read(worker, begins)
    for name in ("old", "new"):
        worker.take_report(Report(name, [1], NO_CONTROL, 0, 0, [], {}))
    assert is_waiting(worker, 1, None, {0: None, 1: "new", 2: None})
    worker.take_report(present(worker.report(9)))
    assert not is_waiting(worker, 1, None, {1: "new", 2: None})
    worker.take_report(report([1, 2], 1, at=2))
    assert is_waiting(worker, 1, None, {})
    decides = present(worker.control(9))
    assert is_waiting(worker, 1, None, {})
    read(worker, decides)
    assert worker.waits_for() is None


def test_whoever_led_before_reports_and_is_not_waited_for() -> None:
    worker = worker_with(0, 1)
    read(worker, present(worker.control(9)), bundle_of(FAR[:1]))
    assert looked_up(worker) == [1]
    worker.drop_shard(0)
    assert worker.control(9) is None
    assert looked_up(worker) == [1]
    assert not is_waiting(worker, 1, None, {})
    read(worker, control(0, leads=True, leader="next.1"))
    looked_up(worker)
    assert not is_waiting(worker, 1, "next", {})


def test_a_report_covers_a_range_and_names_what_was_found() -> None:
    worker = worker_with(1)
    read(worker, bundle_of(FAR[:2], partition=1), control(NO_CONTROL, [Decision(0, [])]))
    query = Query("q", 3, columns_of(FAR[9:10]))
    near = bundle_of([FAR[6], FAR[1]], 0)
    read(worker, bundle_of(FAR[5:6]), query, near, bundle_of(FAR[7:8], 2))
    made = present(worker.report(9))
    assert (made.shards, made.control, made.first, made.end) == ([1], 1, 0, 6)
    assert [each.offset for each in made.found] == [3, 4]
    assert [(each.row, each.sequence) for each in made.found[1].matches] == [(1, 1)]
    assert worker.documents_looked_up == 4
    read(worker, query)
    made = present(worker.report(9))
    assert (made.first, made.end, [each.offset for each in made.found]) == (6, 7, [6])
    positions = worker.positions()
    assert (positions.first, positions.end, positions.positions) == (0, 0, {1: 0})


@pytest.mark.parametrize(
    ("documents", "size", "expected"),
    [
        (6, 9_999, [[1, 1, 1, 2, 2, 2]]),
        (4, 9_999, [[1, 1, 1, 2], [2, 2]]),
        (3, 9_999, [[1, 1, 1], [2, 2, 2]]),
        (2, 9_999, [[1, 1], [1, 2], [2, 2]]),
        (6, 1, [[1, 1, 1], [2, 2, 2]]),
    ],
)
def test_a_full_bundle_is_followed_by_the_next(
    documents: int, size: int, expected: list[list[int]]
) -> None:
    worker = worker_with(1, 2)
    for partition in (1, 2):
        worker.shards[partition].stream.add(batch(FAR[:3]))
    made = bundles(worker, BundleLimit(documents, size))
    rows = [[each.source(row).partition for row in range(len(each))] for each in made]
    assert rows == expected


def count_calls(
    monkeypatch: pytest.MonkeyPatch, calls: Counter[str], owner: object, name: str
) -> None:
    function = getattr(owner, name)

    def counted(*arguments: object, **keywords: object) -> object:
        calls[name] += 1
        return function(*arguments, **keywords)

    monkeypatch.setattr(owner, name, counted)


def test_a_report_goes_through_no_more_than_it_is_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bundle is processed once, even if many wait."""
    worker = worker_with(1, nearness=Nearness(NEARNESS.scheme, None, replaces=True))
    read(worker, BEGINS, *(bundle_of([FAR[n % 16]], n - 1) for n in range(2_000)))
    seen = Counter[str]()
    count_calls(monkeypatch, seen, removals, "removing_rows")
    for _ in range(3):
        assert worker.report(8) is not None
    assert seen["removing_rows"] == 3 * 8


def test_shards_without_news_cost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only shards with read or decided records are checked; for positions, all are."""
    worker = worker_with(*range(1, 101))
    heads = [(chain(number), -1) for number in range(1, 101)]
    read(worker, control(NO_CONTROL, leads=True, heads=heads, following=1))
    packets = [packet(FAR[:1], partition=number) for number in range(1, 101)]
    read(worker, bundle(*packets[:2]), bundle(*packets[2:]))
    for shard in worker.shards.values():
        shard.stream.add(batch(FAR[:1]))
    assert bundles(worker) == []
    assert worker.ready(9) == []
    asked = Counter[str]()
    for name in ("ready", "next_packet", "heads_known"):
        count_calls(monkeypatch, asked, ShardStream, name)

    assert bundles(worker) == []
    assert worker.ready(9) == []
    assert not asked
    heads[:2] = [(chain(1), 0), (chain(2), 0)]
    read(worker, control(0, [Decision(1, [])], heads=heads))
    assert [each.partition for each in worker.ready(9)] == [1, 2]
    assert asked == {"ready": 2}
    assert [each.partition for each in worker.ready(9, positions=True)][:2] == [1, 2]
    assert asked == {"ready": 102}


def test_unneeded_offsets_of_the_log_are_dropped() -> None:
    worker = worker_with(1)
    worker.shards[1].stream.add(batch(FAR[:1]))
    read(worker, BEGINS)
    for offset in range(1, 3_000):
        read(worker, control(offset - 1, following=offset))
        for ready in worker.ready(9, positions=True):
            worker.committed(ready)
    assert worker.replica.remembered <= REMEMBERED_OFFSETS_MIN
    assert worker.replica.control_before(2_999) == 2_998


def test_shard_takes_part_from_its_session_on() -> None:
    worker = worker_with(1)
    log = [bundle_of(FAR[:1], partition=2), bundle_of(FAR[1:2], 0, partition=2)]
    read(worker, log[0])
    worker.add_shard(Progress(chain(2), 0, 0, NO_CONTROL), MemoryEntries())
    decisions = [Decision(0, []), Decision(1, [])]
    decided = control(NO_CONTROL, decisions, heads=[(chain(2), 1)])
    read(worker, log[1], decided, bundle_of(FAR[5:6], partition=1))
    assert present(worker.report(9)).shards == [1]
    assert len(worker.index) == 0

    assert worker.begin(4) == 0
    read(worker, *log, decided)
    assert len(worker.index) == 2
    assert worker.report(9) is None


def test_undecidable_text_is_met_before_it_is_committed() -> None:
    worker = worker_with(1)
    text = [Made(b"", b"hi")]
    read(worker, bundle_of(text, partition=1), control(NO_CONTROL, [Decision(0, [])]))
    read(worker, bundle_of(text, 0, partition=1))
    (found,) = present(worker.report(9)).found
    assert [match.sequence for match in found.matches] == [0]


def test_commit_of_a_shard_that_was_let_go_is_an_error() -> None:
    worker = worker_with(1)
    worker.shards[1].stream.add(batch([None]))
    (ready,) = worker.ready(9)
    worker.drop_shard(1)
    with pytest.raises(ProtocolError, match="shard 1"):
        worker.committed(ready)


# ---------------------------------------------------------------- the leader


def test_nearest_wins_and_of_equals_the_earliest() -> None:
    worker = worker_with(0)
    read(worker, control(NO_CONTROL, leads=True, heads=[(chain(0), -1), (chain(1), 0)]))
    append(worker)
    read(worker, bundle_of([Made(flipped(A, 1, 2))]), bundle_of([Made(A)] * 4, 0))
    number = sequence_number(2, 0)
    elsewhere = [found(0, 3, 5), found(1, 2, number + 1), found(2, 2, number - 1), found(3, 1, 99)]
    worker.take_report(report([0, 1], 2, at=1))
    worker.take_report(report([1], 3, 1, elsewhere))
    worker.take_report(report([0], 3, 1, [found(0, 3, 4)]))
    _, decision = append(worker).decisions
    nearest = [(each.row, each.sequence) for each in decision.matches]
    assert nearest == [(0, number), (1, number), (2, number - 1), (3, 99)]


def test_what_was_decided_just_before_counts_for_what_follows() -> None:
    """All bundles and queries are decided in one record, before any worker reads it."""
    worker = worker_with(0)
    append(worker)
    document, query = Made(A, name=b"a"), Query("q", 3, columns_of([Made(A)]))
    delete = Made(b"", name=b"a", is_delete=True)
    read(worker, bundle_of([document]), query, bundle_of([delete], 0), bundle_of([Made(A)], 1))
    worker.take_report(present(worker.report(9)))
    unique, answered, deleted, again = append(worker).decisions
    first = sequence_number(1, 0)
    assert present(present(answered.answer).match).sequence == first
    assert deleted.removals == [Removal(0, 0, first)]
    assert unique.matches == again.matches == []


def test_records_do_not_gather_the_removals_of_many_bundles() -> None:
    """A record has space for the matches of so many documents, and removals take it, too."""
    worker = worker_with(0)
    append(worker)
    names = [b"a", b"b"]
    many = [Made(b"", name=name) for name in names for _ in range(2 * REMOVALS_A_DOCUMENT)]
    read(worker, bundle_of(many))
    worker.take_report(present(worker.report(9)))
    append(worker)
    last = len(many) - 1
    deletes = [Made(b"", name=name, is_delete=True) for name in (*names, b"c")]
    read(worker, *(bundle_of([each], last + at) for at, each in enumerate(deletes)))
    made = [present(worker.report(3)) for _ in range(2)]
    assert [[len(each.held) for each in report.found] for report in made] == [[512], [512]]
    for each in made:
        worker.take_report(each)
    records = [append(worker, 3).decisions for _ in range(2)]
    assert [[len(each.removals) for each in record] for record in records] == [[512], [512]]


def test_recent_documents_are_kept_until_all_know_their_record(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A document without an appended record is never forgotten."""
    monkeypatch.setattr(unique_documents, "_FORGOTTEN_LIMIT", 2)
    recent = RecentUniques(NEARNESS)
    for offset in range(10):
        recent.add_rows(offset, bundle_of([FAR[offset], Made(b"", b"%d" % offset)]), np.arange(2))
        if offset < 9:
            recent.appended(100 + offset)
    for through, left in ((99, [*range(10)]), (107, [8, 9]), (1_000, [9])):
        recent.forget_through(through)
        prints = prints_of(NEARNESS.scheme, columns_of(FAR))
        assert [row for row, _, _ in recent.near(prints, None)] == left
        contents = [columns_of([Made(b"", b"%d" % offset)]).digest(0) for offset in range(10)]
        found = [recent.by_content(each) for each in contents]
        assert found == [[sequence_number(at, 1)] if at in left else [] for at in range(10)]


def test_an_owner_leads_again_at_once_unless_it_decided_nothing() -> None:
    worker = worker_with(0)
    append(worker)
    read(worker, bundle_of(FAR[:1]))
    worker.take_report(present(worker.report(9)))
    append(worker)
    heads = [(chain(0), 0)]
    read(worker, control(2, leads=True, leader="other.1", heads=heads, following=2))
    assert append(worker).leads, "it decided a document in its term"
    assert worker.leads
    read(worker, bundle_of(FAR[1:2], previous=0))
    assert worker.control(9) is None, "it has no reports"
    read(worker, control(4, leads=True, leader="other.2", heads=heads, following=2))
    assert worker.decider is None
    assert looked_up(worker) == [5], "the other one has no earlier reports of this worker"
    assert worker.take_lead()
    assert append(worker).leads


def test_an_owner_that_had_nothing_to_decide_leads_again_at_once() -> None:
    worker = worker_with(0)
    append(worker)
    read(worker, control(0, leads=True, leader="other.1"))
    assert append(worker).leads


def test_an_owner_that_another_leader_preceded_tries_again_at_once() -> None:
    """Its term has not begun, so it could decide nothing."""
    worker = worker_with(0)
    begins = present(worker.control(9))
    read(worker, BEGINS, begins)
    assert append(worker).leads


def test_one_record_is_on_its_way_at_a_time() -> None:
    worker = worker_with(0)
    append(worker)
    read(worker, bundle_of(FAR[:1]))
    made = present(worker.control(9))
    assert worker.control(9) is None
    worker.control_appended(9, made.leader)
    with pytest.raises(ProtocolError):
        worker.control_appended(10, made.leader)


@pytest.mark.parametrize(
    ("limit", "size", "bundles"),
    [(2, 1, [2, 1]), (7, 3, [2, 1]), (100, 3_000, [1, 1])],
    ids=["as many documents as it may", "whole bundles", "one bundle at least"],
)
def test_a_record_decides_no_more_than_it_may(limit: int, size: int, bundles: list[int]) -> None:
    worker = worker_with(0)
    append(worker)
    far = [Made(b"", b"%d" % number) for number in range(size)]
    read(worker, *(bundle_of(far, size * n - 1) for n in range(sum(bundles))))
    for offset in range(1, 1 + sum(bundles)):
        worker.take_report(report([0], offset, at=0))
    decided = [[each.offset for each in append(worker, limit).decisions] for _ in bundles]
    assert [len(each) for each in decided] == bundles
    assert [offset for each in decided for offset in each] == [*range(1, 1 + sum(bundles))]
