"""A separate stream on a broker: topics, workers as real processes, raw records and outputs.

Workers run the code of ``firstseen worker``, each in its own process. Everything has a time limit,
and a failure shows the end of the workers' logs.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Self

from confluent_kafka import KafkaError, Message

from simhash_core.documents import SourcePosition
from streams.demo.worker_process import OUR_VARIABLES, WorkerProcess
from streams.kafka.clients import AdminClient, Producer
from streams.settings.loader import load_settings
from streams.topics import admin as topics
from streams.topics.plans import topic_plans
from tests.rigs.brokers.broker import Broker
from tests.rigs.waiting import await_that
from tests.rigs.workers.forked_worker import ForkedWorker
from tests.rigs.workers.stream_outputs import Judge, Outputs, Raw

SEND_SECONDS = 60.0
SETTLE_SECONDS = 90.0
END_SECONDS = 120.0
OUTPUT_PARTITIONS = 4
LARGEST_BYTES = 8 * 1024 * 1024
LOG_TAIL_CHARACTERS = 3_000
FUTURE_MS = 2**63 - 1
TOPICS = ("raw", "unique", "duplicates", "tagged", "dead_letters")


class Worker(WorkerProcess):
    """A worker that a test can stop, kill, or wait for until it ends by itself.

    ``namespace`` is its network namespace (``ip netns``), by default that of this process.
    """

    namespace: str | None = None

    def __enter__(self) -> Self:
        super().__enter__()
        return self

    def start(self, fault: str = "") -> None:
        """Fork the worker from a process that has its code, with a fault of ``faulty_worker``."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith(OUR_VARIABLES)}
        # It has the methods of ``Popen`` that are used.
        process: Any = ForkedWorker(self._options, environment, self.log, self.namespace, fault)
        self._process = process

    def start_as(self, command: Sequence[str]) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, *self._options],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    @property
    def runs(self) -> bool:
        return self._process is not None

    def kill(self) -> None:
        process, self._process = self._process, None
        assert process is not None, "it does not run"
        assert process.stdin is not None
        process.kill()
        process.wait(END_SECONDS)
        process.stdin.close()

    def stop_gently(self) -> None:
        """End the worker by SIGTERM; it must end with code 0."""
        trouble = self.stop()
        assert not trouble, trouble

    def await_end(self, seconds: float = END_SECONDS) -> int:
        process = self._process
        assert process is not None, "it does not run"
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the worker still runs; {self.log_text()}") from None
        self.kill()
        return code

    def log_text(self) -> str:
        return self.log.read_text("utf-8", "replace")

    def await_log(self, text: str, seconds: float = END_SECONDS) -> None:
        def has_it() -> bool:
            self.check()
            return text in self.log_text()

        await_that(has_it, seconds, shows=lambda: f"no {text!r} in the log: {self.log_text()}")


class Stream:
    """Topics and an application id that no other test has; workers and readers for them.

    ``options`` are further settings, ``NAME=VALUE``, for both workers and topics. It is a context
    manager; at its end it kills all processes that still run.
    """

    def __init__(
        self,
        broker: Broker,
        directory: Path,
        *,
        raw_partitions: int = 2,
        options: Sequence[str] = (),
        compression: str = "none",
        create: bool = True,
    ) -> None:
        self.broker = broker
        self.directory = directory
        self.raw_partitions = raw_partitions
        self.compression = compression
        self.sent: dict[SourcePosition, Raw] = {}
        self.workers: list[Worker] = []
        name = broker.unique("app")
        self._flags = {"--broker": broker.bootstrap_servers, "--application-id": name}
        self._assignments = [
            *(f"topics.{setting}={name}.{setting}" for setting in TOPICS),
            *(each for each in delivery_of(broker) if _name(each) not in map(_name, options)),
            *options,
        ]
        self.settings = load_settings(
            flags=self._flags, assignments=self._assignments, environ={}
        ).settings
        if create:
            self.create_topics()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for worker in self.workers:
            if worker.runs:
                worker.kill()
        if "outputs" in self.__dict__:
            self.outputs.__exit__(*error)

    def create_topics(self) -> None:
        """Create all topics, with ``firstseen topics create`` if the broker supports that."""
        plans = topic_plans(self.settings, OUTPUT_PARTITIONS, self.raw_partitions)
        if self.broker.name == "embedded":
            self.broker.create_topics({plan.name: plan.partitions or 1 for plan in plans})
            return
        # Records have times years ago or in the future: Kafka must neither delete nor refuse them.
        any_time = {"retention.ms": "-1", "message.timestamp.after.max.ms": str(FUTURE_MS)}
        raw, *others = plans
        outputs = [plan for plan in others if plan.name in self.settings.output_topics]
        size = {"max.message.bytes": str(LARGEST_BYTES)}
        self.broker.create_topics({raw.name: self.raw_partitions}, {**any_time, **size})
        for plan in outputs:
            config = {**plan.config, "retention.ms": "-1"}
            self.broker.create_topics({plan.name: plan.partitions or 1}, config)
        topics.create(AdminClient({"bootstrap.servers": self.broker.bootstrap_servers}), plans)

    def assign(self, assignment: str) -> None:
        others = (each for each in self._assignments if _name(each) != _name(assignment))
        self._assignments = [*others, assignment]

    def worker(self, *options: str, state: str = "state", flags: Sequence[str] = ()) -> Worker:
        """Return a worker that is not started; ``state`` names its directory, like a machine's."""
        arguments = [part for flag in self._flags.items() for part in flag]
        assignments = [*self._assignments, f"state_dir={self.directory / state}", *options]
        for assignment in assignments:
            arguments += ["--set", assignment]
        log = self.directory / f"worker-{len(self.workers)}.log"
        self.workers.append(Worker([*arguments, *flags], log))
        return self.workers[-1]

    def started(self, *options: str, state: str = "state") -> Worker:
        worker = self.worker(*options, state=state)
        worker.start()
        worker.await_ready()
        return worker

    def send(self, records: Iterable[Raw]) -> list[SourcePosition]:
        """Send records, and wait until the broker has them; return their positions, in order."""
        batch = list(records)
        places: list[SourcePosition | None] = [None] * len(batch)
        failures: list[KafkaError] = []

        def report(number: int, error: KafkaError | None, message: Message) -> None:
            partition, offset = message.partition(), message.offset()
            if error is not None or partition is None or offset is None:
                failures.append(error or KafkaError(KafkaError.UNKNOWN))
                return
            places[number] = SourcePosition(self.settings.topics.raw, partition, offset)

        for number, raw in enumerate(batch):
            self._producer.produce(
                self.settings.topics.raw,
                raw.value,
                raw.key,
                partition=-1 if raw.partition is None else raw.partition,
                headers=list(raw.headers),
                timestamp=raw.timestamp_ms,
                on_delivery=partial(report, number),
            )
        assert self._producer.flush(SEND_SECONDS) == 0, "the broker does not take the records"
        assert not failures, failures[0].str()
        found = [place for place in places if place is not None]
        self.expect(dict(zip(found, batch, strict=True)))
        return found

    def expect(self, sent: Mapping[SourcePosition, Raw]) -> None:
        self.sent.update(sent)
        self.outputs.expect(source for source, raw in sent.items() if not raw.is_tombstone)

    @cached_property
    def outputs(self) -> Outputs:
        plans = topic_plans(self.settings, OUTPUT_PARTITIONS, self.raw_partitions)
        partitions = {plan.name: plan.partitions or 1 for plan in plans}
        outputs = {name: partitions[name] for name in self.settings.output_topics}
        return Outputs(self.settings, outputs)

    @cached_property
    def judge(self) -> Judge:
        return Judge(self.settings)

    @property
    def open(self) -> int:
        """The number of sent records of which no output has been read."""
        return len(self.outputs.awaited)

    def judge_all(self) -> None:
        """Wait until every record has an output, and check the invariants."""
        outputs = self.settle()
        outputs.read_to_ends()
        self.judge.conserved(self.sent, outputs)
        self.judge.ordered(outputs)
        self.judge.separated(self.sent, outputs)
        self.judge.grounded(self.sent, outputs)

    def settle(self, silence_seconds: float = SETTLE_SECONDS) -> Outputs:
        """Wait until every record that was sent has an output; return all outputs.

        Raises ``AssertionError`` if no output comes for ``silence_seconds``.
        """
        heard = time.monotonic()
        while self.open:
            if self.outputs.read():
                heard = time.monotonic()
            elif time.monotonic() - heard > silence_seconds:
                raise AssertionError(f"{self.open} of {len(self.sent)} are open; {self._logs()}")
            for worker in self.workers:
                if worker.runs:
                    worker.check()
        return self.outputs

    def reconnect(self) -> None:
        """Send with a new client from now on, because the old one knows only the old partitions."""
        self.__dict__.pop("_producer", None)

    @cached_property
    def _producer(self) -> Producer:
        return Producer(
            {
                "bootstrap.servers": self.broker.bootstrap_servers,
                "compression.type": self.compression,
                "linger.ms": 2,
                "log_level": 2,
                "message.max.bytes": LARGEST_BYTES,
            }
        )

    def _logs(self) -> str:
        tails = (worker.log_text()[-LOG_TAIL_CHARACTERS:] for worker in self.workers)
        return "\n-- worker --\n".join(["logs of the workers:", *tails])


def _name(assignment: str) -> str:
    return assignment.partition("=")[0]


def delivery_of(broker: Broker) -> list[str]:
    """Return the settings of a worker that depend on the broker's abilities."""
    if broker.supports_transactions:
        return ["session_timeout_seconds=4"]
    return ["delivery=at_least_once", "session_timeout_seconds=3", "kafka.fetch.wait.max.ms=10"]
