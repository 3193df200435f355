"""The fingerprint agent as the shards see it: first visits of one raw partition, in order."""

from __future__ import annotations

from bisect import bisect_left
from typing import Final, NamedTuple

from simhash_core.placement import Placement
from simhash_core.probes import Message, Packet, Refuse, Visit, raw_sender
from tests.simulation.broker import Link
from tests.simulation.protocol import Protocol
from tests.simulation.scenario import RAW_TOPIC
from tests.simulation.stage import Stage

END: Final = 1 << 62
"""An offset beyond every record."""


class FirstMessage(NamedTuple):
    """What a raw record becomes: the first message about it, and the partition that gets it."""

    raw_offset: int
    target: int
    message: Message


def address(
    arrivals: list[Visit | Refuse], placement: Placement, protocol: Protocol
) -> list[FirstMessage]:
    """Return the first messages of one raw partition."""
    first = []
    for message in arrivals:
        match message:
            case Visit(probe):
                target = protocol.first_stop(probe, placement)
                first.append(FirstMessage(probe.source.offset, target, message))
            case Refuse(rejection):
                target = rejection.source.partition % placement.partitions
                first.append(FirstMessage(rejection.source.offset, target, message))
    return first


class FingerprintAgent:
    """Reads one raw partition from the committed offset on, and sends; commits what is acked."""

    def __init__(
        self,
        stage: Stage,
        raw_partition: int,
        messages: list[FirstMessage],
    ) -> None:
        """Begin where the last committed offset says, or anywhere before it."""
        schedule, broker = stage.schedule, stage.broker
        self.slowness = schedule.draw_slowness()
        self._schedule = schedule
        self._broker = broker
        self._protocol = stage.protocol
        self._raw_partition = raw_partition
        self._messages = messages
        self._batch_most = stage.scenario.batch_most
        self._links: dict[int, Link] = {}
        self._last_sent: dict[int, int] = {}
        self._next = bisect_left(
            messages, broker.raw_committed[raw_partition], key=lambda first: first.raw_offset
        )
        if schedule.below(4) == 0:
            self._next = schedule.below(self._next + 1)
        self._dead = False
        schedule.ready(self)

    def step(self) -> None:
        """Read some records, send what they become, and perhaps commit."""
        if self._dead:
            return
        end = self._next + 1 + self._schedule.below(self._batch_most)
        lots: dict[int, list[tuple[int, Message]]] = {}
        for raw_offset, target, message in self._messages[self._next : end]:
            lots.setdefault(target, []).append((raw_offset, message))
        self._next = min(end, len(self._messages))
        sender = raw_sender(RAW_TOPIC, self._raw_partition)
        for target, lot in lots.items():
            link = self._links.get(target)
            if link is None:
                link = Link(self._schedule, self._broker.probes[target], self._protocol)
                self._links[target] = link
            link.send(Packet(sender, self._last_sent.get(target, -1), tuple(lot)))
            self._last_sent[target] = lot[-1][0]
        if self._next < len(self._messages):
            self._schedule.ready(self)
        if self._schedule.below(3) == 0:
            self._broker.raw_committed[self._raw_partition] = self._acked()

    def _acked(self) -> int:
        """Return the raw offset up to which everything has arrived."""
        read = (
            self._messages[self._next].raw_offset if self._next < len(self._messages) else 1 << 62
        )
        if not self._protocol.raw_commit_after_acks:
            return read
        under_way = (link.under_way for link in self._links.values())
        return min((way[0].messages[0][0] for way in under_way if way), default=read)

    def kill(self) -> None:
        """End at once: what is under way is lost."""
        self._dead = True
        for link in self._links.values():
            link.cut()
