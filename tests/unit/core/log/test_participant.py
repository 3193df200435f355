"""One worker's part: sessions, reports, and shards that come and go."""

from __future__ import annotations

from collections import Counter

import pytest

from simhash_core.errors import ProtocolError
from simhash_core.index.look_up import Nearness
from simhash_core.log import removals
from simhash_core.log.local_decider import MemoryEntries
from simhash_core.log.participant import (
    FORGOTTEN_PLACES_MIN,
    REPORT_DOCUMENTS_MAX,
    Participant,
    Waiting,
)
from simhash_core.log.records import (
    NO_CONTROL,
    Control,
    Decision,
    LogRecord,
    Progress,
    Query,
    Report,
    sequence_number,
)
from simhash_core.log.shard_stream import ShardStream
from tests.unit.core.log.log_of_records import FAR, NEARNESS, batch, chain, control, packet
from tests.unit.core.log.log_of_records import report as report_on
from tests.unit.core.log.made_to_order import Made, columns_of


def progress_of(partition: int, position: int = 0) -> Progress:
    return Progress(chain(partition), 0, position, NO_CONTROL)


def worker_with(*partitions: int, end: int = 0) -> Participant[str]:
    """A worker with shards, whose session has begun."""
    worker: Participant[str] = Participant("worker", NEARNESS)
    for partition in partitions:
        worker.add_shard(progress_of(partition), MemoryEntries())
    worker.begin(end)
    return worker


def read(worker: Participant[str], *records: LogRecord, first: int = 0) -> None:
    for offset, record in enumerate(records, first):
        worker.read(offset, record, 0)


def looked_up(worker: Participant[str]) -> list[int]:
    report = worker.report(100)
    return [] if report is None else [each.offset for each in report.packets]


def test_alone_a_worker_puts_out_what_it_reads() -> None:
    worker = worker_with(0)
    worker.shards[0].stream.add(batch([FAR[0], None, FAR[0]]))
    log: list[LogRecord] = []

    def append(record: LogRecord) -> None:
        log.append(record)
        worker.read(len(log) - 1, record, 0)
        if isinstance(record, Control):
            worker.control_appended(len(log) - 1, record.leader)

    for _ in range(4):
        for each in [*worker.packets()]:
            append(each)
        report = worker.report(9)
        if report is not None:
            worker.take_report(report)
        record = worker.control(9)
        if record is not None:
            append(record)

    assert worker.leads
    (ready,) = worker.ready(9)
    assert [each.record for each in ready.ready.outputs] == ["record 0", "record 1", "record 2"]
    (entries,) = ready.ready.entries
    assert entries.sequences.tolist() == [sequence_number(0, 0)]
    assert ready.progress == Progress(chain(0), 3, 1, NO_CONTROL)
    worker.committed(ready)
    assert worker.ready(9) == []


def test_nothing_is_sent_before_the_log_is_read() -> None:
    worker = worker_with(0, end=2)
    worker.shards[0].stream.add(batch(FAR[:1]))
    read(worker, packet(FAR[:1]))
    assert [*worker.packets()] == []
    assert worker.control(9) is None
    read(worker, control(NO_CONTROL, [Decision(0, [])], heads=[(chain(0), 0)]), first=1)
    assert worker.caught_up
    assert [*worker.packets()] == []
    assert worker.control(9) is not None


def test_packets_are_reported_on_once_for_each_leader_and_session() -> None:
    worker = worker_with(1)
    first = control(NO_CONTROL, leads=True)
    read(worker, first, packet(FAR[:1]), packet(FAR[1:2], 0))
    assert looked_up(worker) == [1, 2]
    assert looked_up(worker) == []
    worker.look_up_again()
    assert looked_up(worker) == [1, 2]
    read(worker, control(0, leads=True, leader="another"), first=3)
    assert looked_up(worker) == [1, 2]
    worker.begin(0)
    read(worker, first, packet(FAR[:1]))
    assert looked_up(worker) == [1]


def test_nothing_is_looked_up_before_the_heads_are_known() -> None:
    worker: Participant[str] = Participant("worker", NEARNESS)
    worker.add_shard(progress_of(1, 3), MemoryEntries())
    worker.begin(6)
    read(worker, control(NO_CONTROL, leads=True, following=1), packet(FAR[:1], 4), first=3)
    assert looked_up(worker) == []
    read(worker, control(3, heads=[(chain(0), 4)], following=3), first=5)
    assert looked_up(worker) == [4]


def waiting(worker: Participant[str]) -> Waiting:
    found = worker.waits_for()
    assert found is not None
    return found


def test_a_worker_knows_what_its_documents_wait_for() -> None:
    worker = worker_with(1)
    read(worker, control(NO_CONTROL, leads=True, leader="first.of.names.7"))
    assert worker.waits_for() is None
    read(worker, packet(FAR[:1]), first=1)
    assert waiting(worker) == Waiting(1, "first.of.names", {}, own_turn=True)
    looked_up(worker)
    assert waiting(worker) == Waiting(1, "first.of.names", {}, own_turn=False)
    read(worker, control(0, [Decision(1, [])], leader="first.of.names.7"), first=2)
    assert worker.waits_for() is None


def test_a_worker_that_is_behind_waits_for_itself() -> None:
    worker = worker_with(1, end=3)
    read(worker, control(NO_CONTROL, leads=True), packet(FAR[:1]))
    looked_up(worker)
    assert waiting(worker).own_turn
    read(worker, packet(FAR[:1], 5), first=2)
    assert not waiting(worker).own_turn


def test_a_leader_knows_who_has_not_reported() -> None:
    worker = worker_with(0)
    heads = [(chain(number), -1) for number in range(3)]
    read(worker, control(NO_CONTROL, leads=True, heads=heads), packet(FAR[:1]))
    assert waiting(worker) == Waiting(1, None, {}, own_turn=True)
    begins = worker.control(9)
    assert begins is not None
    worker.control_appended(2, begins.leader)
    assert waiting(worker) == Waiting(1, None, {}, own_turn=True)
    read(worker, begins, first=2)
    worker.take_report(Report("old", [1], [], {}))
    worker.take_report(Report("new", [1], [], {}))
    assert waiting(worker) == Waiting(1, None, {0: None, 1: "new", 2: None}, own_turn=True)

    report = worker.report(9)
    assert report is not None
    worker.take_report(report)
    assert waiting(worker) == Waiting(1, None, {1: "new", 2: None}, own_turn=False)

    worker.take_report(report_on([1, 2], 1, at=2))
    assert waiting(worker) == Waiting(1, None, {}, own_turn=True)
    decides = worker.control(9)
    assert decides is not None
    assert waiting(worker) == Waiting(1, None, {}, own_turn=True)
    read(worker, decides, first=3)
    assert worker.waits_for() is None


def test_whoever_led_before_is_not_waited_for() -> None:
    worker = worker_with(0, 1)
    begins = worker.control(9)
    assert begins is not None
    read(worker, begins, packet(FAR[:1]))
    looked_up(worker)
    worker.drop_shard(0)
    looked_up(worker)
    assert waiting(worker) == Waiting(1, None, {}, own_turn=False)
    read(worker, control(0, leads=True, leader="next.1", heads=[]), first=2)
    looked_up(worker)
    assert waiting(worker) == Waiting(1, "next", {}, own_turn=False)


def test_oldest_packets_are_reported_on_again() -> None:
    worker = worker_with(1)
    read(worker, control(NO_CONTROL, leads=True))
    read(worker, *(packet([FAR[n]], n - 1) for n in range(5)), first=1)
    report = worker.report(3)
    assert report is not None
    assert worker.report_again(2) == 2
    assert worker.report_again(4) == 1
    assert looked_up(worker) == [1, 2, 3, 4, 5]
    assert worker.report_again(0) == 0
    assert not worker.has_to_report


def test_a_report_is_on_few_documents() -> None:
    worker = worker_with(1)
    read(worker, control(NO_CONTROL, leads=True))
    sizes = [REPORT_DOCUMENTS_MAX // 2, REPORT_DOCUMENTS_MAX // 2, REPORT_DOCUMENTS_MAX + 1, 1]
    far = [Made(n.to_bytes(2) * 4) for n in range(REPORT_DOCUMENTS_MAX + 1)]
    previous = -1
    for offset, size in enumerate(sizes, 1):
        read(worker, packet(far[:size], previous), first=offset)
        previous += size
    steps = []
    while worker.has_to_report:
        steps.append(looked_up(worker))
    assert steps == [[1, 2], [3], [4]]


def test_a_report_goes_through_no_more_than_it_is_on(monkeypatch: pytest.MonkeyPatch) -> None:
    replaces = Nearness(NEARNESS.scheme, None, replaces=True)
    worker: Participant[str] = Participant("worker", replaces)
    worker.add_shard(progress_of(1), MemoryEntries())
    worker.begin(0)
    read(worker, control(NO_CONTROL, leads=True))
    read(worker, *(packet([FAR[n % 16]], n - 1) for n in range(2_000)), first=1)
    seen = Counter[str]()
    count_calls(monkeypatch, seen, removals, "removing_rows")
    for _ in range(3):
        assert worker.report(8) is not None
    assert seen["removing_rows"] == 2 * 3 * 8 - 1  # what the last takes out, nobody asked


def test_shards_without_news_cost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = worker_with(*range(1, 101))
    heads = [(chain(number), -1) for number in range(1, 101)]
    read(worker, control(NO_CONTROL, leads=True, heads=heads, following=1))
    packets = [packet(FAR[:1], partition=number) for number in range(1, 101)]
    read(worker, *packets, first=1)
    for shard in worker.shards.values():
        shard.stream.add(batch(FAR[:1]))
    assert [*worker.packets()] == []
    assert worker.ready(9) == []
    asked = Counter[str]()
    for name in ("ready", "next_packet", "heads_known"):
        count_calls(monkeypatch, asked, ShardStream, name)

    assert [*worker.packets()] == []
    assert worker.ready(9) == []
    assert not asked

    decisions = [Decision(1, []), Decision(2, [])]
    heads[:2] = [(chain(1), 0), (chain(2), 0)]
    read(worker, control(0, decisions, heads=heads), first=101)
    assert [each.partition for each in worker.ready(9)] == [1, 2]
    assert asked == {"ready": 2}
    assert [each.partition for each in worker.ready(9, positions=True)][:2] == [1, 2]
    assert asked == {"ready": 102}


def count_calls(
    monkeypatch: pytest.MonkeyPatch, calls: Counter[str], owner: object, name: str
) -> None:
    function = getattr(owner, name)

    def counted(*arguments: object, **keywords: object) -> object:
        calls[name] += 1
        return function(*arguments, **keywords)

    monkeypatch.setattr(owner, name, counted)


def test_places_of_the_log_are_forgotten() -> None:
    worker = worker_with(1)
    worker.shards[1].stream.add(batch(FAR[:1]))
    read(worker, control(NO_CONTROL, leads=True))
    for offset in range(1, 3_000):
        read(worker, control(offset - 1, following=offset), first=offset)
        for ready in worker.ready(9, positions=True):
            worker.committed(ready)
    assert worker.replica.remembered <= FORGOTTEN_PLACES_MIN
    assert worker.replica.control_before(2_999) == 2_998


def test_whoever_loses_the_leading_shard_reports_again() -> None:
    worker = worker_with(0, 1)
    read(worker, control(NO_CONTROL, leads=True), packet(FAR[:1]))
    assert looked_up(worker) == [1]
    worker.drop_shard(0)
    assert worker.control(9) is None
    assert looked_up(worker) == [1]


def test_shard_takes_part_from_its_session_on() -> None:
    worker = worker_with(1)
    read(worker, packet(FAR[:1], partition=2))
    worker.add_shard(progress_of(2), MemoryEntries())
    read(worker, packet(FAR[1:2], 0, partition=2), first=1)
    decisions = [Decision(0, []), Decision(1, [])]
    decided = control(NO_CONTROL, decisions, heads=[(chain(2), 1)])
    read(worker, decided, packet(FAR[5:6], partition=1), first=2)
    report = worker.report(9)
    assert report is not None
    assert report.shards == [1]
    assert len(worker.index) == 0
    assert worker.begin(4) == 0
    read(worker, packet(FAR[:1], partition=2), packet(FAR[1:2], 0, partition=2), decided)
    assert len(worker.index) == 2
    report = worker.report(9)
    assert report is None


def test_dropped_shard_is_not_looked_up() -> None:
    worker = worker_with(1)
    read(worker, packet(FAR[:1], partition=1), control(NO_CONTROL, [Decision(0, [])]))
    read(worker, packet(FAR[:1], 0, partition=1), first=2)
    report = worker.report(9)
    assert report is not None
    assert [each.sequence for each in report.packets[0].matches] == [0]
    worker.drop_shard(1)
    worker.look_up_again()
    report = worker.report(9)
    assert report is not None
    assert (report.shards, report.packets[0].matches) == ([], [])


def test_packets_of_a_topic_created_again_are_another_chains() -> None:
    worker: Participant[str] = Participant("worker", NEARNESS)
    second = chain(1)._replace(topic_id="second")
    worker.add_shard(Progress(second, 0, 0, NO_CONTROL), MemoryEntries())
    worker.begin(0)
    worker.shards[1].stream.add(batch(FAR[:1]))
    read(worker, packet(FAR[:1], partition=1), control(NO_CONTROL, [Decision(0, [])]))
    assert worker.ready(9) == []
    assert [each.chain for each in worker.packets()] == [second]


def test_undecidable_text_is_met_before_it_is_committed() -> None:
    worker = worker_with(1)
    text = [Made(b"", b"hi")]
    read(worker, packet(text, partition=1), control(NO_CONTROL, [Decision(0, [])]))
    read(worker, packet(text, 0, partition=1), first=2)
    report = worker.report(9)
    assert report is not None
    assert [(each.row, each.sequence) for each in report.packets[0].matches] == [(0, 0)]


def test_a_query_is_looked_up_as_a_packet_is() -> None:
    worker = worker_with(1)
    read(worker, control(NO_CONTROL, leads=True), Query("q", 3, columns_of(FAR[:1])))
    report = worker.report(9)
    assert report is not None
    assert report.packets[0].answer is not None
    assert report.packets[0].answer.match is None


def test_commit_of_a_shard_that_was_let_go_is_an_error() -> None:
    worker = worker_with(1)
    worker.shards[1].stream.add(batch([None]))
    (ready,) = worker.ready(9)
    worker.drop_shard(1)
    with pytest.raises(ProtocolError, match="shard 1"):
        worker.committed(ready)
