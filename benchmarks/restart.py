"""How long a worker with a large index is away when it is killed: from SIGKILL to a verdict.

The changelog of one shard is filled with random documents of the profile; a worker on a real Kafka
recovers it from nothing. Then it is killed by SIGKILL and started again at once, as a supervisor
does it, with its disk and without; a document that was sent at the kill is waited for. That time
has in it the session of the dead worker in its group (``session_timeout_seconds``), until the end
of which Kafka keeps its partitions for it.

    python -m benchmarks.restart [--documents 1000000] [--rounds N] [--json FILE]
"""

from __future__ import annotations

import argparse
import dataclasses
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
from rich.table import Table

from benchmarks.changelogs import PACKET, packet_of
from benchmarks.kafka_stream import KafkaStream, MeasurementError, measured_kafka
from benchmarks.report import Machine, Spread, add_json_option, machine, new_table, publish
from benchmarks.texts import CHARACTERS, generated_documents
from simhash_core.errors import FirstseenError
from simhash_core.log.records import NO_CONTROL, Chain, Progress
from simhash_core.log.shard_stream import NewEntries
from simhash_core.text.fingerprinter import Fingerprinter
from streams.demo.worker_process import WorkerProcess, WorkerProcessError
from streams.kafka.clients import AdminClient, Producer
from streams.kafka.topic_follower import TopicFollower
from streams.store.changelog_codec import ChangelogRecord, encode_entries, encode_progress
from streams.topics.shard_topics import topic_id
from streams.worker.index_on_kafka import reading_rules
from tests.rigs.brokers.kafka_broker import KafkaBrokerError

DOCUMENTS: Final = 1_000_000
ROUNDS: Final = 3

_READY_SECONDS: Final = 900.0
_END_SECONDS: Final = 30.0
_FLUSH_SECONDS: Final = 120.0
_POLL_SECONDS: Final = 0.05
_LOG_OFFSET: Final = 1 << 40


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds of the clock. ``from_nothing``: until the first worker was ready, start included.

    ``with_disk``, ``without_disk``: from SIGKILL to the verdict; ``session``: how much of it the
    group waits for the dead worker.
    """

    machine: Machine
    documents: int
    rounds: int
    session: float
    from_nothing: float
    with_disk: Spread
    without_disk: Spread


class _KilledWorker(WorkerProcess):
    """A worker process that can be killed, and waited for however long it recovers."""

    def kill(self) -> None:
        """SIGKILL."""
        process, self._process = self._process, None
        if process is not None and process.stdin is not None:
            process.kill()
            process.wait(_END_SECONDS)
            process.stdin.close()

    def await_open(self) -> None:
        """Wait until it is ready; raises ``MeasurementError`` after a quarter of an hour."""
        deadline = time.monotonic() + _READY_SECONDS
        while not self._is_ready():
            self.check()
            if time.monotonic() > deadline:
                raise MeasurementError(f"the worker is not ready: see {self.log}")
            time.sleep(_POLL_SECONDS)


def run(documents: int, rounds: int) -> Figures:
    """Measure; raises ``FirstseenError``, ``KafkaBrokerError`` and ``MeasurementError``."""
    before = machine()
    texts = iter(generated_documents(2 * rounds + 1, CHARACTERS))
    with tempfile.TemporaryDirectory(prefix="firstseen-benchmark-") as name:
        directory = Path(name)
        with measured_kafka(directory / "kafka") as brokers:
            # Topics and a sender; its worker is replaced by one that can be killed.
            stream = KafkaStream(brokers, directory / "stream", "restart", partitions=1)
            _fill(stream, brokers, documents)
            worker = _KilledWorker(stream.options[0], directory / "worker.log")
            state = directory / "stream" / "state-0"
            started = time.monotonic()
            worker.start()
            try:
                worker.await_open()
                from_nothing = time.monotonic() - started
                topics = stream.settings.topics
                with TopicFollower(
                    stream.settings,
                    {topics.unique: 1, topics.duplicates: 1},
                    from_beginning=True,
                ) as outputs:
                    stream.send([next(texts)])
                    _await_output(outputs, worker)
                    kept = [_killed(worker, stream, next(texts), outputs) for _ in range(rounds)]
                    lost = [
                        _killed(worker, stream, next(texts), outputs, state) for _ in range(rounds)
                    ]
            finally:
                worker.kill()
    return Figures(
        machine=before,
        documents=documents,
        rounds=rounds,
        session=stream.settings.session_timeout_seconds,
        from_nothing=round(from_nothing, 1),
        with_disk=Spread.of(kept),
        without_disk=Spread.of(lost),
    )


def _killed(
    worker: _KilledWorker,
    stream: KafkaStream,
    text: str,
    outputs: TopicFollower,
    state: Path | None = None,
) -> float:
    """Kill the worker, delete ``state``, start it; return the seconds until ``text`` is decided."""
    started = time.monotonic()
    worker.kill()
    stream.send([text])
    if state is not None:
        shutil.rmtree(state)
    worker.start()
    _await_output(outputs, worker)
    return time.monotonic() - started


def _await_output(outputs: TopicFollower, worker: _KilledWorker) -> None:
    deadline = time.monotonic() + _READY_SECONDS
    while not outputs.read(_POLL_SECONDS):
        worker.check()
        if time.monotonic() > deadline:
            raise MeasurementError(f"no verdict came: see {worker.log}")


def _fill(stream: KafkaStream, brokers: str, documents: int) -> None:
    """Write the changelog that a shard with so many documents would have."""
    settings = stream.settings
    raw = settings.topics.raw
    chain = Chain(raw, topic_id(AdminClient({"bootstrap.servers": brokers}), raw), 0)
    producer = Producer(
        {"bootstrap.servers": brokers, "linger.ms": 20, "compression.type": "lz4", "log_level": 2}
    )

    def send(record: ChangelogRecord) -> None:
        while True:
            try:
                producer.produce(settings.topics.changelog, record.value, record.key, partition=0)
            except BufferError:
                producer.poll(_POLL_SECONDS)
            else:
                return

    for number, first in enumerate(range(0, documents, PACKET)):
        packet = packet_of(settings.profile, number, min(PACKET, documents - first))
        packet = dataclasses.replace(packet, chain=chain)
        # Far behind where the log of the run begins, so that no sequence number is there twice.
        send(encode_entries(NewEntries(_LOG_OFFSET + number, packet, np.arange(len(packet)))))
    identity = Fingerprinter(settings.index_profile()).identity
    progress = Progress(chain, 0, 0, NO_CONTROL)
    send(encode_progress(progress, identity, reading_rules(settings)))
    if producer.flush(_FLUSH_SECONDS):
        raise MeasurementError("the broker does not take the changelog")


def tables(figures: Figures) -> Iterator[Table]:
    """Show the figures."""
    table = new_table(
        f"A worker with {figures.documents:,} documents in one shard, {figures.rounds} rounds; "
        f"{figures.session:g} s of each restart are the session of the one that was killed",
        "",
        "seconds",
    )
    table.add_row("first start, until it was ready", f"{figures.from_nothing:.1f}")
    table.add_row("SIGKILL to a verdict, with its disk", figures.with_disk.shown(digits=1))
    table.add_row("SIGKILL to a verdict, disk lost", figures.without_disk.shown(digits=1))
    yield table


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark as the command line says."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.restart", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument(
        "--documents", type=int, default=DOCUMENTS, help="in the index (%(default)s)"
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="kills of each (%(default)s)")
    add_json_option(parser)
    options = parser.parse_args(arguments)
    if options.documents < 1 or options.rounds < 1:
        parser.error("--documents and --rounds must be 1 or more")
    try:
        figures = run(options.documents, options.rounds)
    except (FirstseenError, KafkaBrokerError, MeasurementError, WorkerProcessError) as error:
        raise SystemExit(str(error)) from error
    publish(figures, tables(figures), options.json)


if __name__ == "__main__":
    main()
