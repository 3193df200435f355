"""A worker in which the first batch takes so many seconds between its sends and its commit.

``python -m tests.integration.slow_worker SECONDS [OPTION…]`` takes the options of ``firstseen
worker`` after the number; it ends when its standard input does.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable

from streams.cli.main import main
from streams.demo.worker_launcher import _end_when_orphaned
from streams.transactions import ShardTransactions

logger = logging.getLogger(__name__)

SECONDS = float(sys.argv[1])

_until_done = ShardTransactions._until_done
_slept: set[str] = set()


def _slowly(self: ShardTransactions, step: str, call: Callable[[float], None]) -> None:
    if step == "commit" and self._id not in _slept:
        _slept.add(self._id)
        logger.warning("%s: sleeping in a transaction", self._id)
        self._taken_over().flush(SECONDS)
        time.sleep(SECONDS)
    _until_done(self, step, call)


if __name__ == "__main__":
    ShardTransactions._until_done = _slowly  # type: ignore[method-assign]
    threading.Thread(target=_end_when_orphaned, daemon=True).start()
    sys.exit(main(["worker", *sys.argv[2:]]))
