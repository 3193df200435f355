"""A real worker with documents on the embedded broker, for tests of its metrics.

``python -m tests.repository.monitoring.loaded_worker`` writes its metrics to standard output.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from streams.kafka.embedded_broker import EmbeddedBroker
from tests.rigs.brokers.broker import Broker
from tests.rigs.workers.stream_harness import Stream, Worker
from tests.rigs.workers.stream_outputs import Raw

WORDS = ("river", "harbour", "market", "council", "bridge", "garden", "letter", "winter")


def documents(seed: int, count: int) -> list[Raw]:
    found: list[Raw] = []
    for number in range(count):
        words = [f"{word}{seed}{(number * 7 + place) % 97}" for place, word in enumerate(WORDS * 8)]
        if number % 3 == 1:
            words = [*words[:-1], "changed"]
        text = " ".join(words)
        found.append(Raw(None, f'{{"text": "{text}"}}'.encode()))
        if number % 3 == 1:
            found.append(found[-2])
    return [*found, Raw(None, b'{"text": "short"}'), Raw(None, b'{"text": ')]


@contextmanager
def loaded_worker(broker: Broker, directory: Path) -> Iterator[tuple[Stream, Worker]]:
    """Run a worker that has decided some documents; ``directory`` is for its state and log."""
    with Stream(broker, directory, raw_partitions=2) as stream:
        worker = stream.started()
        stream.send(documents(seed=1, count=60))
        stream.settle()
        yield stream, worker


def main() -> int:
    with tempfile.TemporaryDirectory() as directory, EmbeddedBroker() as server:
        broker = Broker("embedded", server)
        with loaded_worker(broker, Path(directory)) as (_, worker):
            sys.stdout.write(worker.metrics())
            worker.stop_gently()
    return 0


if __name__ == "__main__":
    sys.exit(main())
