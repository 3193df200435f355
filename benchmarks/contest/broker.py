"""The broker of the contest: a real Kafka on loopback, with its CPU time and its bytes on disk."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from confluent_kafka.cimpl import NewTopic

from benchmarks.command import MeasurementError
from benchmarks.contest.processor_time import command_of, cpu_seconds, descendants
from streams.kafka.clients import AdminClient
from tests.rigs.brokers.kafka_broker import KafkaBroker
from tests.rigs.brokers.kafka_configuration import MEASURED_JVM_OPTIONS

_MAIN_CLASS: Final = "kafka.Kafka"
_ANSWER_SECONDS: Final = 60.0


class ContestBroker:
    """A running broker; clients connect to ``address``, which is ``127.0.0.1:port``."""

    def __init__(self, address: str, directory: Path, process: int) -> None:
        """``directory`` has the broker's data and the state of its clients."""
        self.address = address
        self.directory = directory
        self.admin = AdminClient({"bootstrap.servers": address, "log_level": 2})
        self._process = process

    def cpu_seconds(self) -> float:
        return cpu_seconds(self._process)

    def create_topics(self, partitions: Mapping[str, int]) -> None:
        topics = [NewTopic(name, number, 1) for name, number in partitions.items()]
        for future in self.admin.create_topics(topics).values():
            future.result(_ANSWER_SECONDS)

    def delete_topics(self, prefix: str) -> None:
        """Delete topics with ``prefix`` anywhere in their names, as Quix Streams puts it inside."""
        topics = self.admin.list_topics(timeout=_ANSWER_SECONDS).topics
        names = [name for name in topics if prefix in name and not name.startswith("__")]
        for future in self.admin.delete_topics(names).values() if names else ():
            future.result(_ANSWER_SECONDS)

    def bytes_beside(self, topics: Collection[str]) -> int:
        """Return the bytes of all records, without those of ``topics`` and of Kafka itself.

        A deleted segment stays for a minute under another name, and is counted.
        """
        return sum(
            segment.stat().st_size
            for partition in (self.directory / "kafka" / "data").iterdir()
            if partition.is_dir() and _counts(partition.name, topics)
            for segment in partition.glob("*.log*")
        )


@contextmanager
def running_broker(directory: Path) -> Iterator[ContestBroker]:
    """Run the tests' broker with the JVM options of a broker in production.

    Raises ``KafkaBrokerError`` if it cannot run.
    """
    data = directory / "kafka"
    with KafkaBroker(data, jvm_options=MEASURED_JVM_OPTIONS) as broker:
        contest = ContestBroker(broker.bootstrap_servers, directory, _java_process(data))
        with contest.admin:
            yield contest


def _java_process(directory: Path) -> int:
    for process in descendants(os.getpid()):
        command = command_of(process)
        if _MAIN_CLASS in command and "java" in command[0] and str(directory) in command[-1]:
            return process
    raise MeasurementError("the process of the broker is not to be found")


def _counts(directory: str, topics: Collection[str]) -> bool:
    """Return whether a directory of the broker is a partition whose bytes are counted."""
    topic, _, suffix = directory.rpartition("-")
    return bool(topic and suffix.isdecimal() and not topic.startswith("__") and topic not in topics)
