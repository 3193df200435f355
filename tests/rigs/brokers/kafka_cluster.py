"""Three real brokers in one cluster, on 127.0.0.1: to be killed one after the other.

The first is the controller as well, alone: the cluster goes on as long as it does, and what follows
from two dead brokers is about copies of partitions, not about a lost quorum.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self

from streams.kafka.clients import AdminClient
from tests.rigs.brokers.kafka_broker import KafkaBroker
from tests.rigs.brokers.kafka_configuration import ONE_OF_THREE
from tests.rigs.brokers.loopback_ports import free_port

BROKERS = 3
_SEEN_SECONDS_MAX = 60.0
_POLL_SECONDS = 0.2


class KafkaCluster:
    """A context manager: starts three brokers, and kills what still runs at its end."""

    def __init__(self, directory: Path) -> None:
        controller = free_port()
        self.brokers = [
            KafkaBroker(
                directory / f"broker-{number}",
                controller_port=controller,
                is_controller=number == 0,
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
        """The addresses of all brokers."""
        return ",".join(broker.bootstrap_servers for broker in self.brokers)

    def admin(self) -> AdminClient:
        """A client of the whole cluster."""
        return AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})

    def kill(self) -> None:
        """SIGKILL to all that run."""
        for broker in self.brokers:
            broker.kill()

    def await_brokers(self, number: int) -> None:
        """Wait until the cluster lists so many brokers in service."""
        admin = self.admin()
        _await(f"{number} brokers", lambda: len(admin.list_topics(timeout=10).brokers) == number)

    def await_in_sync(self, topics: Iterable[str], number: int) -> None:
        """Wait until each partition of ``topics`` has so many copies in sync."""
        admin, names = self.admin(), list(topics)

        def is_so() -> bool:
            known = admin.list_topics(timeout=10).topics
            return all(
                len(each.isrs) == number
                for name in names
                for each in known[name].partitions.values()
            )

        _await(f"{number} copies in sync", is_so)


def _await(what: str, is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _SEEN_SECONDS_MAX
    while not is_so():
        assert time.monotonic() < deadline, f"not {what} after {_SEEN_SECONDS_MAX:g} s"
        time.sleep(_POLL_SECONDS)
