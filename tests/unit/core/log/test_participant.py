"""One worker's part: sessions, reports, and shards that come and go."""

from __future__ import annotations

import pytest

from simhash_core.errors import ProtocolError
from simhash_core.log.local_decider import MemoryEntries
from simhash_core.log.participant import Participant
from simhash_core.log.records import NO_CONTROL, Control, Decision, LogRecord, Progress, Query
from simhash_core.log.sequence import sequence_number
from tests.unit.core.log.log_of_records import FAR, NEARNESS, batch, chain, control, packet
from tests.unit.core.log.made_to_order import Made, columns_of


def progress_of(partition: int, position: int = 0) -> Progress:
    """Where a shard without documents goes on."""
    return Progress(chain(partition), 0, position, NO_CONTROL)


def worker_with(*partitions: int, end: int = 0) -> Participant[str]:
    """A worker with shards, whose session has begun."""
    worker: Participant[str] = Participant("worker", NEARNESS)
    for partition in partitions:
        worker.add_shard(progress_of(partition), MemoryEntries())
    worker.begin(end)
    return worker


def read(worker: Participant[str], *records: LogRecord, first: int = 0) -> None:
    """Let a worker read the log."""
    for offset, record in enumerate(records, first):
        worker.read(offset, record, 0)


def looked_up(worker: Participant[str]) -> list[int]:
    """The packets that a worker reports on now."""
    report = worker.report(100)
    return [] if report is None else [each.offset for each in report.packets]


def test_alone_a_worker_puts_out_what_it_reads() -> None:
    """Given one worker and its log, when it sends, reads, reports, decides and reads again, then
    its records are put out with their verdicts, and everything before is not needed any more.
    """
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
    """Given a log that had two records when the session began, then packets and control records
    wait until both are read.
    """
    worker = worker_with(0, end=2)
    worker.shards[0].stream.add(batch(FAR[:1]))
    read(worker, packet(FAR[:1]))
    assert [*worker.packets()] == []
    assert worker.control(9) is None

    read(worker, control(NO_CONTROL, [Decision(0, [])], heads=[(chain(0), 0)]), first=1)

    assert worker.caught_up
    assert [*worker.packets()] == []
    assert worker.control(9) is not None


def test_packets_are_reported_on_once() -> None:
    """Given packets, then each is looked up once; again for a new leader, in a new session, and
    where a report was lost.
    """
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
    """Given a worker that begins in the middle of the log, then it reports from the control record
    on that says how far the chains had come there: before, it cannot know which packets count.
    """
    worker: Participant[str] = Participant("worker", NEARNESS)
    worker.add_shard(progress_of(1, 3), MemoryEntries())
    worker.begin(6)
    read(worker, control(NO_CONTROL, leads=True, following=1), packet(FAR[:1], 4), first=3)
    assert looked_up(worker) == []

    read(worker, control(3, heads=[(chain(0), 4)], following=3), first=5)

    assert looked_up(worker) == [4]


def test_whoever_loses_the_leading_shard_reports_again() -> None:
    """Given a worker that reported to itself, when it lets the leading shard go, then it reports
    once more: its successor has seen nothing.
    """
    worker = worker_with(0, 1)
    read(worker, control(NO_CONTROL, leads=True), packet(FAR[:1]))
    assert looked_up(worker) == [1]

    worker.drop_shard(0)

    assert worker.control(9) is None
    assert looked_up(worker) == [1]


def test_shard_takes_part_from_its_session_on() -> None:
    """Given a shard that is taken in while the log is read, then until the next session it is not
    reported on and takes no verdict in; then it reads the log from its own position.
    """
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
    """Given a shard with documents, when it is let go, then they are not met any more."""
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
    """Given a shard of the second topic of a name, then verdicts of the first are not its own."""
    worker: Participant[str] = Participant("worker", NEARNESS)
    second = chain(1)._replace(topic_id="second")
    worker.add_shard(Progress(second, 0, 0, NO_CONTROL), MemoryEntries())
    worker.begin(0)
    worker.shards[1].stream.add(batch(FAR[:1]))

    read(worker, packet(FAR[:1], partition=1), control(NO_CONTROL, [Decision(0, [])]))

    assert worker.ready(9) == []
    assert [each.chain for each in worker.packets()] == [second]


def test_undecidable_text_is_met_before_it_is_committed() -> None:
    """Given a text that is too short and unique, then its repeat is found as soon as it is
    decided.
    """
    worker = worker_with(1)
    text = [Made(b"", b"hi")]
    read(worker, packet(text, partition=1), control(NO_CONTROL, [Decision(0, [])]))
    read(worker, packet(text, 0, partition=1), first=2)

    report = worker.report(9)

    assert report is not None
    assert [(each.row, each.sequence) for each in report.packets[0].matches] == [(0, 0)]


def test_answers_are_kept_for_who_asked() -> None:
    """Given a query, then it is looked up as a packet is."""
    worker = worker_with(1)
    read(worker, control(NO_CONTROL, leads=True), Query("q", 3, columns_of(FAR[:1])))

    report = worker.report(9)

    assert report is not None
    assert report.packets[0].answer is not None
    assert report.packets[0].answer.match is None


def test_commit_of_a_shard_that_was_let_go_is_an_error() -> None:
    """Given a commit, when its shard is not there, then the caller has mixed up its steps."""
    worker = worker_with(1)
    worker.shards[1].stream.add(batch([None]))
    (ready,) = worker.ready(9)
    worker.drop_shard(1)

    with pytest.raises(ProtocolError, match="shard 1"):
        worker.committed(ready)
