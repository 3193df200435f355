"""Measures how long a killed worker with a large index is away: from SIGKILL to a verdict.

A worker on a real Kafka recovers a shard of random documents without any state. Then it is killed
and started again immediately, with its disk and without. The time ends with the verdict on a
document that was sent at the kill. It includes the session of the dead worker
(``session_timeout_seconds``), during which Kafka keeps the partitions for the dead worker.

    python -m benchmarks.restart [--documents 1000000] [--rounds N] [--json FILE]
"""

from __future__ import annotations

import shutil
import signal
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.command import MeasurementError, add_number, errors_reported, new_parser
from benchmarks.contest.broker import ContestBroker, running_broker
from benchmarks.contest.contenders import create_topics, worker
from benchmarks.contest.documents import Feed, Outputs, produce
from benchmarks.contest.shapes import wide
from benchmarks.contest.speed import Live
from benchmarks.peers.stream import Stream
from benchmarks.random_documents import PACKET, changelog_of
from benchmarks.report import Figures, Spread, machine, publish
from benchmarks.texts import CHARACTERS, generated_documents
from simhash_core.log.records import Chain
from streams.kafka.clients import Producer
from streams.settings.loader import load_settings
from streams.settings.settings import Settings
from streams.topics.admin import topic_id
from tests.rigs.brokers.kafka_broker import KafkaBrokerError

DOCUMENTS: Final = 1_000_000
ROUNDS: Final = 3

_READY_SECONDS: Final = 900.0
_FLUSH_SECONDS: Final = 120.0


def run(documents: int, rounds: int) -> Figures:
    """Return seconds of the clock; raises ``KafkaBrokerError`` and ``MeasurementError``.

    ``from_nothing`` is the time until the first worker was ready. ``with_disk`` and
    ``without_disk`` are from SIGKILL to the verdict; ``session`` is the part of them in which the
    group waits for the dead worker.
    """
    before = machine()
    shape = wide(partitions=1)
    texts = iter(generated_documents(2 * rounds + 1, CHARACTERS))
    with (
        tempfile.TemporaryDirectory(prefix="firstseen-benchmark-") as name,
        running_broker(Path(name)) as broker,
    ):
        stream = Stream(broker.address, "restart", Path(name) / "restart")
        flags = {"--broker": stream.brokers, "--application-id": stream.name}
        settings = load_settings(
            flags={**flags, "--profile": shape.profile},
            assignments=[f"topics.raw={stream.raw}"],
            environ={},
        ).settings
        create_topics(shape, stream, broker)
        fill_changelogs(settings, broker, documents, shape.partitions)
        killed = worker(shape, stream, settings.session_timeout_seconds)
        state = stream.directory / "state-0"
        started = time.monotonic()
        killed.start()
        try:
            killed.await_ready(_READY_SECONDS)
            from_nothing = time.monotonic() - started
            with Outputs(stream, shape.partitions) as outputs:
                live = Live(stream, broker, [killed], Feed(stream, shape.partitions), outputs)
                live.feed.send_all([next(texts)])
                live.await_all(_READY_SECONDS)
                kept = [_verdict_after_kill(live, next(texts)) for _ in range(rounds)]
                lost = [_verdict_after_kill(live, next(texts), state) for _ in range(rounds)]
        finally:
            killed.end(signal.SIGKILL)
    return {
        "machine": before,
        "documents": documents,
        "rounds": rounds,
        "session": settings.session_timeout_seconds,
        "from_nothing": round(from_nothing, 1),
        "with_disk": Spread.of(kept),
        "without_disk": Spread.of(lost),
    }


def _verdict_after_kill(live: Live, text: str, state: Path | None = None) -> float:
    """Kill the worker, delete ``state``, start it; return the seconds until ``text`` is decided."""
    (killed,) = live.contenders
    started = time.monotonic()
    killed.end(signal.SIGKILL)
    live.feed.send_all([text])
    if state is not None:
        shutil.rmtree(state)
    killed.start()
    live.await_all(_READY_SECONDS)
    return time.monotonic() - started


def fill_changelogs(
    settings: Settings, broker: ContestBroker, documents: int, partitions: int
) -> None:
    """Write the changelogs that shards with ``documents`` documents each would have.

    The log gets as many records as there were packets: workers refuse a log that lacks what is
    committed, and begin to read after these.
    """
    raw, log = settings.topics.raw, settings.topics.log
    identifier = topic_id(broker.admin, raw)
    packets = -(-documents // PACKET)
    position = partitions * packets
    address = {"bootstrap.servers": broker.address, "log_level": 2}
    producer = Producer(address | {"linger.ms": 20, "compression.type": "lz4"})

    for number in range(position):
        produce(producer, log, b"", b"%d" % number, 0)
    for partition in range(partitions):
        first = partition * packets
        chain = Chain(raw, identifier, partition)
        for record in changelog_of(settings, chain, documents, first, position):
            produce(producer, settings.topics.changelog, record.value, record.key, partition)
    if producer.flush(_FLUSH_SECONDS):
        raise MeasurementError("the broker does not take the changelog")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = new_parser("benchmarks.restart", __doc__)
    add_number(parser, "--documents", DOCUMENTS, "documents in the index")
    add_number(parser, "--rounds", ROUNDS, "rounds of each variant")
    options = parser.parse_args(arguments)
    with errors_reported(KafkaBrokerError):
        publish(run(options.documents, options.rounds), options.json)


if __name__ == "__main__":
    main()
