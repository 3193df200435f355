"""Which workers keep which standbys, and when one leads for the owner of the leading shard."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from unittest.mock import AsyncMock, MagicMock, patch

import msgspec
import pytest

from simhash_core.log.local_decider import MemoryEntries
from simhash_core.log.participant import LEADING_SHARD, Participant
from simhash_core.log.records import (
    NO_CONTROL,
    Bundle,
    Control,
    Decision,
    Progress,
    Report,
    sequence_number,
)
from simhash_core.log.records import Standbys as OpenedStandbys
from simhash_core.log.versions import NEWEST, OLDEST
from streams.errors import UnansweredError
from streams.store.changelog_codec import LoggedDeletions, LoggedEnd
from streams.store.entry_batch import Removal
from streams.worker import standbys
from streams.worker.decide import CALM_SECONDS, SILENT_SECONDS, Leader, LeaderFailover
from streams.worker.fingerprint import PendingRecord
from streams.worker.shard import Shard
from streams.worker.standbys import FilledStore, Standbys, StandbyStores, standby_plan
from tests.rigs.manual_clock import ManualClock
from tests.unit.core.log.made_to_order import FAR, NEARNESS, chain, control, packet
from tests.unit.worker.hand_driven import SETTINGS, TOPICS, Appender, Reader, context_of


def test_the_shards_of_one_are_spread_over_all_others() -> None:
    owned = {name: set(range(at * 6, at * 6 + 6)) for at, name in enumerate("abcd")}
    plan = standby_plan(owned, 2)
    for owner, shards in owned.items():
        others = owned.keys() - {owner}
        assert Counter(plan[each][0] for each in shards) == dict.fromkeys(others, 2)
        assert all(len(set(plan[each])) == 2 and others.issuperset(plan[each]) for each in shards)


@pytest.mark.parametrize(
    ("owned", "copies", "plan"),
    [
        ({}, 1, {}),
        ({"a": {0, 1}}, 1, {}),
        ({"a": {0}}, 3, {}),
        ({"a": {0}, "b": set()}, 3, {0: ("b",)}),
        ({"a": {0, 1, 2}, "b": {3}, "c": set()}, 1, {2: ("c",), 1: ("b",), 0: ("c",), 3: ("c",)}),
    ],
)
def test_a_standby_is_on_the_member_that_would_get_the_shard(
    owned: dict[str, set[int]], copies: int, plan: dict[int, tuple[str, ...]]
) -> None:
    assert standby_plan(owned, copies) == plan


class Watched:
    """A worker with a standby of a shard, and a clock that the test moves by hand."""

    def __init__(self, partition: int = LEADING_SHARD) -> None:
        self.clock = ManualClock()
        self.participant: Participant[PendingRecord] = Participant("standby", NEARNESS)
        held = self.participant.held
        progress = Progress(chain(partition), 0, 0, NO_CONTROL)
        held.add_standby(progress, MemoryEntries(), held.fill_slot(()), 0)
        self.participant.begin(0)
        self.participant.read(0, control(NO_CONTROL, leads=True), 0)
        self.failover = LeaderFailover(self.participant, self.clock)

    def document(self) -> None:
        previous = self.participant.replica.position
        document = Bundle.of([packet(FAR[:1], previous=previous)])
        self.participant.read(previous, document, 0)

    def is_due_after(self, seconds: float) -> bool:
        self.failover.is_due()
        self.clock.now += seconds
        return self.failover.is_due()

    def leads_for_a_moment(self) -> None:
        """Let the standby begin to lead, and then the owner of the shard again."""
        assert self.failover.try_to_lead()
        assert self.participant.control(9) is not None
        self.owner_decides()
        assert self.participant.decider is None

    def owner_decides(self) -> None:
        replica = self.participant.replica
        again = control(replica.control, leader="owner.2", leads=True)
        self.participant.read(replica.position, again, 0)


def worker_that_knows(version: int, standbys: OpenedStandbys) -> Participant[PendingRecord]:
    """Return a worker that has read a control record with these standbys."""
    participant = Watched().participant
    latest = participant.replica.latest
    assert latest is not None
    known = msgspec.structs.replace(latest, previous=0, version=version, standbys=standbys)
    participant.read(1, known, 0)
    return participant


def stores_that_know(version: int, standbys: OpenedStandbys) -> StandbyStores:
    return StandbyStores(context_of(worker_that_knows(version, standbys)))


@pytest.mark.parametrize(
    ("version", "standbys", "is_succeeded"),
    [
        (OLDEST, (), True),
        (NEWEST, (), False),
        (NEWEST, (("b.life", (0, 1)),), False),
        (NEWEST, (("b.life", (0,)), ("c.life", (1,))), False),
        (NEWEST, (("b.life", (0,)), ("c.life", (0,))), True),
    ],
)
def test_a_standby_is_succeeded_once_all_that_are_planned_are_open(
    version: int, standbys: OpenedStandbys, *, is_succeeded: bool
) -> None:
    """Control records of older versions do not name open standbys."""
    stores = stores_that_know(version, standbys)
    assert stores.is_succeeded(0, ("b", "c")) == is_succeeded
    assert stores.is_succeeded(0, ()), "nobody is to have one"


@pytest.mark.parametrize(
    ("version", "standbys", "missing"),
    [
        (OLDEST, (), []),
        (NEWEST, (), [0, 1, 2]),
        (NEWEST, (("b.life", (1,)), ("c.life", (2, 7))), [0]),
        (NEWEST, (("b.life", (0, 1, 2)),), []),
        (NEWEST, (("standby.life", (1,)), ("b.life", (2,))), [0, 1]),
    ],
)
def test_a_worker_knows_its_shards_without_an_open_standby(
    version: int, standbys: OpenedStandbys, missing: list[int]
) -> None:
    assert stores_that_know(version, standbys).missing([2, 0, 1]) == missing


@pytest.mark.parametrize(
    ("version", "standbys", "is_news"),
    [
        (OLDEST, (), False),
        (NEWEST, (), True),
        (NEWEST, (("standby", (0,)),), False),
        (NEWEST, (("other", (0,)), ("standby", (0, 3))), True),
    ],
)
def test_a_worker_reports_its_standbys_until_control_records_name_them(
    version: int, standbys: OpenedStandbys, *, is_news: bool
) -> None:
    """Such reports are needed, because an index without documents has no others."""
    assert worker_that_knows(version, standbys).has_standby_news == is_news


@pytest.mark.parametrize(
    ("committed_next", "position", "is_found", "is_level"),
    [
        pytest.param(7, 0, True, True, id="level"),
        pytest.param(8, 0, True, False, id="the changelog lacks the group's progress"),
        pytest.param(6, 0, True, False, id="it has commits that brokers have lost"),
        pytest.param(7, 0, False, False, id="its last commit is not in the changelog"),
        pytest.param(7, 9, True, False, id="it has read less of the log"),
    ],
)
async def test_a_standby_is_level_if_it_has_all_that_is_committed_and_no_more(
    committed_next: int,
    position: int,
    is_found: bool,
    is_level: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(standbys, "_LEVEL_SECONDS", 0.05)
    monkeypatch.setattr(standbys, "_LOG_SECONDS", 0.05)
    participant = Watched(partition=1).participant
    stored = SimpleNamespace(progress=Progress(chain(1), 7, position, NO_CONTROL))
    store = MagicMock(changelog_offset=5, progress=lambda: stored)
    store.lineage.commit = 3
    follower = MagicMock(end=AsyncMock(return_value=5))
    stores = StandbyStores(context_of(participant, follow=lambda _: follower))
    stores.take_in(1, FilledStore(store, stored.progress, participant.held.fill_slot(()), 0))
    participant.begin(0)
    participant.read(0, control(NO_CONTROL, leads=True), 0)

    async def reach(*_: object) -> bool:
        stores._open[1].is_compared = is_found  # as ``_read`` does
        return True

    follower.reach = reach
    assert await stores.level(chain(1), committed_next) == (store if is_level else None)
    follower.follow.assert_called_with(1, 4)
    assert (1 in stores) == is_level, "a shard is opened instead"


def test_a_standby_forgets_removed_entries_that_its_store_no_longer_has() -> None:
    """Otherwise it would keep each removed document for as long as it is open."""
    kept, expired, deleted, ended, stored = (sequence_number(each, 1) for each in (9, 2, 5, 6, 7))
    standby = MagicMock()
    standby.copy.removed = frozenset([kept, expired, deleted, ended, stored])
    store = MagicMock(expired_before=sequence_number(3, 0), has=lambda each: each == stored)
    deletions = [LoggedDeletions(each - 1, [each]) for each in (deleted, stored)]
    removal = Removal(deletions, [LoggedEnd(ended - 1)])
    assert set(standbys._removed(standby, removal, store)) == {expired, deleted, ended}


async def test_a_worker_without_standbys_watches_the_leader_too() -> None:
    """It may own the leading shard, and wait until a former owner is silent."""
    watched = asyncio.Event()

    async def watch() -> None:
        watched.set()

    assert SETTINGS.standbys == 0
    keeper = Standbys(context_of(), watch)
    keeper.open(lambda _: None)
    await asyncio.wait_for(watched.wait(), 30)
    await keeper.close()


async def test_a_standby_of_a_shard_that_this_worker_got_meanwhile_is_given_up() -> None:
    participant = Watched(partition=1).participant
    context = context_of(participant, follow=MagicMock())
    keeper = Standbys(context, AsyncMock())
    stores = {partition: MagicMock(changelog_offset=0) for partition in (2, 3)}
    for partition, store in stores.items():
        progress = Progress(chain(partition), 0, 0, NO_CONTROL)
        slot = participant.index.open_slot(visible=False)
        keeper._filled[partition] = FilledStore(store, progress, slot, 0)
    context.shards[2] = Shard(2, 1)
    assert keeper._take_in()
    assert keeper.stores.partitions == [3]
    stores[2].close.assert_called_once()
    stores[3].close.assert_not_called()


def test_a_standby_leads_when_a_document_has_waited_for_the_time_of_silence() -> None:
    watched = Watched()
    assert not watched.is_due_after(10 * SILENT_SECONDS), "nothing waits"
    watched.document()
    assert not watched.is_due_after(SILENT_SECONDS * 0.9)
    assert watched.is_due_after(SILENT_SECONDS * 0.2)
    assert watched.failover.try_to_lead()
    assert watched.participant.decider is not None
    assert not watched.is_due_after(10 * SILENT_SECONDS), "it leads already"


def leader_of(watched: Watched, query_log: Callable[[], Awaitable[None]]) -> Leader:
    log = SimpleNamespace(offsets=query_log)
    return Leader(context_of(watched.participant, log=log, reports=Reader([])), watched.clock)


def test_a_leader_ignores_the_reports_of_another_application() -> None:
    """It counts shards as this one does, and its positions are those of another log."""
    watched = Watched()
    reports = [
        Report(f"{name}.a", [7], 0, 0, 0, [], {7: 5}) for name in (SETTINGS.application_id, "other")
    ]
    values = [(context_of().codec.encode_report(each), 0) for each in reports]
    taken: list[Report] = []
    reader = Reader(values)
    reader.seek(0)
    leader = Leader(context_of(watched.participant, reports=reader), watched.clock)
    with patch.object(leader, "take_report", taken.append):
        leader.take_reports()
    assert taken == reports[:1]


def is_missing(leader: Leader) -> bool:
    return leader.is_missing


@pytest.mark.parametrize(
    ("log_seconds", "led"), [(0.01, [True]), (7.0, [False, True])], ids=["log", "no log"]
)
async def test_a_standby_gives_a_leader_time_after_the_log_was_silent(
    log_seconds: float, led: list[bool]
) -> None:
    """The leader waited for the log too, and decides as soon as the log is back."""
    watched = Watched()
    answers = [log_seconds]

    async def query_log() -> None:
        watched.clock.now += answers.pop() if answers else 0.0

    leader = leader_of(watched, query_log)
    watched.document()
    for leads in led:
        assert not is_missing(leader)
        watched.clock.now += SILENT_SECONDS
        assert is_missing(leader)
        assert await leader.fail_over() == leads


class GaveWay(Watched):
    """A worker that owns the leading shard, and decided nothing in its term; another one leads."""

    def __init__(self) -> None:
        super().__init__(partition=LEADING_SHARD + 1)
        self.participant.add_shard(Progress(chain(0), 0, 0, NO_CONTROL), MemoryEntries())
        self.participant.begin(0)
        self.participant.read(0, control(NO_CONTROL, leads=True), 0)
        first = self.participant.control(9)
        assert first is not None
        self.participant.read(1, first, 0)
        self.participant.read(2, Bundle.of([packet(FAR[:1])]), 0)
        self.other_decides(control(1, leader="other.2", leads=True))
        assert self.participant.decider is None

    def other_decides(self, record: Control) -> None:
        self.participant.read(self.participant.replica.position, record, 0)


def test_an_owner_that_decided_nothing_leads_when_the_other_is_silent() -> None:
    watched = GaveWay()
    assert not watched.is_due_after(SILENT_SECONDS / 2)
    assert watched.is_due_after(SILENT_SECONDS / 2)
    assert watched.failover.try_to_lead()


def test_an_owner_that_decided_nothing_leads_again_after_a_minute() -> None:
    """Only an owner trims the log. Without documents nobody is silent."""
    watched = GaveWay()
    watched.other_decides(control(3, [Decision(2, [])], leader="other.2"))
    assert not watched.is_due_after(59.0)
    assert watched.is_due_after(1.0)
    assert watched.failover.try_to_lead()
    assert not watched.failover.is_due()


async def test_a_standby_does_not_lead_while_the_log_does_not_answer() -> None:
    watched = Watched()

    async def query_log() -> None:
        watched.clock.now += 10.0
        raise UnansweredError("no answer")

    leader = leader_of(watched, query_log)
    watched.document()
    assert not is_missing(leader)
    watched.clock.now += SILENT_SECONDS
    with pytest.raises(UnansweredError):
        await leader.fail_over()
    assert watched.participant.decider is None
    assert not is_missing(leader), "it counts again"


async def test_an_owner_decides_although_its_fail_over_before_it_led_has_failed() -> None:
    """A session may have prepared it meanwhile, and the later attempt skips no reports."""
    watched = Watched()
    log, reports = Reader([]), Reader([])
    appender = Appender({TOPICS.log: log})
    context = context_of(watched.participant, log=log, reports=reports, appender=appender)
    leader = Leader(context, watched.clock)
    await leader.prepare()
    reports.append(b"a report")
    await leader.prepare()
    reports.error = UnansweredError("no answer")
    with pytest.raises(UnansweredError):
        await leader.fail_over()
    assert watched.participant.take_lead()
    await leader.decide()
    assert len(log.records) == 1
    assert reports.take() is not None


def trimming(
    participant: Participant[PendingRecord], clock: ManualClock
) -> tuple[Leader, list[int]]:
    """Return a leader, and the offsets up to which it has deleted log records."""
    deleted: list[int] = []

    async def delete_before(offset: int) -> None:
        deleted.append(offset)

    index = SimpleNamespace(delete_before=delete_before)
    return Leader(context_of(participant, index=index), clock), deleted


async def test_a_leader_with_only_a_standby_of_its_shard_does_not_trim_the_log() -> None:
    """It may not know all positions."""
    participant, clock = Watched().participant, ManualClock(1_000.0)
    assert participant.take_lead()
    first = participant.control(9)
    assert first is not None
    participant.control_appended(1, first.leader)
    participant.read(1, first, 0)
    assert participant.leads
    leader, deleted = trimming(participant, clock)
    leader.take_report(Report("other", [1], 1, 0, 0, [], {0: 60, 1: 60}))
    for _ in range(8):
        clock.now += 10.0
        await leader.trim(2)
    assert deleted == []


@pytest.mark.parametrize(("begun_at", "trimmed"), [(None, [50]), (70, [50]), (40, [40])])
async def test_the_log_is_trimmed_to_what_all_shards_have_needed_for_a_minute(
    begun_at: int | None, trimmed: list[int]
) -> None:
    """A shard that began meanwhile may need more, from the position of shard 0 at its opening."""
    participant: Participant[PendingRecord] = Participant("leader", NEARNESS)
    participant.add_shard(Progress(chain(LEADING_SHARD), 0, 50, NO_CONTROL), MemoryEntries())
    participant.begin(50)
    first = participant.control(9)
    assert first is not None
    participant.control_appended(50, first.leader)
    participant.read(50, first, 0)
    clock = ManualClock(1_000.0)
    leader, deleted = trimming(participant, clock)
    await leader.trim(2)
    leader.take_report(Report("other", [1], 50, 0, 0, [], {1: 60}))
    for _ in range(6):
        clock.now += 10.0
        await leader.trim(2)
    assert deleted == [], "it is not known for a minute"
    if begun_at is not None:
        leader.take_report(Report("third", [2], 50, 0, 0, [], {2: begun_at}))
    clock.now += 10.0
    await leader.trim(2 if begun_at is None else 3)
    assert deleted == trimmed


def test_a_standby_of_another_shard_never_leads() -> None:
    watched = Watched(partition=1)
    watched.document()
    assert not watched.is_due_after(10 * SILENT_SECONDS)


def test_a_standby_waits_longer_each_time_that_the_owner_turns_out_to_be_alive() -> None:
    watched = Watched()
    watched.document()
    for wait in (SILENT_SECONDS, 2 * SILENT_SECONDS, 4 * SILENT_SECONDS):
        assert not watched.is_due_after(0.9 * wait)
        assert watched.is_due_after(0.1 * wait)
        watched.leads_for_a_moment()


@pytest.mark.parametrize(("decides_after", "is_short"), [(0.8, True), (1.2, False)])
def test_the_wait_is_short_again_once_decisions_are_prompt(
    decides_after: float, *, is_short: bool
) -> None:
    """A leader that is always slow would otherwise lose the lead again and again."""
    watched = Watched()
    watched.document()
    assert watched.is_due_after(SILENT_SECONDS)
    watched.leads_for_a_moment()
    for _ in range(2 * round(CALM_SECONDS / SILENT_SECONDS)):
        assert not watched.is_due_after(decides_after * SILENT_SECONDS)
        watched.owner_decides()
    assert watched.is_due_after(SILENT_SECONDS) == is_short
    assert watched.is_due_after(SILENT_SECONDS)
