"""Faults of the network of a worker or of a broker."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, closing, suppress
from functools import partial

from tests.rigs.brokers.kafka_broker import KafkaBroker
from tests.rigs.brokers.request_proxy import Request, RequestProxy
from tests.rigs.network_namespaces import enter_network
from tests.torture.cluster_acts import Brokers, Role
from tests.torture.faults import Act, Fault, NobodyError
from tests.torture.network import (
    EVERYBODY,
    Network,
    Node,
    Rules,
    cut,
    loss,
    loss_of_large,
)
from tests.torture.victims import Victim, Victims
from tests.torture.workers import Cluster, Machine

HURT_SECONDS = (3.0, 20.0)
FLAP_SECONDS = (0.2, 2.5)
LOSS_PERCENT = (5, 30)
WORKER_KILOBITS = (64, 256, 1024)
BROKER_KILOBITS = (256, 1024, 4096)

LATE_KINDS = (
    Request.PRODUCE,
    Request.HEARTBEAT,
    Request.ADD_PARTITIONS_TO_TXN,
    Request.ADD_OFFSETS_TO_TXN,
    Request.TXN_OFFSET_COMMIT,
    Request.END_TXN,
)
KEPT_SECONDS = 3.0  # how long a request of a kind is waited for
LATE_SECONDS = (0.05, 5.0)

Hurt = Callable[[], AbstractContextManager[None]]


class NetworkActs:
    def __init__(
        self,
        rng: random.Random,
        cluster: Cluster,
        victims: Victims,
        brokers: Brokers,
        network: Network,
        nodes: Mapping[int, Node],
        narrate: Callable[[str], None],
    ) -> None:
        self._rng = rng
        self._cluster = cluster
        self._victims = victims
        self._brokers = brokers
        self._network = network
        self._nodes = nodes
        self._narrate = narrate

    @property
    def by_fault(self) -> Mapping[Fault, Act]:
        return {
            Fault.CUT_WORKER_FROM_BROKER: self._cut_worker_from_broker,
            Fault.CUT_LEADER_FROM_LOG: partial(self._cut_leader_from, Role.LOG_LEADER),
            Fault.CUT_LEADER_FROM_REPORTS: partial(self._cut_leader_from, Role.REPORTS_LEADER),
            Fault.CUT_WORKER: partial(self._worker, "cut from the brokers", cut),
            Fault.ONE_WAY_WORKER: partial(self._worker, "cut in one direction", self._one_way),
            Fault.LOSSY_WORKER: partial(self._worker, "loses packets", self._loss),
            Fault.SMALL_PACKETS_WORKER: partial(
                self._worker, "large packets are lost", loss_of_large
            ),
            Fault.LATE_REQUESTS_WORKER: self._late_requests_worker,
            Fault.FLAPPING_WORKER: self._flapping_worker,
            Fault.SLOW_WORKER: self._slow_worker,
            Fault.FROZEN_WORKER: self._frozen_worker,
            Fault.CUT_BROKER_FROM_BROKERS: partial(
                self._broker, "cut from the other brokers", cut, among_brokers=True
            ),
            Fault.CUT_BROKER: partial(self._broker, "cut from all", cut),
            Fault.ONE_WAY_BROKER: partial(self._broker, "cut in one direction", self._one_way),
            Fault.LOSSY_BROKER: partial(self._broker, "loses packets", self._loss),
            Fault.SMALL_PACKETS_BROKER: partial(
                self._broker, "large packets are lost", loss_of_large
            ),
            Fault.FLAPPING_BROKER: self._flapping_broker,
            Fault.SLOW_BROKER: self._slow_broker,
            Fault.FROZEN_BROKER: self._frozen_broker,
        }

    # ---- Of a worker: its node is hurt in what it has to do with brokers.

    async def _worker(self, what: str, rules: Callable[[Sequence[Node]], Rules]) -> None:
        async with self._worker_victim(what) as (machine, node):
            with self._cluster.without_brokers(machine):
                await self._hold(partial(self._network.obstructed, node, rules(self._all)))

    async def _cut_worker_from_broker(self) -> None:
        peer = self._rng.choice(self._all)
        async with self._worker_victim(f"cut from {peer.name}") as (_, node):
            await self._hold(partial(self._network.obstructed, node, cut([peer])))

    async def _cut_leader_from(self, role: Role) -> None:
        """The leader stays a member of the group, unless the same broker is its coordinator."""
        what = f"the leader is cut from {role}"
        async with self._worker_victim(what, Victim.LEADER) as (_, node):
            peer = self._nodes[(await self._brokers.with_role(role)).node_id]
            await self._hold(partial(self._network.obstructed, node, cut([peer])))

    async def _flapping_worker(self) -> None:
        async with self._worker_victim("cut and joined again and again") as (_, node):
            await self._flap(node, self._all)

    async def _slow_worker(self) -> None:
        kilobits = self._rng.choice(WORKER_KILOBITS)
        async with self._worker_victim(f"its link has {kilobits} kbit/s") as (_, node):
            await self._hold(partial(self._network.slowed, node, kilobits))

    async def _frozen_worker(self) -> None:
        async with self._worker_victim("its open connections carry nothing") as (_, node):
            frozen = await asyncio.to_thread(self._network.open_connections, node, self._all)
            await self._hold(partial(self._network.obstructed, node, frozen))

    async def _late_requests_worker(self) -> None:
        """Keep requests back, cut their connections, and deliver them when they were repeated."""
        late: Counter[str] = Counter()
        async with self._worker_victim("some of its requests arrive late, and again") as (_, node):
            proxy = RequestProxy(None, partial(enter_network, node.name))
            ends = time.monotonic() + self._rng.uniform(*HURT_SECONDS)
            with closing(proxy), self._network.diverted(node, self._all, proxy.port):
                while time.monotonic() < ends:
                    kind = self._rng.choice(LATE_KINDS)
                    proxy.keep(kind)
                    has_kept = await asyncio.to_thread(proxy.await_kept, KEPT_SECONDS)
                    proxy.keep(None)
                    if has_kept:
                        await asyncio.sleep(self._rng.uniform(*LATE_SECONDS))
                        with suppress(OSError):  # the broker is away
                            await asyncio.to_thread(proxy.deliver)
                            late[kind.name.lower()] += 1
        self._narrate(f"late requests: {dict(late)}")
        if not late:
            raise NobodyError("no request of these kinds came")

    @asynccontextmanager
    async def _worker_victim(
        self, what: str, whom: Victim = Victim.ANY
    ) -> AsyncIterator[tuple[Machine, Node]]:
        async with self._victims.victim(what, whom) as machine:
            assert machine.node is not None, "a worker without a network of its own"
            machine.attended = True
            try:
                yield machine, machine.node
            finally:
                machine.attended = False
                self._narrate(f"{machine.name}: its network is well")

    # ---- Of a broker: in what it has to do with the other ones, or with everybody.

    async def _broker(
        self,
        what: str,
        rules: Callable[[Sequence[Node]], Rules],
        *,
        among_brokers: bool | None = None,
    ) -> None:
        if among_brokers is None:
            among_brokers = self._rng.random() < 0.5 and rules is not cut
        what += " (brokers only)" if among_brokers else ""
        async with self._broker_victim(what) as node:
            peers = [each for each in self._all if each != node] if among_brokers else [EVERYBODY]
            await self._hold(partial(self._network.obstructed, node, rules(peers)))

    async def _flapping_broker(self) -> None:
        async with self._broker_victim("cut and joined again and again") as node:
            await self._flap(node, [EVERYBODY])

    async def _slow_broker(self) -> None:
        kilobits = self._rng.choice(BROKER_KILOBITS)
        async with self._broker_victim(f"its link has {kilobits} kbit/s") as node:
            await self._hold(partial(self._network.slowed, node, kilobits))

    async def _frozen_broker(self) -> None:
        async with self._broker_victim("its open connections carry nothing") as node:
            others = [each for each in self._everybody if each != node]
            frozen = await asyncio.to_thread(self._network.open_connections, node, others)
            await self._hold(partial(self._network.obstructed, node, frozen))

    @asynccontextmanager
    async def _broker_victim(self, what: str) -> AsyncIterator[Node]:
        async with self._brokers.victim(what, self._rng.choice(list(Role))) as broker:
            yield self._node(broker)
            self._narrate(f"broker {broker.node_id}: its network is well")

    # ----

    @property
    def _all(self) -> list[Node]:
        return list(self._nodes.values())

    @property
    def _everybody(self) -> list[Node]:
        workers = [machine.node for machine in self._cluster.machines if machine.node is not None]
        return [self._network.run_node, *self._all, *workers]

    def _node(self, broker: KafkaBroker) -> Node:
        return self._nodes[broker.node_id]

    def _one_way(self, peers: Sequence[Node]) -> Rules:
        arriving, leaving = cut(peers)
        return Rules(arriving=arriving) if self._rng.random() < 0.5 else Rules(leaving=leaving)

    def _loss(self, peers: Sequence[Node]) -> Rules:
        return loss(peers, self._rng.randint(*LOSS_PERCENT))

    async def _hold(self, hurt: Hurt, seconds: float | None = None) -> None:
        """Keep a fault of the network for some seconds."""
        with ExitStack() as stack:
            await asyncio.to_thread(stack.enter_context, hurt())
            await asyncio.sleep(self._rng.uniform(*HURT_SECONDS) if seconds is None else seconds)
            await asyncio.to_thread(stack.close)

    async def _flap(self, node: Node, peers: Sequence[Node]) -> None:
        ends = time.monotonic() + self._rng.uniform(*HURT_SECONDS)
        hurt = partial(self._network.obstructed, node, cut(peers))
        while time.monotonic() < ends:
            await self._hold(hurt, self._rng.uniform(*FLAP_SECONDS))
            await asyncio.sleep(self._rng.uniform(*FLAP_SECONDS))
