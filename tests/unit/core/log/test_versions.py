"""The format version in force: who raises it, which records count, and which workers stop."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simhash_core.log.decider import Decider, OpenStandbys
from simhash_core.log.participant import Participant
from simhash_core.log.records import NO_CONTROL, ChainHeads, Control, Report
from simhash_core.log.versions import NEWEST, OLDEST, Readers, UnreadableVersionError, member_of
from tests.unit.core.log.made_to_order import NEARNESS, append, present, read

MEMBERS = {"a": "1", "b": "1"}
NAMES = st.sampled_from("abc")
LIVES = st.sampled_from(["1", "2"])


@given(
    st.dictionaries(NAMES, LIVES),
    st.none() | st.dictionaries(NAMES, LIVES),
    st.lists(st.tuples(NAMES, LIVES, st.sampled_from([OLDEST, NEWEST]))),
)
def test_the_version_is_raised_once_all_of_the_same_members_have_reported_that_they_read_it(
    members: dict[str, str], before: dict[str, str] | None, reports: list[tuple[str, str, int]]
) -> None:
    """``before`` are the members at the last look, None for the same; older reports are too old."""
    known = Readers(NEWEST)
    for name in members:
        known.note(f"{name}.1", OLDEST)
    assert not known.check(members if before is None else before)
    reads: dict[str, int] = {}
    for name, life, version in reports:
        known.note(f"{name}.{life}", version)
        reads[name] = min(version, reads.get(name, version))
    all_read = all(reads.get(name) == NEWEST for name in members)
    are_same = before is None or before == members
    assert known.check(members) == (bool(members) and are_same and all_read)
    assert not known.check(members)


def test_a_worker_is_named_after_its_member() -> None:
    assert member_of("news.0b7d.1f2e3d4c") == "news.0b7d"
    assert member_of("alone") == "alone"


# ---- the leader


def worker_of(reads: int = NEWEST) -> Participant[str]:
    """Return a worker that has begun to lead, with its first control record at 0."""
    worker: Participant[str] = Participant("a.life", NEARNESS, reads)
    worker.begin(0)
    worker.decider = Decider("a.life.1", NEARNESS, reads)
    append(worker)
    return worker


def report(name: str, shards: list[int], *owned: int, reads: int = NEWEST) -> Report:
    return Report(f"{name}.life", shards, 0, 0, 0, [], dict.fromkeys(owned, 0), reads)


def raised() -> Participant[str]:
    worker = worker_of()
    for _ in range(2):
        worker.take_report(report("b", []))
        worker.set_members(MEMBERS)
    append(worker)
    return worker


def test_a_leader_raises_the_version_once() -> None:
    worker = worker_of()
    assert (worker.version, worker.awaits_raise) == (OLDEST, True)
    worker.set_members(MEMBERS)
    assert worker.control(9) is None
    worker.take_report(report("b", []))
    worker.set_members(MEMBERS)
    control = present(worker.control(9))
    assert (control.version, control.decisions, control.leads) == (NEWEST, [], False)
    assert worker.version == OLDEST, "it is not in force before it was read back"
    read(worker, control)
    worker.control_appended(1, control.leader)
    assert (worker.version, worker.awaits_raise) == (NEWEST, False)
    assert worker.control(9) is None


def test_a_leader_that_is_no_member_does_not_raise_it() -> None:
    worker = worker_of()
    for _ in range(2):
        worker.take_report(report("b", []))
        worker.set_members({"b": "1"})
    assert worker.control(9) is None


def test_a_raise_whose_record_does_not_continue_the_chain_is_made_again() -> None:
    """The broker appended the first record twice and returned the second offset."""
    worker: Participant[str] = Participant("a.life", NEARNESS)
    worker.begin(0)
    worker.decider = Decider("a.life.1", NEARNESS)
    first = present(worker.control(9))
    read(worker, first, first)
    worker.control_appended(1, first.leader)
    for _ in range(2):
        worker.take_report(report("b", []))
        worker.set_members(MEMBERS)
    assert worker.read(2, present(worker.control(9)), 0) is None
    assert worker.controls_refused == 2
    assert worker.version == OLDEST
    assert worker.decider is None, "it has no shard to lead with; else it begins a new term"


def test_an_older_worker_reads_the_raise_and_stops() -> None:
    older: Participant[str] = Participant("b.life", NEARNESS, OLDEST)
    older.begin(0)
    older.read(0, Control(NO_CONTROL, "a.1", True, [], ChainHeads(), 0), 0)
    with pytest.raises(UnreadableVersionError, match=r"record at 1 on, .*version 5.*4 to 4"):
        older.read(1, Control(0, "a.1", False, [], ChainHeads(), 0, NEWEST), 0)


def test_records_of_versions_that_are_not_in_force_are_not_heeded() -> None:
    worker = raised()
    at = worker.replica.position
    assert [version for version in range(9) if worker.replica.accepts(at, version)] == [4, 5]
    before: Participant[str] = Participant("b.life", NEARNESS)
    before.begin(0)
    assert [version for version in range(9) if before.replica.accepts(0, version)] == [3, 4]


# ---- open standbys


def test_control_records_name_the_open_standbys_from_the_newest_version_on() -> None:
    worker = worker_of()
    worker.take_report(report("b", [0, 1, 2], 1))
    assert worker.control(9) is None
    worker = raised()
    worker.take_report(report("b", [0, 1, 2], 1))
    assert append(worker).standbys == (("b.life", (0, 2)),)
    worker.take_report(report("b", [0, 1, 2], 1))
    assert worker.control(9) is None, "nothing is new"
    worker.set_members({"a": "1"})
    assert append(worker).standbys == ()


def test_a_new_life_takes_the_standbys_of_the_one_before() -> None:
    known = OpenStandbys()

    def named() -> dict[str, tuple[int, ...]]:
        return dict(known.open)

    known.begin((("b.earlier", (0,)), ("c.life", (1,))))
    assert named() == {"b.earlier": (0,), "c.life": (1,)}
    known.note(report("b", [2], 2))
    assert named() == {"c.life": (1,)}
    known.note(report("b", [2, 3], 2))
    assert named() == {"b.life": (3,), "c.life": (1,)}
    known.keep({"b"})
    assert named() == {"b.life": (3,)}
