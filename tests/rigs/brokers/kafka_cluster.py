"""Three real brokers in one cluster, on 127.0.0.1: to be killed one after the other.

The first is the controller as well, alone: the cluster goes on as long as it does, and what follows
from two dead brokers is about copies of partitions, not about a lost quorum.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self

from streams.kafka.clients import AdminClient
from tests.rigs.brokers.kafka_broker import KafkaBroker
from tests.rigs.brokers.kafka_configuration import ONE_OF_THREE
from tests.rigs.brokers.loopback_ports import free_port
from tests.rigs.waiting import await_that

BROKERS = 3


class KafkaCluster:
    """A context manager: starts three brokers, and kills what still runs at its end."""

    def __init__(self, directory: Path) -> None:
        controller = free_port()
        self.brokers = [
            KafkaBroker(
                directory / f"broker-{number}",
                controller_port=controller,
                node_id=number + 1,
                properties=ONE_OF_THREE,
            )
            for number in range(BROKERS)
        ]

    def __enter__(self) -> Self:
        try:
            self.brokers[0].start()
            with ThreadPoolExecutor(BROKERS) as threads:
                list(threads.map(KafkaBroker.start, self.brokers[1:]))
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
