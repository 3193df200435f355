"""A worker in which the first transaction with documents takes so many seconds before its commit.

``python -m tests.rigs.workers.slow_worker SECONDS [OPTION…]`` takes the options of ``firstseen
worker`` after the number; it ends when its standard input does.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable

from streams.cli.main import main
from streams.cli.worker_launcher import end_when_orphaned
from streams.kafka.clients import Producer
from streams.kafka.transactions import TransactionalProducer

logger = logging.getLogger(__name__)

SECONDS = float(sys.argv[1])

_until_done = TransactionalProducer._until_done
_slept: list[str] = []
_commits: list[str] = []


def _slowly(
    self: TransactionalProducer, step: str, producer: Producer, call: Callable[[float], None]
) -> None:
    if step == "commit":
        _commits.append(step)
    # The first commit says where shards begin, and has no documents.
    if len(_commits) > 1 and not _slept:
        _slept.append(step)
        logger.warning("sleeping in a transaction")
        producer.flush(SECONDS)
        time.sleep(SECONDS)
    _until_done(self, step, producer, call)


if __name__ == "__main__":
    TransactionalProducer._until_done = _slowly  # type: ignore[method-assign]
    threading.Thread(target=end_when_orphaned, daemon=True).start()
    sys.exit(main(["worker", *sys.argv[2:]]))
