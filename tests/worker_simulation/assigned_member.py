"""A simulated member with the group protocol ``consumer``, as librdkafka is one.

One thread sends heartbeats, and another one calls the worker.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from tests.worker_simulation.assigning_coordinator import AssigningCoordinator
from tests.worker_simulation.group import NO_GENERATION
from tests.worker_simulation.member import HEARTBEATS, SimulatedGroupMember
from tests.worker_simulation.network import Code, NoAnswerError, RefusedError


class AssignedGroupMember(SimulatedGroupMember):
    _group: AssigningCoordinator

    def __init__(self, *arguments: Any, **options: Any) -> None:  # noqa: ANN401 - of several types
        super().__init__(*arguments, **options)
        self._assigned: frozenset[int] | None = None  # by the last answer
        self._releases = False
        self._beats = asyncio.Event()
        """The next heartbeat is due at once."""

    async def _turn(self) -> None:
        await self._until_moved()
        await self._poll()
        if self._lost is not None:
            self._assigned = None
            self._note_lost()
            self._beats.set()
        elif not self._closing:
            await self._follow()

    async def _until_moved(self) -> None:
        while not (self._closing or self._lost or self._failed or self._differs()):
            await self._moves.wait()
            self._moves.clear()

    def _differs(self) -> bool:
        return self._assigned is not None and self._assigned != self._owned

    async def _follow(self) -> None:
        """Release what is no longer assigned, and then take what is new."""
        assigned = self._assigned or frozenset()
        revoked, added = self._owned - assigned, assigned - self._owned
        if revoked:
            self._releases = True
            await self._give_up(set(revoked))
            self._releases = False
        if self._is_lost():
            return
        self._owned |= added
        assert self._events is not None
        self._host.call(self._events.assigned, frozenset(added), self._metadata())
        self._beats.set()

    async def _beat(self) -> None:
        while not self._closing:
            self._beats.clear()
            if self._lost is None:
                await self._heartbeat()
            seconds = self._session_seconds / HEARTBEATS
            self._host.loop.call_later(seconds, self._beats.set)
            await self._beats.wait()

    async def _heartbeat(self) -> None:
        joins = self._generation == NO_GENERATION
        epoch = 0 if joins else self._generation
        owned = None if self._releases else frozenset(self._owned)
        beat = partial(self._group.beat, self._client_id, self._member_id, epoch, owned)
        try:
            answer = await self._host.ask(
                "join" if joins else "heartbeat", beat, self._session_seconds / 2
            )
        except NoAnswerError:
            return
        except RefusedError as error:
            if error.code is Code.UNKNOWN_MEMBER_ID:
                self._member_id = ""
            self._lost = str(error)
        else:
            self._member_id, self._generation, self._assigned = answer
            if joins and not answer.assigned and self._events is not None:
                # As ``streams.kafka.raw_consumer``; librdkafka calls nothing.
                self._host.call(self._events.assigned, frozenset(), self._metadata())
        self._moves.set()
