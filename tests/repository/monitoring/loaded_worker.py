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
from tests.rigs.workers.short_documents import keyed_documents
from tests.rigs.workers.stream_harness import Stream, Worker


@contextmanager
def loaded_worker(broker: Broker, directory: Path) -> Iterator[tuple[Stream, Worker]]:
    """Run a worker that has decided some documents; ``directory`` is for its state and log."""
    with Stream(broker, directory, raw_partitions=2) as stream:
        worker = stream.started()
        stream.send(keyed_documents(1, 60))
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
