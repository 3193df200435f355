"""The broker: all that outlives a crash, and the ways on which records are late."""

from __future__ import annotations

from collections import Counter, deque
from typing import NamedTuple

from simhash_core.documents import SourcePosition
from simhash_core.effects import Emit, EmitDeadLetter
from simhash_core.entries import Change
from simhash_core.probes import Message, Packet, shard_sender
from tests.simulation.changelog import Changelog
from tests.simulation.protocol import Protocol
from tests.simulation.schedule import Actor, Schedule


class FencedError(Exception):
    """An owner tried to commit after another had taken its shard over."""


class ProbesPartition:
    """One partition of the probes topic: packets at their offsets, and who reads them."""

    def __init__(self, schedule: Schedule) -> None:
        """Begin empty, with no reader."""
        self._schedule = schedule
        self.packets: list[Packet] = []
        self.readers: list[Actor] = []

    def append(self, packet: Packet) -> None:
        """Add a packet; each reader has something to do."""
        self.packets.append(packet)
        for reader in self.readers:
            self._schedule.ready(reader)


class Link:
    """The way from one producer to one partition: packets arrive late, but in the order of sending.

    That they arrive in order is what an idempotent producer promises. A link that is ``cut`` (its
    producer is dead) delivers nothing more.
    """

    def __init__(self, schedule: Schedule, to: ProbesPartition, protocol: Protocol) -> None:
        """Begin with nothing under way."""
        self.slowness = schedule.draw_slowness()
        self.under_way: deque[Packet] = deque()
        self._schedule = schedule
        self._to = to
        self._in_order = protocol.links_in_order

    def send(self, packet: Packet) -> None:
        """Take a packet on its way."""
        self.under_way.append(packet)
        self._schedule.ready(self)

    def step(self) -> None:
        """Deliver the next packet."""
        if not self.under_way:
            return
        if not self._in_order:
            self.under_way.rotate(self._schedule.below(len(self.under_way)))
        self._to.append(self.under_way.popleft())

    def cut(self) -> None:
        """Lose what is under way."""
        self.under_way.clear()


class Output(NamedTuple):
    """A record on an output topic; ``turn`` counts commits, or single sends without them."""

    turn: int
    effect: Emit | EmitDeadLetter

    @property
    def source(self) -> SourcePosition:
        """The arrival that it answers."""
        match self.effect:
            case Emit(probe):
                return probe.source
            case EmitDeadLetter(rejection):
                return rejection.source


class Batch(NamedTuple):
    """What the packets of one transaction led to. ``next_offset``: of the probes partition."""

    next_offset: int
    outputs: list[Emit | EmitDeadLetter]
    packets: list[tuple[int, Packet]]
    changes: list[Change]


class Broker:
    """The logs: probes, outputs, changelogs; the committed raw offsets; who owns which shard."""

    def __init__(
        self, schedule: Schedule, protocol: Protocol, partitions: int, raw_partitions: int
    ) -> None:
        """Begin with empty topics."""
        self._schedule = schedule
        self._protocol = protocol
        self.probes = [ProbesPartition(schedule) for _ in range(partitions)]
        self.changelogs = [Changelog() for _ in range(partitions)]
        self.outputs: list[Output] = []
        self.raw_committed = [0] * raw_partitions
        self.turn = 0
        self.sent: Counter[str] = Counter()
        """Messages between shards, by kind."""
        self._epochs = [0] * partitions
        self._links: dict[tuple[int, int], Link] = {}

    def fence(self, shard: int) -> int:
        """Begin a new epoch of a shard, in which commits of earlier ones fail."""
        self._epochs[shard] += 1
        return self._epochs[shard]

    def check_epoch(self, shard: int, epoch: int) -> None:
        """Raise ``FencedError`` where the shard has a newer owner."""
        if self._protocol.fenced and epoch != self._epochs[shard]:
            raise FencedError

    def put_out(self, output: Emit | EmitDeadLetter) -> None:
        """Add a record to an output topic."""
        self.outputs.append(Output(self.turn, output))

    def send(self, shard: int, target: int, packet: Packet) -> None:
        """Send a packet from one shard to another."""
        link = self._links.get((shard, target))
        if link is None:
            link = Link(self._schedule, self.probes[target], self._protocol)
            self._links[shard, target] = link
        self.sent.update(type(message).__name__ for _, message in packet.messages)
        link.send(packet)


def pack(
    schedule: Schedule, shard: int, sends: dict[int, list[tuple[int, Message]]]
) -> list[tuple[int, Packet]]:
    """Pack messages by receiver, at times two packets to one, with random cuts."""
    packets = []
    sender = shard_sender(shard)
    for target, messages in sends.items():
        cut = schedule.below(len(messages) + 1) if schedule.below(4) == 0 else 0
        packets += [
            (target, Packet(sender, lot[0][0] - 1, tuple(lot)))
            for lot in (messages[:cut], messages[cut:])
            if lot
        ]
    return packets
