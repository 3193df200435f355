"""Copies of shards: standbys that read the log, report, and can be promoted."""

from __future__ import annotations

import numpy as np

from simhash_core.index.document_index import DocumentIndex
from simhash_core.log.local_decider import MemoryEntries
from simhash_core.log.participant import Participant
from simhash_core.log.records import NO_CONTROL, Decision, LogRecord, Packet, Progress, Removal
from simhash_core.log.shard_stream import NewEntries
from simhash_core.log.shards import ShardCopy
from tests.unit.core.log.log_of_records import FAR, NEARNESS, chain, control, packet

BEGINS = control(NO_CONTROL, leads=True)


class StandsBy:
    """A worker that has a standby of shard 1, and no shard of its own."""

    def __init__(self, progress: Progress, log_end: int = 0) -> None:
        """``progress``: of the owner, when it was opened."""
        self.participant: Participant[str] = Participant("standby", NEARNESS)
        self.store = MemoryEntries()
        held = self.participant.held
        self.standby = held.stand_by(progress, self.store, held.fill_slot(()), log_end)
        self.participant.begin(0)

    def read(self, *records: LogRecord) -> None:
        for record in records:
            self.participant.read(self.participant.replica.position, record, 0)

    def documents(self) -> int:
        return self.participant.index.documents(self.standby.slot)


def progress_at(following: int, position: int, control_at: int = 0) -> Progress:
    """What the owner of shard 1 has committed."""
    return Progress(chain(1), following, position, control_at)


def decided(offset: int, head: int, removals: list[Removal] | None = None) -> LogRecord:
    """A control record after ``BEGINS``: all documents of one packet are unique."""
    decision = Decision(offset, [], None, removals or [])
    return control(0, [decision], heads=[(chain(1), head)])


def test_a_standby_reports_on_what_it_has_read() -> None:
    worker = StandsBy(progress_at(0, 0, NO_CONTROL))
    worker.read(BEGINS, packet(FAR[:2], partition=1), decided(1, 1))
    assert worker.documents() == 2
    worker.read(packet(FAR[1:2], partition=0))
    report = present(worker.participant.report(9))
    assert report.shards == [1]
    (match,) = report.packets[0].matches
    assert match.sequence == 1 << 16 | 1
    assert report.positions == {}  # the log is not kept for it
    assert [*worker.participant.packets()] == []
    assert worker.participant.ready(9) == []


def test_a_standby_takes_out_what_the_log_takes_out() -> None:
    worker = StandsBy(progress_at(0, 0, NO_CONTROL))
    worker.read(BEGINS, packet(FAR[:2], partition=1), decided(1, 1))
    worker.read(packet(FAR[5:6], partition=0))
    removal = Removal(0, 1, 1 << 16)
    worker.read(control(2, [Decision(3, [], None, [removal])], heads=[(chain(0), 0)]))
    assert worker.documents() == 1


def test_a_level_standby_becomes_the_shard() -> None:
    worker = StandsBy(progress_at(0, 0, NO_CONTROL))
    first = packet(FAR[:2], partition=1)
    worker.read(BEGINS, first, decided(1, 1))
    worker.store.add(NewEntries(1, first, np.arange(2)))
    worker.standby.owner_committed(progress_at(2, 2), [])
    shard = present(worker.participant.promote(progress_at(2, 2)))
    assert shard.stream.next == 2
    assert worker.documents() == 2
    worker.participant.begin(3)
    worker.read(BEGINS, first, decided(1, 1))
    assert worker.documents() == 2


def test_a_standby_that_is_behind_does_not_become_the_shard() -> None:
    worker = StandsBy(progress_at(0, 0, NO_CONTROL))
    worker.read(BEGINS)
    worker.standby.owner_committed(progress_at(2, 2), [])
    assert worker.participant.promote(progress_at(2, 2)) is None
    assert worker.participant.held.standbys == {}
    assert worker.participant.promote(progress_at(2, 2)) is None


def test_a_session_reads_from_where_the_standby_has_read() -> None:
    worker = StandsBy(progress_at(0, 0, NO_CONTROL))
    worker.read(BEGINS, packet(FAR[:2], partition=1), decided(1, 1))
    worker.standby.owner_committed(progress_at(1, 2, 0), [])
    worker.standby.owner_committed(progress_at(2, 9, 7), [])
    assert worker.participant.begin(10) == 0  # the control record in force at 2
    assert worker.standby.progress == progress_at(1, 2, 0)


def test_what_was_read_before_its_session_is_read_again() -> None:
    participant: Participant[str] = Participant("standby", NEARNESS)
    participant.add_shard(Progress(chain(0), 0, 0, NO_CONTROL), MemoryEntries())
    participant.begin(0)
    held, store = participant.held, MemoryEntries()
    standby = held.stand_by(progress_at(0, 0, NO_CONTROL), store, held.fill_slot(()), 0)
    first = packet(FAR[:2], partition=1)
    heads = [(chain(0), 0), (chain(1), 1)]
    log = [
        *(BEGINS, first, decided(1, 1), packet(FAR[2:3])),
        control(2, [Decision(3, [])], heads=heads),
    ]
    for offset, record in enumerate(log):
        participant.read(offset, record, 0)
    store.add(NewEntries(1, first, np.arange(2)))
    standby.owner_committed(progress_at(2, 3, 2), [])
    participant.drop_shard(0)

    start = participant.begin(len(log))
    for offset in range(start, len(log)):
        participant.read(offset, log[offset], 0)

    assert participant.index.documents(standby.slot) == 2


def test_what_comes_to_a_topic_that_was_created_again_is_taken_in() -> None:
    other = packet(FAR[:1], partition=1)
    other = Packet(other.chain._replace(topic_id="new"), other.sender, -1, 0, other.columns)
    older = StandsBy(progress_at(0, 0, NO_CONTROL), log_end=2)
    newer = StandsBy(progress_at(0, 0, NO_CONTROL), log_end=1)
    for worker in (older, newer):
        worker.read(BEGINS, other, control(0, [Decision(1, [])], heads=[(other.chain, 0)]))
    assert (older.documents(), newer.documents()) == (0, 1)


def test_a_standby_is_opened_again_with_its_topic() -> None:
    worker = StandsBy(progress_at(0, 0, NO_CONTROL))
    progress = Progress(chain(1)._replace(topic_id="new"), 0, 0, NO_CONTROL)
    worker.standby.owner_committed(progress, [])
    assert worker.standby.is_outdated
    assert worker.participant.promote(progress) is None


def test_what_the_owner_has_let_go_of_is_passed_over() -> None:
    worker = StandsBy(progress_at(0, 0, NO_CONTROL))
    first = packet(FAR[:2], partition=1)
    worker.read(BEGINS, first, decided(1, 1))
    worker.store.add(NewEntries(1, first, np.arange(2)))
    worker.store.remove([1 << 16])
    worker.standby.owner_committed(progress_at(2, 2), [1 << 16])
    worker.read(packet(FAR[:2], partition=0))
    report = present(worker.participant.report(9))
    assert [each.sequence for each in report.packets[0].matches] == [1 << 16 | 1]


def leading_standby() -> tuple[Participant[str], list[LogRecord]]:
    """A worker with a standby of the leading shard; and the log, of which it has read all."""
    participant: Participant[str] = Participant("standby", NEARNESS)
    held = participant.held
    log: list[LogRecord] = [BEGINS, packet(FAR[:2]), packet(FAR[2:3], previous=1)]
    first = Progress(chain(0), 0, 0, NO_CONTROL)
    held.stand_by(first, MemoryEntries(), held.fill_slot(()), len(log))
    participant.begin(len(log))
    for offset, record in enumerate(log):
        participant.read(offset, record, 0)
    return participant, log


def test_a_standby_of_the_leading_shard_leads_for_its_owner() -> None:
    participant, log = leading_standby()
    participant.report(9)
    assert participant.control(9) is None
    assert participant.lead_for_owner()
    begins = present(participant.control(9))
    assert (begins.leads, begins.decisions) == (True, [])
    participant.read(len(log), begins, 0)
    participant.control_appended(len(log), begins.leader)
    assert participant.leads
    report = present(participant.report(9))
    participant.take_report(report)
    control_ = present(participant.control(9))
    assert [each.offset for each in control_.decisions] == [1, 2]


def test_who_stands_in_gives_way_to_the_owner() -> None:
    participant, log = leading_standby()
    participant.lead_for_owner()
    begins = present(participant.control(9))
    participant.read(len(log), begins, 0)
    participant.control_appended(len(log), begins.leader)
    participant.read(len(log) + 1, control(len(log), leader="leader.2", leads=True), 0)
    assert participant.decider is None
    report = present(participant.report(9))
    assert [each.offset for each in report.packets] == [1, 2]


def test_who_could_not_stand_in_reports_to_the_owner() -> None:
    participant, log = leading_standby()
    participant.lead_for_owner()
    participant.control(9)
    participant.report(9)
    participant.read(len(log), control(0, leader="leader.1"), 0)
    assert participant.decider is None
    report = present(participant.report(9))
    assert [each.offset for each in report.packets] == [1, 2]


def test_only_a_standby_of_the_leading_shard_stands_in() -> None:
    worker = StandsBy(progress_at(0, 0, NO_CONTROL))
    assert not worker.participant.lead_for_owner()
    participant, _ = leading_standby()
    assert participant.lead_for_owner()
    assert not participant.lead_for_owner(), "it leads already"
    participant.drop_standby(0)
    assert participant.decider is None
    assert not participant.lead_for_owner()


def test_entry_that_a_commit_brings_after_its_removal_is_hidden() -> None:
    index = DocumentIndex(NEARNESS.scheme)
    store = MemoryEntries()
    progress = Progress(chain(0), 0, 0, NO_CONTROL)
    copy = ShardCopy(progress, index.open_slot(), store, index)
    copy.begin(0)
    documents = packet(FAR[:1])
    names = [documents.columns.ids[0]]
    sequence = 1 << 16
    copy.remove([sequence], may_come=True)
    store.add(NewEntries(1, documents, np.arange(1)))
    copy.committed(Progress(chain(0), 1, 2, NO_CONTROL), [])
    assert store.by_ids(names) == [[sequence]]
    assert copy.with_ids(names) == [set()]
    store.remove([sequence])
    copy.committed(Progress(chain(0), 1, 3, NO_CONTROL), [sequence])
    assert copy.removed == frozenset()
