"""When a worker leads for an owner of the leading shard that is silent."""

from __future__ import annotations

from simhash_core.log.local_decider import MemoryEntries
from simhash_core.log.participant import LEADING_SHARD, Participant
from simhash_core.log.records import NO_CONTROL, Progress
from streams.worker.decide import SILENT_SECONDS, LeaderFailover
from streams.worker.fingerprint import PendingRecord
from tests.unit.core.log.log_of_records import FAR, NEARNESS, chain, control, packet


class Watched:
    """A worker with a standby of a shard, and a clock that goes by hand."""

    def __init__(self, partition: int = LEADING_SHARD) -> None:
        self.seconds = 0.0
        self.participant: Participant[PendingRecord] = Participant("standby", NEARNESS)
        held = self.participant.held
        progress = Progress(chain(partition), 0, 0, NO_CONTROL)
        held.stand_by(progress, MemoryEntries(), held.fill_slot(()), 0)
        self.participant.begin(0)
        self.participant.read(0, control(NO_CONTROL, leads=True), 0)
        self.failover = LeaderFailover(self.participant, lambda: self.seconds)

    def document(self) -> None:
        """A document comes, and waits."""
        previous = self.participant.replica.position
        self.participant.read(previous, packet(FAR[:1], previous=previous), 0)

    def is_due_after(self, seconds: float) -> bool:
        """Whether it is to lead, when so much time has gone by."""
        self.failover.is_due()
        self.seconds += seconds
        return self.failover.is_due()

    def leads_for_a_moment(self) -> None:
        """It tries to lead, and the owner of the shard leads again."""
        assert self.failover.try_to_lead()
        assert self.participant.control(9) is not None
        replica = self.participant.replica
        again = control(replica.control, leader="owner.2", leads=True)
        self.participant.read(replica.position, again, 0)
        assert self.participant.decider is None


def test_it_leads_when_documents_have_waited() -> None:
    """Given a document that is not decided for the time of silence, and not before, then it leads;
    while nothing waits, the silence says nothing.
    """
    watched = Watched()
    assert not watched.is_due_after(10 * SILENT_SECONDS)
    watched.document()
    assert not watched.is_due_after(SILENT_SECONDS * 0.9)
    assert watched.is_due_after(SILENT_SECONDS * 0.2)
    assert watched.failover.try_to_lead()
    assert watched.participant.decider is not None
    assert not watched.is_due_after(10 * SILENT_SECONDS), "it leads already"


def test_only_with_a_standby_of_the_leading_shard() -> None:
    """Given a standby of another shard, then it never is to lead."""
    watched = Watched(partition=1)
    watched.document()
    assert not watched.is_due_after(10 * SILENT_SECONDS)


def test_it_waits_longer_for_an_owner_that_is_alive() -> None:
    """Given an owner that leads again each time, then the wait grows; and after a long time without
    need it is short again.
    """
    watched = Watched()
    watched.document()
    assert watched.is_due_after(SILENT_SECONDS)
    watched.leads_for_a_moment()
    assert watched.is_due_after(SILENT_SECONDS)
    watched.leads_for_a_moment()

    assert not watched.is_due_after(SILENT_SECONDS)
    assert watched.is_due_after(SILENT_SECONDS)

    watched.seconds += 1_000
    watched.leads_for_a_moment()
    assert watched.is_due_after(SILENT_SECONDS)
