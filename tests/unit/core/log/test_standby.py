"""Copies of shards: standbys that read the log, report, and can be promoted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from simhash_core.index.document_index import DocumentIndex
from simhash_core.index.key_filter import KeyFilter
from simhash_core.log.local_decider import MemoryEntries
from simhash_core.log.participant import BundleLimit, Participant
from simhash_core.log.records import (
    NO_CONTROL,
    Control,
    Decision,
    LogRecord,
    Progress,
    sequence_number,
)
from simhash_core.log.shard_stream import NewEntries
from simhash_core.log.shards import ShardCopy
from tests.unit.core.log.made_to_order import (
    BEGINS,
    FAR,
    NEARNESS,
    append,
    bundle,
    bundle_of,
    chain,
    control,
    packet,
    present,
    read,
    worker_with,
)

OPENED = Progress(chain(1), 0, 0, NO_CONTROL)
"""The commits of shard 1's owner when its standby was opened."""
LIMIT = BundleLimit(documents=100, size=1 << 20)
FIRST_BUNDLE = bundle(packet(FAR[7:8], partition=3), packet(FAR[:2], partition=1))
FIRST = FIRST_BUNDLE.packet(1)
"""The first packet of shard 1 in the log."""
NUMBERS = [sequence_number(1, row) for row in (1, 2)]
"""Sequence numbers of its documents in a log where its bundle is at offset 1."""


def progress_at(following: int, position: int, control_at: int = 0) -> Progress:
    return Progress(chain(1), following, position, control_at)


def decided(offset: int, head: int) -> Control:
    """Return a control record after ``BEGINS`` by which all documents of a bundle are unique."""
    return control(0, [Decision(offset, [])], heads=[(chain(1), head), (chain(3), 0)])


class StandsBy:
    def __init__(self, progress: Progress = OPENED, log_end: int = 0) -> None:
        """``progress`` is the owner's when the standby was opened."""
        self.participant: Participant[str] = worker_with()
        self.store = MemoryEntries()
        held = self.participant.held
        self.standby = held.add_standby(progress, self.store, held.fill_slot(()), log_end)
        self.participant.begin(log_end)

    def read(self, *records: LogRecord) -> None:
        read(self.participant, *records)

    def documents(self) -> int:
        return self.participant.index.documents(self.standby.copy.slot)

    def reported(self) -> list[int]:
        made = present(self.participant.report(9))
        undecided = self.participant.replica.undecided
        return [each for each in undecided if made.first <= each < made.end]


@pytest.fixture
def worker() -> StandsBy:
    """Return a worker with a standby that has read its shard's first packet, which is decided."""
    worker = StandsBy()
    worker.read(BEGINS, FIRST_BUNDLE, decided(1, 1))
    assert worker.documents() == 2
    return worker


def test_a_standby_reports_on_what_it_has_read(worker: StandsBy) -> None:
    worker.read(bundle_of(FAR[1:2], partition=0))
    report = present(worker.participant.report(9))
    assert report.shards == [1]
    assert [each.sequence for each in report.found[0].matches] == NUMBERS[1:]
    assert report.positions == {}  # the log is not kept for a standby
    assert worker.participant.bundle(LIMIT) is None
    assert worker.participant.ready(9) == []


def test_a_level_standby_becomes_the_shard(worker: StandsBy) -> None:
    worker.store.add(NewEntries(1, FIRST, np.arange(2)))
    worker.standby.owner_committed(progress_at(2, 2), [])
    shard = present(worker.participant.promote(progress_at(2, 2)))
    assert shard.stream.next == 2
    assert worker.documents() == 2
    worker.participant.begin(3)
    worker.read(BEGINS, FIRST_BUNDLE, decided(1, 1))
    assert worker.documents() == 2


NEW_TOPIC = Progress(chain(1)._replace(topic_id="new"), 0, 0, NO_CONTROL)


@pytest.mark.parametrize("progress", [progress_at(2, 2), NEW_TOPIC], ids=["behind", "outdated"])
def test_a_standby_that_is_not_level_does_not_become_the_shard(progress: Progress) -> None:
    worker = StandsBy()
    worker.read(BEGINS)
    worker.standby.owner_committed(progress, [])
    assert worker.standby.is_outdated == (progress == NEW_TOPIC)
    assert worker.participant.promote(progress) is None
    assert worker.participant.held.standbys == {}
    assert worker.participant.promote(progress) is None


@pytest.mark.parametrize(("log_end", "documents"), [(2, 0), (1, 1)])
def test_what_comes_to_a_topic_that_was_created_again_is_taken_in(
    log_end: int, documents: int
) -> None:
    """Records that the log had when the standby was opened are in its store or nowhere."""
    first = packet(FAR[:1], partition=1)
    other = replace(first, chain=first.chain._replace(topic_id="new"))
    worker = StandsBy(log_end=log_end)
    worker.read(BEGINS, bundle(other), control(0, [Decision(1, [])], heads=[(other.chain, 0)]))
    assert worker.documents() == documents


def test_what_the_owner_has_let_go_of_is_passed_over(worker: StandsBy) -> None:
    worker.store.add(NewEntries(1, FIRST, np.arange(2)))
    worker.store.remove(NUMBERS[:1])
    worker.standby.owner_committed(progress_at(2, 2), NUMBERS[:1])
    worker.read(bundle_of(FAR[:2], partition=0))
    (found,) = present(worker.participant.report(9)).found
    assert [each.sequence for each in found.matches] == NUMBERS[1:]


def test_entry_that_a_commit_brings_after_its_removal_is_hidden() -> None:
    """It is removed while a commit that adds it is in flight; the next commit deletes it."""
    index = DocumentIndex(NEARNESS.scheme)
    store = MemoryEntries()
    copy = ShardCopy(OPENED, index.open_slot(), store, index, KeyFilter().open())
    copy.begin(0)
    names, sequence = [FIRST.columns.ids[0]], NUMBERS[0]
    copy.remove([sequence], may_be_stored=True)
    store.add(NewEntries(1, FIRST, np.arange(1)))
    copy.committed(progress_at(1, 2, NO_CONTROL), [])
    assert store.by_ids(names) == [[sequence]]
    assert copy.with_ids(names) == [set()]
    store.remove([sequence])
    copy.committed(progress_at(1, 3, NO_CONTROL), [sequence])
    assert copy.removed == frozenset()


# ---------------------------------------------------------------- shards that move


def test_a_shard_that_moves_reports_and_takes_commits_of_its_next_owner() -> None:
    store = MemoryEntries()
    participant: Participant[str] = worker_with()
    shard = participant.add_shard(OPENED, store)
    participant.begin(0)
    read(participant, BEGINS, FIRST_BUNDLE, decided(1, 1))
    assert participant.demote(1)
    assert participant.shards == {}
    read(participant, bundle_of(FAR[1:2], partition=0))
    report = present(participant.report(9))
    assert [each.sequence for each in report.found[0].matches] == NUMBERS[1:]
    assert (report.shards, report.positions) == ([1], {})

    store.add(NewEntries(1, FIRST, np.arange(2)))
    participant.held.standbys[1].owner_committed(progress_at(2, 2), [])
    assert present(participant.promote(progress_at(2, 2))).copy is shard.copy


def test_a_removal_that_is_committed_before_its_document_is_kept_until_then() -> None:
    """The next owner has read less: it commits the document, and removes its entry later."""
    store = MemoryEntries()
    participant: Participant[str] = worker_with()
    copy = participant.add_shard(OPENED, store).copy
    participant.begin(0)
    read(participant, BEGINS, FIRST_BUNDLE, decided(1, 1))
    copy.remove(NUMBERS)
    copy.committed(OPENED, NUMBERS)
    assert participant.demote(1)

    standby = participant.held.standbys[1]
    store.add(NewEntries(1, FIRST, np.arange(1)))
    standby.owner_committed(progress_at(2, 2), [])
    assert copy.removed == {NUMBERS[0]}, "the store never gets the other one"
    assert copy.with_ids([FIRST.columns.ids[0]]) == [set()]
    store.remove(NUMBERS[:1])
    standby.owner_committed(progress_at(2, 3), NUMBERS[:1])
    assert copy.removed == frozenset()


def test_a_shard_that_moves_before_its_session_is_dropped() -> None:
    participant: Participant[str] = worker_with()
    shard = participant.add_shard(OPENED, MemoryEntries())
    assert not participant.demote(1)
    assert participant.held.standbys == {}
    assert shard.slot not in participant.index._counts


# ---------------------------------------------------------------- leading for a silent owner


@pytest.fixture
def leading() -> StandsBy:
    """Return a worker with a standby of the leading shard, which has read three log records."""
    log: list[LogRecord] = [BEGINS, bundle_of(FAR[:2]), bundle_of(FAR[2:3], previous=1)]
    worker = StandsBy(Progress(chain(0), 0, 0, NO_CONTROL), len(log))
    worker.read(*log)
    return worker


def test_a_standby_of_the_leading_shard_leads_for_its_owner(leading: StandsBy) -> None:
    participant = leading.participant
    participant.report(9)
    assert participant.control(9) is None
    assert participant.take_lead()
    begins = append(participant)
    assert (begins.leads, begins.decisions) == (True, [])
    assert participant.leads
    participant.take_report(present(participant.report(9)))
    assert [each.offset for each in present(participant.control(9)).decisions] == [1, 2]


@pytest.mark.parametrize("has_begun", [True, False])
def test_who_stands_in_gives_way_to_the_owner(leading: StandsBy, has_begun: bool) -> None:
    leading.participant.take_lead()
    if has_begun:
        append(leading.participant)
        leading.read(control(3, leader="leader.2", leads=True))
    else:
        leading.participant.control(9)
        leading.participant.report(9)
        leading.read(control(0, leader="leader.1"))
    assert leading.participant.decider is None
    assert leading.reported() == [1, 2]


def test_only_a_standby_of_the_leading_shard_stands_in(leading: StandsBy) -> None:
    assert not StandsBy().participant.take_lead()
    participant = leading.participant
    assert participant.take_lead()
    assert not participant.take_lead(), "it leads already"
    participant.drop_standby(0)
    assert participant.decider is None
    assert not participant.take_lead()
