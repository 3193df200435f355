"""How long a worker with a large index is away when it is killed: from SIGKILL to a verdict.

The changelog of one shard is filled with random documents of the profile; a worker on a real Kafka
recovers it from nothing. Then it is killed by SIGKILL and started again at once, as a supervisor
does it, with its disk and without; a document that was sent at the kill is waited for. That time
has in it the session of the dead worker in its group (``session_timeout_seconds``), until the end
of which Kafka keeps its partitions for it.

    python -m benchmarks.restart [--documents 1000000] [--rounds N] [--json FILE]
"""

from __future__ import annotations

import shutil
import signal
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from rich.table import Table

from benchmarks.command import MeasurementError, add_rounds, errors_told, new_parser, positive
from benchmarks.contest.broker import ContestBroker, running_broker
from benchmarks.contest.contenders import create_topics, worker
from benchmarks.contest.feed import Feed, produce
from benchmarks.contest.outputs import Outputs
from benchmarks.contest.shapes import wide
from benchmarks.contest.speed import Live
from benchmarks.peers.stream import Stream
from benchmarks.random_documents import entries_record, packets_of
from benchmarks.report import Figures, Spread, machine, new_table, publish
from benchmarks.texts import CHARACTERS, generated_documents
from simhash_core.log.records import NO_CONTROL, Chain, Progress
from simhash_core.text.fingerprinter import Fingerprinter
from streams.kafka.clients import Producer
from streams.settings.loader import load_settings
from streams.settings.settings import Settings
from streams.store.changelog_codec import ChangelogRecord, encode_progress
from streams.topics.admin import topic_id
from streams.worker.index_on_kafka import reading_rules
from tests.rigs.brokers.kafka_broker import KafkaBrokerError

DOCUMENTS: Final = 1_000_000
ROUNDS: Final = 3

_READY_SECONDS: Final = 900.0
_FLUSH_SECONDS: Final = 120.0
_LOG_OFFSET: Final = 1 << 40


def run(documents: int, rounds: int) -> Figures:
    """Return seconds of the clock.

    ``from_nothing``: until the first worker was ready, start included. ``with_disk``,
    ``without_disk``: from SIGKILL to the verdict; ``session``: how much of it the group waits for
    the dead worker. Raises ``FirstseenError``, ``KafkaBrokerError`` and ``MeasurementError``.
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
        _fill(settings, broker, documents)
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


def _fill(settings: Settings, broker: ContestBroker, documents: int) -> None:
    """Write the changelog that a shard with so many documents would have."""
    raw = settings.topics.raw
    chain = Chain(raw, topic_id(broker.admin, raw), 0)
    address = {"bootstrap.servers": broker.address, "log_level": 2}
    producer = Producer(address | {"linger.ms": 20, "compression.type": "lz4"})

    def records() -> Iterator[ChangelogRecord]:
        # Far behind where the log of the run begins, so that no sequence number is there twice.
        packets = packets_of(settings.profile, documents, chain)
        for offset, packet in enumerate(packets, _LOG_OFFSET):
            yield entries_record(packet, offset)
        identity = Fingerprinter(settings.index_profile()).identity
        progress = Progress(chain, 0, 0, NO_CONTROL)
        yield encode_progress(progress, identity, reading_rules(settings))

    for record in records():
        produce(producer, settings.topics.changelog, record.value, record.key, 0)
    if producer.flush(_FLUSH_SECONDS):
        raise MeasurementError("the broker does not take the changelog")


def tables(figures: Figures) -> list[Table]:
    title = (
        "A worker with {documents:,} documents in one shard, {rounds} rounds; {session:g} s of "
        "each restart are the session of the one that was killed"
    )
    rows = (
        ("first start, until it was ready", "{from_nothing:.1f}"),
        ("SIGKILL to a verdict, with its disk", "{with_disk:.1f}"),
        ("SIGKILL to a verdict, disk lost", "{without_disk:.1f}"),
    )
    shown = [(what, seconds.format_map(figures)) for what, seconds in rows]
    return [new_table(title.format_map(figures), ("", "seconds"), shown)]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = new_parser("benchmarks.restart", __doc__)
    parser.add_argument(
        "--documents", type=positive, default=DOCUMENTS, help="in the index (%(default)s)"
    )
    add_rounds(parser, ROUNDS)
    options = parser.parse_args(arguments)
    with errors_told(KafkaBrokerError):
        figures = run(options.documents, options.rounds)
    publish(figures, tables(figures), options.json)


if __name__ == "__main__":
    main()
