"""The coordinator of the group: generations, assignments, sessions, and committed offsets.

A rebalance is cooperative: a partition that moves is first revoked from its owner, and assigned to
another member by the next rebalance. Members join, the first one computes the assignment, and a
member that does not join in time is removed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, Final, NamedTuple

from tests.worker_simulation.network import Code, RefusedError

if TYPE_CHECKING:
    from tests.worker_simulation.cluster import Cluster

NO_GENERATION: Final = -1
NO_OFFSET: Final = -1


class GroupMetadata(NamedTuple):
    """The member, its instance and its generation, which are sent with commits."""

    member_id: str
    generation: int
    instance_id: str | None

    def encoded(self) -> bytes:
        return f"{self.member_id}|{self.generation}|{self.instance_id or ''}".encode()

    @classmethod
    def decoded(cls, metadata: bytes) -> GroupMetadata:
        member_id, generation, instance_id = metadata.decode().split("|")
        return cls(member_id, int(generation), instance_id or None)


class Joined(NamedTuple):
    member_id: str
    generation: int


class Committed(NamedTuple):
    offset: int
    note: str


class _State(Enum):
    EMPTY = auto()
    JOINING = auto()
    AWAITING_SYNC = auto()
    STABLE = auto()


@dataclass(slots=True)
class _Member:
    """``owned``: as reported when it joined; ``assigned``: in the assignment of this generation."""

    id: str
    name: str
    instance_id: str | None
    owned: frozenset[int] = frozenset()
    assigned: frozenset[int] = frozenset()
    timer: asyncio.TimerHandle | None = None
    joining: asyncio.Future[Joined] | None = None
    syncing: asyncio.Future[frozenset[int]] | None = field(default=None)


class GroupState(NamedTuple):
    """What a disk has of the group: the last generation that got its assignment, and offsets."""

    generation: int
    members: list[tuple[str, str, str | None, frozenset[int]]]
    offsets: dict[int, Committed]
    pending: dict[int, dict[int, Committed]]


class GroupCoordinator:
    def __init__(self, cluster: Cluster) -> None:
        self.expired: Callable[[str], None] = lambda _: None
        """Called with the name of a member whose session has ended."""
        self.generation = 0
        self.offsets: dict[int, Committed] = {}
        self._cluster = cluster
        self._loop = cluster.loop
        self._tell = cluster.tell
        self._state = _State.EMPTY
        self._members: dict[str, _Member] = {}
        self._named = 0
        self._waits_for_all = True
        self._pending: dict[int, dict[int, Committed]] = {}
        """Offsets of open transactions, by producer."""
        self._deadline: asyncio.TimerHandle | None = None
        self._written = GroupState(0, [], {}, {})
        self._generations = 0

    # ---- members

    def join(
        self, name: str, member_id: str, instance_id: str | None, owned: frozenset[int]
    ) -> asyncio.Future[Joined]:
        member = self._member_that_joins(name, member_id, instance_id)
        member.owned = owned
        self._heard(member)
        future: asyncio.Future[Joined] = self._loop.create_future()
        self._drop_request(member)
        stays = instance_id is not None and not member_id and member.assigned and not owned
        if stays and self._state is _State.STABLE and self._is_complete():
            # A static member returns within its session, so no partition moves.
            self._write()
            future.set_result(Joined(member.id, self.generation))
            return future
        member.joining = future
        if self._state is not _State.JOINING:
            self._begin_join()
        self._end_join_if_all()
        return future

    def _member_that_joins(self, name: str, member_id: str, instance_id: str | None) -> _Member:
        if member_id:
            return self._of(member_id, instance_id)
        self._named += 1
        member = _Member(f"{name}-{self._named}", name, instance_id)
        if instance_id is not None:
            for each in list(self._members.values()):
                if each.instance_id == instance_id:  # it is fenced from now on
                    self._remove(each.id)
                    member.assigned = each.assigned
        self._members[member.id] = member
        return member

    def sync(self, member_id: str, generation: int) -> asyncio.Future[frozenset[int]]:
        member = self._of(member_id, None)
        self._check_generation(generation)
        self._heard(member)
        future: asyncio.Future[frozenset[int]] = self._loop.create_future()
        if self._state is _State.JOINING:
            raise RefusedError(Code.REBALANCE_IN_PROGRESS)
        if self._state is _State.STABLE:
            future.set_result(member.assigned)
            return future
        member.syncing = future
        if member is next(iter(self._members.values())):
            self._assign()
        return future

    def heartbeat(self, member_id: str, generation: int, instance_id: str | None) -> None:
        member = self._of(member_id, instance_id)
        self._check_generation(generation)
        self._heard(member)
        if self._state is _State.JOINING:
            raise RefusedError(Code.REBALANCE_IN_PROGRESS)

    def leave(self, member_id: str) -> None:
        if member_id in self._members:
            self._tell(f"{member_id} leaves the group")
            self._remove(member_id)
            self._after_loss()

    def is_short_of(self) -> bool:
        """Return whether the topic has partitions that no member has."""
        return self._state is _State.STABLE and not self._is_complete()

    def names(self) -> set[str]:
        return {member.name for member in self._members.values()}

    def ids(self) -> dict[str, str]:
        return {member.name: member.id for member in self._members.values()}

    def owners(self) -> dict[int, str]:
        return {p: member.name for member in self._members.values() for p in member.assigned}

    def owned(self) -> dict[str, frozenset[int]] | None:
        """Return what each member owns, by name; None while partitions move."""
        if self._state is not _State.STABLE:
            return None
        return {member.name: member.assigned for member in self._members.values()}

    def _is_complete(self) -> bool:
        return len(self.owners()) >= self._cluster.raw_partitions

    def _of(self, member_id: str, instance_id: str | None) -> _Member:
        member = self._members.get(member_id)
        if member is not None:
            return member
        if instance_id is not None:
            for each in self._members.values():
                if each.instance_id == instance_id:
                    raise RefusedError(Code.FENCED_INSTANCE_ID)
        raise RefusedError(Code.UNKNOWN_MEMBER_ID)

    def _check_generation(self, generation: int) -> None:
        if generation != self.generation:
            raise RefusedError(Code.ILLEGAL_GENERATION)

    def _heard(self, member: _Member) -> None:
        if member.timer is not None:
            member.timer.cancel()
        member.timer = self._loop.call_later(
            self._cluster.limits.session_seconds, self._expired, member
        )

    def _expired(self, member: _Member) -> None:
        if self._members.get(member.id) is not member:
            return
        if member.joining is not None or member.syncing is not None or self._cluster.network.away:
            self._heard(member)  # it waits for the others, or no broker could hear it
            return
        self._tell(f"the session of {member.id} ends")
        self._remove(member.id)
        # Otherwise it joined again, because the response was lost.
        if member.name not in self.names():
            self.expired(member.name)
        self._after_loss()

    def _remove(self, member_id: str) -> None:
        member = self._members.pop(member_id)
        if member.timer is not None:
            member.timer.cancel()
        self._drop_request(member)

    def _drop_request(self, member: _Member) -> None:
        for future in (member.joining, member.syncing):
            if future is not None and not future.done():
                future.set_exception(RefusedError(Code.UNKNOWN_MEMBER_ID))
                future.exception()
        member.joining = member.syncing = None

    def _after_loss(self) -> None:
        if not self._members:
            self._state = _State.EMPTY
            self._write()
        elif self._state is _State.JOINING:
            self._end_join_if_all()
        else:
            self._begin_join()

    def resume(self) -> None:
        """Restart the sessions of all members, because the coordinator of the group was away."""
        for member in self._members.values():
            self._heard(member)

    # ---- a rebalance

    def _begin_join(self) -> None:
        is_first = self._state is _State.EMPTY
        for member in self._members.values():
            if member.syncing is not None and not member.syncing.done():
                member.syncing.set_exception(RefusedError(Code.REBALANCE_IN_PROGRESS))
                member.syncing.exception()
                # As in Kafka, the response to a waiting member starts its session.
                self._heard(member)
            member.syncing = None
        self._state = _State.JOINING
        if self._deadline is not None:
            self._deadline.cancel()
        limits = self._cluster.limits
        seconds = limits.delay_seconds if is_first else limits.rebalance_seconds
        self._deadline = self._loop.call_later(seconds, self._end_join)
        self._waits_for_all = not is_first

    def _end_join_if_all(self) -> None:
        all_joined = all(member.joining is not None for member in self._members.values())
        if self._state is _State.JOINING and self._waits_for_all and all_joined:
            self._end_join()

    def _end_join(self) -> None:
        if self._state is not _State.JOINING:
            return
        if self._deadline is not None:
            self._deadline.cancel()
        for member in [m for m in self._members.values() if m.joining is None]:
            self._tell(f"{member.id} did not join in time")
            self._remove(member.id)
        if not self._members:
            self._state = _State.EMPTY
            return
        self.generation = self._generations = self._generations + 1
        self._state = _State.AWAITING_SYNC
        for member in self._members.values():
            assert member.joining is not None
            if not member.joining.done():
                member.joining.set_result(Joined(member.id, self.generation))
            member.joining = None
            self._heard(member)

    def _assign(self) -> None:
        owned = {member.id: member.owned for member in self._members.values()}
        partitions, limits = self._cluster.raw_partitions, self._cluster.limits
        assigned = sticky_assignment(owned, partitions, keeps_last=limits.keeps_last)
        self._state = _State.STABLE
        for member in self._members.values():
            member.assigned = assigned[member.id]
            if member.syncing is not None and not member.syncing.done():
                member.syncing.set_result(member.assigned)
                self._heard(member)
            member.syncing = None
        self._write()
        shown = ", ".join(f"{m.id} {sorted(m.assigned)}" for m in self._members.values())
        self._tell(f"generation {self.generation}: {shown}")

    # ---- a loss of power

    def _write(self) -> None:
        members = [(m.id, m.name, m.instance_id, m.assigned) for m in self._members.values()]
        self._written = GroupState(self.generation, members, {}, {})

    def kept(self) -> GroupState:
        pending = {producer: dict(each) for producer, each in self._pending.items()}
        return self._written._replace(offsets=dict(self.offsets), pending=pending)

    def put_back(self, state: GroupState) -> None:
        """Lose all that has happened since the disk had a ``state``.

        Members of that time have their sessions again; those who joined later are unknown. The ids
        of members are never used twice, and neither are generations, unlike in Kafka: there, a
        commit of a generation that was lost may pass as one of the next with that number.
        """
        for member_id in list(self._members):
            self._remove(member_id)
        if self._deadline is not None:
            self._deadline.cancel()
        self._written = state
        self.generation, self.offsets = state.generation, dict(state.offsets)
        self._pending = {producer: dict(each) for producer, each in state.pending.items()}
        for member_id, name, instance_id, assigned in state.members:
            member = _Member(member_id, name, instance_id, assigned, assigned)
            self._members[member_id] = member
            self._heard(member)
        self._state = _State.STABLE if self._members else _State.EMPTY

    # ---- offsets

    def commit(self, metadata: GroupMetadata, offsets: Mapping[int, Committed]) -> None:
        self._check_member(metadata)
        if self._state is _State.AWAITING_SYNC:
            raise RefusedError(Code.REBALANCE_IN_PROGRESS)
        self.offsets.update(offsets)

    def commit_in_transaction(
        self, producer_id: int, metadata: GroupMetadata, offsets: Mapping[int, Committed]
    ) -> None:
        self._check_member(metadata)
        self._pending.setdefault(producer_id, {}).update(offsets)

    def forget_pending(
        self, producer_id: int, metadata: GroupMetadata, partitions: Iterable[int]
    ) -> None:
        """Take the offsets of a producer's open transaction back."""
        self._check_member(metadata)
        pending = self._pending.get(producer_id, {})
        for partition in partitions:
            pending.pop(partition, None)

    def mark(self, producer_id: int, *, committed: bool) -> None:
        offsets = self._pending.pop(producer_id, {})
        if committed:
            self.offsets.update(offsets)

    def fetch_offsets(self, partitions: Iterable[int]) -> dict[int, int]:
        unstable = {p for offsets in self._pending.values() for p in offsets}
        return {
            p: self.offsets[p].offset if p in self.offsets else NO_OFFSET
            for p in partitions
            if p not in unstable
        }

    def _check_member(self, metadata: GroupMetadata) -> None:
        self._of(metadata.member_id, metadata.instance_id)
        self._check_generation(metadata.generation)


def sticky_assignment(
    owned: Mapping[str, frozenset[int]], partitions: int, *, keeps_last: bool = False
) -> dict[str, frozenset[int]]:
    """Return the assignment: members keep their first (or last) partitions, up to equal numbers.

    A partition that moves is assigned to no member: its owner must release it first.
    """
    members = list(owned)
    kept: dict[str, list[int]] = {member: [] for member in members}
    taken: set[int] = set()
    for member in members:
        for partition in sorted(owned[member], reverse=keeps_last):
            if partition < partitions and partition not in taken:
                kept[member].append(partition)
                taken.add(partition)
    free = [partition for partition in range(partitions) if partition not in taken]
    low, more = divmod(partitions, len(members))
    by_size = sorted(members, key=lambda member: -len(kept[member]))
    target = {member: low + (at < more) for at, member in enumerate(by_size)}
    for member in members:
        del kept[member][target[member] :]  # these are assigned in the next generation
    for member in members:
        while free and len(kept[member]) < target[member]:
            kept[member].append(free.pop(0))
    return {member: frozenset(kept[member]) for member in members}
