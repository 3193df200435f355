"""The format version in force: who raises it, which records count, and which workers stop."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simhash_core.log.decider import Decider, OpenStandbys
from simhash_core.log.participant import Participant
from simhash_core.log.records import NO_CONTROL, ChainHeads, Control, Report
from simhash_core.log.versions import (
    NEWEST,
    OLDEST,
    Readers,
    UnreadableVersionError,
    member_of,
)
from tests.unit.core.log.made_to_order import NEARNESS

MEMBERS = {"a": "1", "b": "1"}


def readers(**reads: int) -> Readers:
    """Return readers that know two members, with the later reports."""
    known = Readers(NEWEST)
    known.check(MEMBERS)
    for name, version in reads.items():
        known.note(f"{name}.life", version)
    return known


def test_a_member_that_came_or_changed_is_waited_for() -> None:
    for others in ({**MEMBERS, "c": "1"}, {"a": "1"}, {**MEMBERS, "b": "2"}):
        known = readers(a=NEWEST, b=NEWEST, c=NEWEST)
        assert not known.check(others)
        for name in others:
            known.note(f"{name}.life", NEWEST)
        assert known.check(others)


def test_of_two_lives_of_a_member_both_must_read_it() -> None:
    known = readers(a=NEWEST, b=NEWEST)
    known.note("b.earlier", OLDEST)
    known.note("b.life", NEWEST)
    assert not known.check(MEMBERS)


@given(
    st.dictionaries(st.sampled_from("abcd"), st.sampled_from([OLDEST, NEWEST])),
    st.sets(st.sampled_from("abcd")),
)
def test_the_version_is_raised_only_if_every_member_reads_it(
    reads: dict[str, int], names: set[str]
) -> None:
    members = dict.fromkeys(names, "")
    known = Readers(NEWEST)
    known.check(members)
    for name, version in reads.items():
        known.note(f"{name}.life", version)
    expected = bool(names) and all(reads.get(name) == NEWEST for name in names)
    assert known.check(members) == expected


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


def append(worker: Participant[str]) -> Control:
    """Append and read a leader's next control record."""
    control = worker.control(9)
    assert control is not None
    offset = worker.replica.position
    worker.read(offset, control, 0)
    worker.control_appended(offset, control.leader)
    return control


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
    control = worker.control(9)
    assert control is not None
    assert (control.version, control.decisions, control.leads) == (NEWEST, [], False)
    assert worker.version == OLDEST, "it is not in force before it was read back"
    worker.read(1, control, 0)
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
    first = worker.control(9)
    assert first is not None
    worker.read(0, first, 0)
    worker.read(1, first, 0)
    worker.control_appended(1, first.leader)
    for _ in range(2):
        worker.take_report(report("b", []))
        worker.set_members(MEMBERS)
    refused = worker.control(9)
    assert refused is not None
    assert worker.read(2, refused, 0) is None
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
