"""Requests from machines to brokers: they take time, may be lost, and may arrive out of order.

The sender of a request gets a response, a refusal, or nothing. A request without a response may
have arrived, or may arrive later, when its sender has already connected again.
"""

from __future__ import annotations

import asyncio
import contextvars
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from tests.worker_simulation.loop import Machine, Part, SimulatedLoop

_OF_BROKERS: Final = contextvars.Context()
_USUAL_SECONDS: Final = (0.0003, 0.003)
_NOTICED_SECONDS: Final = (0.0, 0.2)
"""How long it takes until a client notices that a connection is broken."""
_HELD_SECONDS: Final = 5.0
"""How long a held request waits at most for a record of its machine."""
_NEXT: Final = "produce"


class Code(StrEnum):
    UNKNOWN_MEMBER_ID = "unknown member id"
    ILLEGAL_GENERATION = "illegal generation"
    REBALANCE_IN_PROGRESS = "rebalance in progress"
    FENCED_INSTANCE_ID = "fenced instance id"
    UNSTABLE_OFFSET_COMMIT = "unstable offset commit"
    PRODUCER_FENCED = "producer fenced"
    INVALID_TXN_STATE = "invalid transaction state"
    CONCURRENT_TRANSACTIONS = "concurrent transactions"
    DUPLICATE_SEQUENCE_NUMBER = "duplicate sequence number"
    OUT_OF_ORDER_SEQUENCE = "out of order sequence number"
    OFFSET_OUT_OF_RANGE = "offset out of range"
    UNKNOWN_TOPIC = "unknown topic or partition"
    RECORD_TOO_LARGE = "record too large"


class RefusedError(Exception):
    def __init__(self, code: Code) -> None:
        super().__init__(code.value)
        self.code = code


class NoAnswerError(Exception):
    """The connection broke or timed out; the request may have arrived, or may still arrive."""


@dataclass(slots=True)
class NetworkFaults:
    """The probability of each fault for one request; ``late_seconds`` is the longest delay."""

    lost: float = 0.0
    answer_lost: float = 0.0
    late: float = 0.0
    slow: float = 0.0
    late_seconds: float = 5.0


@dataclass(slots=True)
class Network:
    """Connects machines with the brokers; while ``away``, no broker responds."""

    loop: SimulatedLoop
    random: random.Random
    faults: NetworkFaults = field(default_factory=NetworkFaults)
    away: bool = False
    losses: int = 0
    """How often all brokers have lost power, and with it all requests that they had."""
    cut: set[str] = field(default_factory=set)
    """The names of machines that reach no broker."""
    tell: Callable[[str], None] = lambda _: None
    silent: set[tuple[str, str]] = field(default_factory=set)
    """Machines and kinds of requests that arrive but get no response."""
    watched: dict[tuple[str, str], Callable[[], None]] = field(default_factory=dict)
    """Functions that are called once when a machine sends a request, before it is sent."""

    held: dict[tuple[str, str], float] = field(default_factory=dict)
    """Machines and kinds of requests; the next such request is held for so many seconds.

    Its connection breaks. It arrives later, with a record that its machine sends then, during the
    next transaction.
    """

    def hold(self, machine: Machine, seconds: float, arrive: Callable[[], None]) -> None:
        """Make a request arrive with the first record that is sent after ``seconds``."""
        key = (machine.name, _NEXT)
        has_arrived = False

        def once() -> None:
            nonlocal has_arrived
            if self.watched.get(key) is once:
                del self.watched[key]
            if not has_arrived:
                has_arrived = True
                arrive()

        def wait() -> None:
            self.watched.setdefault(key, once)
            self.loop.call_later(_HELD_SECONDS, once, context=_OF_BROKERS)

        self.loop.call_later(seconds, wait, context=_OF_BROKERS)

    def reaches(self, machine: Machine) -> bool:
        return not self.away and machine.name not in self.cut

    def reached(self, machine: Machine, moment: str) -> None:
        """Note that a machine sends a request, or reaches another moment for faults."""
        watching = self.watched.pop((machine.name, moment), None)
        if watching is not None:
            contextvars.Context().run(watching)


class Request:
    """The work of a broker for a client of a machine, which waits ``seconds`` for the response.

    ``future`` gets the result, ``RefusedError`` or ``NoAnswerError``.
    """

    __slots__ = ("future", "losses", "name", "network", "part", "seconds", "timer", "work")

    def __init__(
        self,
        network: Network,
        part: Part,
        name: str,
        work: Callable[[], Any],
        future: asyncio.Future[Any],
        seconds: float,
    ) -> None:
        self.network, self.part, self.name, self.work = network, part, name, work
        self.future, self.seconds, self.losses = future, seconds, network.losses
        loop, faults, draw = network.loop, network.faults, network.random
        network.reached(part.machine, name)
        self.timer = loop.call_later(seconds, self._fail, context=part.context)
        delay = self._delay()
        held = network.held.pop((part.machine.name, name), None)
        if held is not None:
            network.tell(f"{part.machine.name}: request is held, its connection breaks: {name}")
            network.hold(part.machine, held, lambda: self._arrive_late(delay))
            self._break()
            return
        chance = draw.random()
        if chance < faults.lost:
            network.tell(f"{part.machine.name}: request is lost: {name}")
            self._break()
            return
        if chance < faults.lost + faults.late and self._may_be_late():
            # The connection of the request is broken; the request waits in a queue of the broker.
            delay = draw.uniform(0.05, faults.late_seconds)
            network.tell(f"{part.machine.name}: request is {delay:.2f} s late: {name}")
            self._break()
        loop.call_later(delay, self._arrive, context=_OF_BROKERS)

    def _may_be_late(self) -> bool:
        # A member has its id before it joins (KIP-394), so a late request to join has no effect.
        return self.name != "join"

    def _delay(self) -> float:
        draw, faults = self.network.random, self.network.faults
        usual = draw.uniform(*_USUAL_SECONDS)
        return usual * 100 if draw.random() < faults.slow else usual

    def _arrive_late(self, seconds: float) -> None:
        self.network.tell(f"{self.part.machine.name}: request that was held arrives: {self.name}")
        self.network.loop.call_later(seconds, self._arrive, context=_OF_BROKERS)

    def _is_connected(self) -> bool:
        network = self.network
        return network.reaches(self.part.machine) and self.losses == network.losses

    def _arrive(self) -> None:
        if not self._is_connected():
            self._break()
            return
        try:
            answer = self.work()
        except RefusedError as error:
            self._answer(error)
            return
        if isinstance(answer, asyncio.Future):
            answer.add_done_callback(self._answered, context=_OF_BROKERS)
        else:
            self._answer(answer)

    def _answered(self, answer: asyncio.Future[Any]) -> None:
        if answer.cancelled():
            self._break()
        else:
            self._answer(answer.exception() or answer.result())

    def _answer(self, answer: Any) -> None:  # noqa: ANN401 - of any request
        network = self.network
        if not self._is_connected():
            self._break()
            return
        is_silent = (self.part.machine.name, self.name) in network.silent
        if is_silent or network.random.random() < network.faults.answer_lost:
            network.tell(f"{self.part.machine.name}: answer is lost: {self.name}")
            self._break()
            return
        network.loop.call_later(self._delay(), self._resolve, answer, context=self.part.context)

    def _resolve(self, answer: Any) -> None:  # noqa: ANN401 - of any request
        self.timer.cancel()
        if self.future.done():
            return
        if isinstance(answer, Exception):
            self.future.set_exception(answer)
        else:
            self.future.set_result(answer)

    def _break(self) -> None:
        delay = self.network.random.uniform(*_NOTICED_SECONDS)
        self.network.loop.call_later(delay, self._fail, context=self.part.context)

    def _fail(self) -> None:
        self.timer.cancel()
        if not self.future.done():
            self.future.set_exception(NoAnswerError(self.name))
