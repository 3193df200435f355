"""The group protocol ``consumer`` (KIP-848): the coordinator assigns, and members follow.

A member learns with each heartbeat which partitions it should have now. It releases the others, and
reports what it has left. Only then is a partition assigned to somebody else. The epoch of a member
rises whenever the group has changed and the member has nothing left to release, and the coordinator
takes commits of exactly this epoch. Unlike with the protocol ``classic``, a member that keeps its
partitions is not called, and one without answers keeps its partitions until a heartbeat is refused.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from tests.worker_simulation.group import (
    GroupCoordinator,
    GroupMetadata,
    GroupState,
    sticky_assignment,
)
from tests.worker_simulation.network import Code, RefusedError

if TYPE_CHECKING:
    from tests.worker_simulation.cluster import Cluster


class Answer(NamedTuple):
    member_id: str
    epoch: int
    assigned: frozenset[int]


@dataclass(slots=True)
class _Epochs:
    """Of one member: what it must release before its epoch can rise, and until when."""

    epoch: int = 0
    previous: int = 0
    releasing: frozenset[int] = frozenset()
    deadline: asyncio.TimerHandle | None = None


class AssigningCoordinator(GroupCoordinator):
    """``generation`` is the epoch of the group."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._epochs: dict[str, _Epochs] = {}
        self._target: dict[str, frozenset[int]] = {}
        self._targeted = 0  # partitions of the topic in the target

    def beat(self, name: str, member_id: str, epoch: int, owned: frozenset[int] | None) -> Answer:
        """Take a heartbeat; ``epoch`` 0: it joins. ``owned``: None while it releases partitions."""
        if epoch == 0:
            known = member_id if member_id in self._members else ""
            member = self._member_that_joins(name, known, None)
            self._epochs.setdefault(member.id, _Epochs())
            self._change()
        else:
            member, epochs = self._of(member_id, None), self._epochs[member_id]
            # The answer with the present epoch may be lost.
            repeats = epoch == epochs.previous and owned is not None and owned <= member.assigned
            if epoch != epochs.epoch and not repeats:
                raise RefusedError(Code.ILLEGAL_GENERATION)
        self._heard(member)
        if self._targeted != self._cluster.raw_partitions:
            self._change()
        self._reconcile(member.id, owned)
        return Answer(member.id, self._epochs[member.id].epoch, member.assigned)

    def owned(self) -> dict[str, frozenset[int]] | None:
        if any(each.epoch != self.generation for each in self._epochs.values()):
            return None
        return {member.name: member.assigned for member in self._members.values()}

    def _change(self) -> None:
        """Raise the epoch of the group, with a new target."""
        self._generations += 1
        self.generation = self._generations
        self._targeted = self._cluster.raw_partitions
        if not self._members:
            return
        before = {each: self._target.get(each, frozenset()) for each in self._members}
        keeps_last = self._cluster.limits.keeps_last
        for _ in range(2):  # the first time leaves out what moves
            before = sticky_assignment(before, self._targeted, keeps_last=keeps_last)
        self._target = before
        shown = ", ".join(f"{each} {sorted(target)}" for each, target in before.items())
        self._tell(f"epoch {self.generation}: {shown}")

    def _reconcile(self, member_id: str, owned: frozenset[int] | None) -> None:
        member, epochs = self._members[member_id], self._epochs[member_id]
        target = self._target[member_id]
        if owned is not None and not owned & epochs.releasing:
            self._released(epochs)
        if not epochs.releasing and (surplus := member.assigned - target):
            member.assigned -= surplus
            epochs.releasing = surplus
            epochs.deadline = self._loop.call_later(
                self._cluster.limits.rebalance_seconds, self._not_released, member_id
            )
            if owned is not None and not owned & surplus:  # it has just joined
                self._released(epochs)
        if not epochs.releasing:
            member.assigned |= target.difference(*self._held_by_others(member_id))
            if epochs.epoch != self.generation:
                epochs.previous, epochs.epoch = epochs.epoch, self.generation
        self._write()

    def _held_by_others(self, member_id: str) -> list[frozenset[int]]:
        return [
            member.assigned | self._epochs[each].releasing
            for each, member in self._members.items()
            if each != member_id
        ]

    def _released(self, epochs: _Epochs) -> None:
        epochs.releasing = frozenset()
        if epochs.deadline is not None:
            epochs.deadline.cancel()

    def _not_released(self, member_id: str) -> None:
        self._tell(f"{member_id} did not release its partitions in time")
        self._remove(member_id)
        self._after_loss()

    def _remove(self, member_id: str) -> None:
        super()._remove(member_id)
        self._released(self._epochs.pop(member_id))
        self._target.pop(member_id, None)

    def _after_loss(self) -> None:
        self._change()
        self._write()

    def _check_member(self, metadata: GroupMetadata) -> None:
        self._of(metadata.member_id, None)
        if metadata.generation != self._epochs[metadata.member_id].epoch:
            raise RefusedError(Code.ILLEGAL_GENERATION)

    def put_back(self, state: GroupState) -> None:
        """Lose what happened since; members with a later epoch are refused, and join again."""
        super().put_back(state)
        self._epochs = {each: _Epochs(state.generation) for each in self._members}
        self._target = {each: member.assigned for each, member in self._members.items()}
        self._change()
