"""Whose open transactions a worker aborts: those of writers that have left the group."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from streams.errors import BrokerUnavailableError
from streams.settings.settings import Delivery, Settings
from streams.topics import consumer_group as listing
from streams.topics.consumer_group import ListedGroup, ListedMember
from streams.worker import index_on_kafka
from streams.worker.index_on_kafka import Claim, IndexOnKafka

THIS = "this"


class Group:
    """The group as the broker lists it, and the transactions that were aborted."""

    def __init__(self) -> None:
        self.members: set[str] = {THIS}
        self.last_writers: Mapping[int, str] = {}
        self.aborted: list[str] = []
        self.listed = 0
        self.error: KafkaException | None = None

    def list(self, *_: object) -> ListedGroup:
        """The request for the group's members."""
        self.listed += 1
        if self.error is not None:
            raise self.error
        return ListedGroup(True, [ListedMember(name, "host", b"") for name in self.members])

    def claim(self, *arguments: Any) -> Claim | None:  # noqa: ANN401 - as of ``read_claim``
        """The last progress of a partition."""
        writer = self.last_writers.get(arguments[-1])
        return None if writer is None else Claim("identity", "reading", 0, 0, writer)

    async def abort(self, _: object, writer: str, __: float) -> None:
        """Abort what a writer has left open."""
        self.aborted.append(writer)


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> Group:
    """A group that consists of this worker."""
    group = Group()
    monkeypatch.setattr(listing, "listed_group", group.list)
    monkeypatch.setattr(listing, "_GROUP_SECONDS", 0.0)
    monkeypatch.setattr(index_on_kafka, "read_claim", group.claim)
    monkeypatch.setattr(index_on_kafka, "abort_left_open", group.abort)
    return group


def index(**changes: Any) -> IndexOnKafka:  # noqa: ANN401 - settings of several types
    """The index as this worker sees it; nothing is connected to."""
    return IndexOnKafka(Settings(brokers="127.0.0.1:1", **changes), "identity", "reading", THIS)


def test_a_member_that_was_killed_in_its_first_commit(group: Group) -> None:
    """Given a member that has committed nothing anywhere, when it has left the group, then what it
    left open is aborted, once.
    """

    async def story() -> None:
        of = index()
        group.members = {THIS, "other"}
        await of.note_members()
        await of.abort_left_open([0])
        assert group.aborted == []

        group.members = {THIS}
        await of.abort_left_open([0])
        assert group.aborted == ["other"]
        await of.abort_left_open([0])
        assert group.aborted == ["other"]

    asyncio.run(story())


def test_an_opening_remembers_who_is_there(group: Group) -> None:
    """Given a member that only an opening has seen, when it has left, then the next one knows."""

    async def story() -> None:
        of = index()
        group.members = {THIS, "other"}
        await of.abort_left_open([])
        assert group.listed == 1
        group.members = {THIS}
        await of.abort_left_open([])
        assert group.aborted == ["other"]

    asyncio.run(story())


def test_last_writers_and_former_members(group: Group) -> None:
    """Given partitions whose last writers are this worker, one that is there, one that has left and
    nobody, then that of the one that has left is aborted, beside that of a former member.
    """
    group.last_writers = {0: THIS, 1: "there", 2: "left", 4: ""}
    group.members = {THIS, "there", "former"}

    async def story() -> None:
        of = index()
        await of.note_members()
        group.members = {THIS, "there"}
        await of.abort_left_open(range(5))

    asyncio.run(story())
    assert group.aborted == ["former", "left"]


@pytest.mark.parametrize("members", [set(), {"other"}])
def test_a_group_without_this_worker_is_not_believed(group: Group, members: set[str]) -> None:
    """Given a group that is listed without this worker, whose coordinator may be moving, then no
    transaction is aborted: those of workers that are well would be among them.
    """
    group.last_writers = {0: "there"}
    group.members = members
    with pytest.raises(BrokerUnavailableError, match="without this worker, this"):
        asyncio.run(index().abort_left_open([0]))
    assert group.aborted == []


def test_noting_waits_for_no_broker(group: Group) -> None:
    """Given a broker that does not answer, when members are noted, then that is no error, and an
    opening fails.
    """
    group.error = KafkaException(KafkaError(KafkaError._TRANSPORT))
    asyncio.run(index().note_members())
    with pytest.raises(BrokerUnavailableError, match="unknown whether other workers"):
        asyncio.run(index().abort_left_open([0]))


def test_without_transactions_nothing_is_asked(group: Group) -> None:
    """Given a broker without transactions, then nobody asks it for the group."""
    of = index(delivery=Delivery.AT_LEAST_ONCE)
    asyncio.run(of.note_members())
    asyncio.run(of.abort_left_open([0]))
    assert group.listed == 0


def test_only_so_many_are_remembered(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given more members over time than are remembered, then those seen last are."""
    monkeypatch.setattr(index_on_kafka, "_MEMBERS_MAX", 3)

    async def story(members_of: Callable[[int], set[str]]) -> None:
        of = index()
        for number in range(5):
            group.members = {THIS} | members_of(number)
            await of.note_members()
        group.members = {THIS}
        await of.abort_left_open([])

    asyncio.run(story(lambda number: {f"w{number}"}))
    assert group.aborted == ["w3", "w4"]
