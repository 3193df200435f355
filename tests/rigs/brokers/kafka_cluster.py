"""Three real brokers in one cluster, for tests that kill brokers.

By default they are on 127.0.0.1, and only the first is a controller too. The cluster works as long
as the first does, so the effects of two dead brokers are those of lost copies of partitions, not of
a lost quorum. With ``nodes`` each has its own address, and all three are controllers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, Self

from streams.kafka.clients import AdminClient
from tests.rigs.brokers.kafka_broker import KafkaBroker
from tests.rigs.brokers.kafka_configuration import ONE_OF_THREE
from tests.rigs.brokers.loopback_ports import free_port
from tests.rigs.waiting import await_that

BROKERS = 3


class BrokerNode(NamedTuple):
    """The address of a broker, and the command that runs its command (``ip netns exec NAME``)."""

    host: str
    launcher: tuple[str, ...]


class KafkaCluster:
    """A context manager: starts three brokers, and kills those that still run at its end.

    Args:
        directory: Holds a directory for each.
        nodes: The addresses of the brokers, if they do not run on 127.0.0.1.
        properties: Server properties over those of ``kafka_configuration``.
    """

    def __init__(
        self,
        directory: Path,
        nodes: Sequence[BrokerNode] = (),
        properties: Mapping[str, str] = ONE_OF_THREE,
    ) -> None:
        directories = [directory / f"broker-{number}" for number in range(BROKERS)]
        if nodes:
            self.brokers = _controllers(directories, nodes, properties)
            return
        controller = free_port()
        self.brokers = [
            KafkaBroker(each, controller_port=controller, node_id=number + 1, properties=properties)
            for number, each in enumerate(directories)
        ]

    def __enter__(self) -> Self:
        first, *others = self.brokers
        try:
            if first.is_alone_controller:
                first.start()
            else:
                others = self.brokers
            with ThreadPoolExecutor(BROKERS) as threads:
                list(threads.map(KafkaBroker.start, others))
            self.await_brokers(BROKERS)
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        for broker in self.brokers:
            broker.remove_data()

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(broker.bootstrap_servers for broker in self.brokers)

    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})

    def kill(self) -> None:
        for broker in self.brokers:
            broker.kill()

    def await_brokers(self, number: int) -> None:
        admin = self.admin()
        await_that(
            lambda: len(admin.list_topics(timeout=10).brokers) == number,
            shows=lambda: f"not {number} brokers",
        )

    def await_in_sync(self, topics: Iterable[str], number: int) -> None:
        admin, names = self.admin(), list(topics)

        def is_so() -> bool:
            known = admin.list_topics(timeout=10).topics
            return all(
                len(each.isrs) == number
                for name in names
                for each in known[name].partitions.values()
            )

        await_that(is_so, shows=lambda: f"not {number} copies in sync")


def _controllers(
    directories: Sequence[Path], nodes: Sequence[BrokerNode], properties: Mapping[str, str]
) -> list[KafkaBroker]:
    """Return brokers that are all controllers too, which the first format of each sets."""
    ports = [free_port() for _ in nodes]
    addresses = {
        number: f"{node.host}:{port}"
        for number, (node, port) in enumerate(zip(nodes, ports, strict=True), 1)
    }
    return [
        KafkaBroker(
            directory,
            controller_port=port,
            node_id=number,
            properties=properties,
            host=node.host,
            controllers=addresses,
            launcher=node.launcher,
        )
        for number, (directory, node, port) in enumerate(
            zip(directories, nodes, ports, strict=True), 1
        )
    ]
