"""The brokers for the workers: one on 127.0.0.1, or three in their own networks."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from streams.settings.settings import Settings
from tests.rigs.brokers.kafka_broker import KafkaBroker
from tests.rigs.brokers.kafka_cluster import BROKERS, BrokerNode, KafkaCluster
from tests.rigs.brokers.kafka_configuration import SHORT_SESSION, TORTURE_SESSION, TWO_IN_SYNC
from tests.torture.broker_acts import BrokerActs, TopicActs
from tests.torture.clocks import BrokerClock
from tests.torture.cluster_acts import Brokers, ClusterActs
from tests.torture.disks import mount_memory
from tests.torture.faults import Act, Fault
from tests.torture.feed import Feed
from tests.torture.inspection import LogEnds
from tests.torture.network import Network, Node
from tests.torture.network_acts import NetworkActs
from tests.torture.victims import Victims
from tests.torture.worker_acts import WorkerActs
from tests.torture.workers import Cluster
from tests.torture.writable import WritableBrokers

DATA_BYTES = 3 * 1024**3


@dataclass
class Struck:
    """The targets of faults, apart from the brokers."""

    rng: random.Random
    settings: Settings
    cluster: Cluster
    feed: Feed
    log: LogEnds
    narrate: Callable[[str], None]

    def acts(self, victims: Victims, *, own_disks: bool = False) -> dict[Fault, Act]:
        """The faults that work with any number of brokers."""
        workers = WorkerActs(self.rng, self.cluster, victims, self.feed, self.log, self.narrate)
        topics = TopicActs(self.rng, self.settings, self.cluster, self.feed, self.narrate).by_fault
        disks = workers.with_own_disks if own_disks else {}
        return {**workers.by_fault, **disks, **topics}


class OneBroker:
    network: Network | None = None

    def __init__(self, broker: KafkaBroker) -> None:
        self._broker = broker
        self.bootstrap_servers = broker.bootstrap_servers

    def writable_since(self) -> float:
        return 0.0

    def acts(self, struck: Struck) -> Mapping[Fault, Act]:
        victims = Victims(struck.rng, struck.cluster, struck.narrate)
        broker = BrokerActs(struck.rng, struck.cluster, self._broker, struck.log, struck.narrate)
        return {**struck.acts(victims), **broker.by_fault}

    def heal(self) -> None:
        """Start what an interrupted fault has left stopped."""
        if not self._broker.is_running():
            self._broker.start()


class ThreeBrokers:
    def __init__(
        self,
        kafka: KafkaCluster,
        network: Network,
        nodes: Mapping[int, Node],
        clocks: Mapping[int, BrokerClock],
        writable: WritableBrokers,
    ) -> None:
        self._writable = writable
        self._clocks = clocks
        self.network: Network | None = network
        self.bootstrap_servers = kafka.bootstrap_servers
        self._kafka = kafka
        self._network = network
        self._nodes = nodes

    def writable_since(self) -> float:
        return self._writable.since

    def acts(self, struck: Struck) -> Mapping[Fault, Act]:
        rng, cluster, narrate = struck.rng, struck.cluster, struck.narrate
        victims = Victims(rng, cluster, narrate)
        brokers = Brokers(rng, self._kafka, struck.settings, narrate)
        processes = ClusterActs(
            rng, cluster, brokers, struck.log, struck.settings, self._clocks, narrate
        )
        networks = NetworkActs(rng, cluster, victims, brokers, self._network, self._nodes, narrate)
        workers = struck.acts(victims, own_disks=True)
        return {**workers, **processes.by_fault, **networks.by_fault}

    def heal(self) -> None:
        """Start what interrupted faults have left stopped."""
        down = [broker for broker in self._kafka.brokers if not broker.is_running()]
        for broker in down:
            broker.launch()
        self._kafka.await_brokers(BROKERS)


Stage = OneBroker | ThreeBrokers


@contextmanager
def stage(directory: Path, brokers: int) -> Iterator[Stage]:
    """Start the brokers; three need an enclosure."""
    if brokers == 1:
        with KafkaBroker(directory, properties={**SHORT_SESSION, **TORTURE_SESSION}) as broker:
            yield OneBroker(broker)
        return
    network = Network()
    nodes = {number: network.add(f"broker-{number}") for number in range(1, BROKERS + 1)}
    clocks = {number: BrokerClock(directory / f"clock-{number}") for number in nodes}
    places = [
        BrokerNode(node.address, (*node.launcher, *clocks[number].launcher))
        for number, node in nodes.items()
    ]
    kafka = KafkaCluster(directory, places, TWO_IN_SYNC)
    for broker in kafka.brokers:
        mount_memory(broker.data, DATA_BYTES)
    with kafka:
        writable = WritableBrokers(kafka.bootstrap_servers)
        with writable.watched():
            yield ThreeBrokers(kafka, network, nodes, clocks, writable)
