"""A stream on a real Kafka to be measured: topics of its own, workers, documents sent at once.

The broker is the one of the tests (``make kafka`` fetches it), with the options of the JVM that a
broker has in service.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, NamedTuple, Self

from prometheus_client.parser import text_string_to_metric_families

from streams.demo.worker_process import WorkerProcess, WorkerProcessError
from streams.kafka.clients import AdminClient, Producer
from streams.settings.loader import load_settings
from streams.settings.settings import Settings
from streams.topics.admin import create
from streams.topics.plans import topic_plans
from tests.rigs.brokers.kafka_broker import KafkaBroker
from tests.rigs.brokers.kafka_configuration import MEASURED_JVM_OPTIONS

RAW_PARTITIONS: Final = 4
WARM_UP: Final = 400
"""Documents before those that are measured: dictionaries are loaded and connections made."""

_POLL_SECONDS: Final = 0.1
_SEND_SECONDS: Final = 60.0
_ALL_SECONDS: Final = 900.0
_QUIET_SECONDS: Final = 60.0


class MeasurementError(Exception):
    """A run that did not end as it should: its time says nothing."""


class Taken(NamedTuple):
    """What a run took. ``messages``: between shards, by kind; ``decided``: by verdict."""

    documents: int
    seconds: float
    cpu_seconds: float
    messages: dict[str, float]
    decided: dict[str, float]
    transactions: float


@contextmanager
def measured_kafka(directory: Path) -> Iterator[str]:
    """Run a broker; give its address."""
    with KafkaBroker(directory, jvm_options=MEASURED_JVM_OPTIONS) as broker:
        yield broker.bootstrap_servers


class KafkaStream:
    """Topics and workers of one application id; a context manager that stops the workers."""

    def __init__(
        self,
        brokers: str,
        directory: Path,
        name: str,
        *,
        partitions: int,
        workers: int = 1,
        options: Sequence[str] = (),
    ) -> None:
        """``partitions``: of the outputs; ``options``: settings, NAME=VALUE; ``name``: the id."""
        directory.mkdir(parents=True)
        flags = {"--broker": brokers, "--application-id": name}
        assignments = [
            f"topics.raw={name}.raw",
            f"topics.unique={name}.unique",
            f"topics.duplicates={name}.duplicate-of",
            f"topics.dead_letters={name}.dlq",
            *options,
        ]
        self.settings: Settings = load_settings(
            flags=flags, assignments=assignments, environ={}
        ).settings
        create(
            AdminClient({"bootstrap.servers": brokers}),
            topic_plans(self.settings, partitions, RAW_PARTITIONS),
        )
        self._resources = ExitStack()
        self._sent = 0
        arguments = [part for flag in flags.items() for part in flag]
        for assignment in assignments:
            arguments += ["--set", assignment]
        self.options = [
            [*arguments, "--set", f"state_dir={directory / f'state-{number}'}"]
            for number in range(workers)
        ]
        """The options of each worker."""
        self.workers = [
            WorkerProcess(options, directory / f"worker-{number}.log")
            for number, options in enumerate(self.options)
        ]
        self._producer = Producer(
            {
                "bootstrap.servers": brokers,
                "linger.ms": 5,
                "compression.type": "lz4",
                "log_level": 2,
            }
        )

    def __enter__(self) -> Self:
        """Start the workers, and wait until all shards are open and shared."""
        try:
            for worker in self.workers:
                self._resources.enter_context(worker)
            for worker in self.workers:
                worker.await_ready()
            self._await_shared()
        except BaseException:
            self._resources.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the workers."""
        self._resources.close()

    def measure(self, texts: Sequence[str]) -> Taken:
        """Send documents at once, and wait until all are decided.

        Raises ``MeasurementError`` when they are not within fifteen minutes.
        """
        before = self._figures()
        started = time.monotonic()
        self.send(texts)
        now = self._figures()
        while _sum(now, "firstseen_documents_total") < self._sent:
            if time.monotonic() - started > _ALL_SECONDS:
                raise MeasurementError(f"{len(texts)} documents are not decided in {_ALL_SECONDS}")
            time.sleep(_POLL_SECONDS)
            now = self._figures()
        seconds = time.monotonic() - started
        after = self._settled(now)
        return Taken(
            len(texts),
            seconds,
            _sum(after, "process_cpu_seconds_total") - _sum(before, "process_cpu_seconds_total"),
            _difference(before, after, "firstseen_internal_messages_total"),
            _difference(before, after, "firstseen_documents_total"),
            sum(_difference(before, after, "firstseen_transactions_total").values()),
        )

    def send(self, texts: Sequence[str]) -> None:
        """Send documents, evenly over the raw partitions, until the broker has them."""
        for text in texts:
            value = json.dumps({"id": f"{self._sent}", "text": text}, ensure_ascii=False)
            self._producer.produce(
                self.settings.topics.raw, value.encode(), partition=self._sent % RAW_PARTITIONS
            )
            self._sent += 1
            if self._sent % 1000 == 0:
                self._producer.poll(0)
        if self._producer.flush(_SEND_SECONDS):
            raise MeasurementError("the broker does not take the documents")

    def _await_shared(self) -> None:
        """Wait until each worker has shards: the last one to join takes some from the others."""
        deadline = time.monotonic() + _QUIET_SECONDS
        while time.monotonic() < deadline:
            shares = [_sum([f], "firstseen_assigned_shards") for f in self._figures()]
            if all(shares) or (len(shares) > 1 and sum(shares) == 1):
                return
            time.sleep(_POLL_SECONDS)
        raise MeasurementError("the shards are not shared between the workers")

    def _settled(self, now: list[Figures]) -> list[Figures]:
        """Wait until nobody confirms anything any more."""
        while True:
            time.sleep(5 * _POLL_SECONDS)
            before, now = now, self._figures()
            if not sum(_difference(before, now, "firstseen_internal_messages_total").values()):
                return now

    def _figures(self) -> list[Figures]:
        try:
            return [_parsed(worker.metrics()) for worker in self.workers]
        except WorkerProcessError as error:
            raise MeasurementError(str(error)) from error


Figures = dict[str, dict[tuple[str, ...], float]]
"""Samples by name and by the values of their labels."""


def _parsed(exposition: str) -> Figures:
    parsed: Figures = {}
    for family in text_string_to_metric_families(exposition):
        for sample in family.samples:
            parsed.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
    return parsed


def _sum(figures: Sequence[Figures], name: str) -> float:
    return sum(sum(each.get(name, {}).values()) for each in figures)


def _difference(before: Sequence[Figures], after: Sequence[Figures], name: str) -> dict[str, float]:
    sums: dict[str, float] = {}
    for sign, figures in ((-1, before), (1, after)):
        for each in figures:
            for labels, value in each.get(name, {}).items():
                sums[labels[0]] = sums.get(labels[0], 0.0) + sign * value
    return {name: round(value, 3) for name, value in sums.items() if value}
