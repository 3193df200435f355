"""A worker that sleeps for so many seconds before it reads its first changelog.

``python -m tests.rigs.workers.slow_recovery_worker SECONDS [OPTION…]`` takes the options of
``firstseen worker`` after the number; it ends when its standard input does.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator

from streams.cli.main import main
from streams.cli.worker_launcher import end_when_orphaned
from streams.store.changelog import Changelog, LoggedBatch, Report

logger = logging.getLogger(__name__)

SECONDS = float(sys.argv[1])

_read = Changelog.read
_slept: set[int] = set()


def _slowly(
    self: Changelog, start: int, report: Report, lacks: Callable[[], str] = str
) -> Iterator[LoggedBatch]:
    if not _slept and threading.current_thread() is not threading.main_thread():
        _slept.add(self.partition)
        logger.warning("%s: sleeping before it is read", self)
        time.sleep(SECONDS)
    return _read(self, start, report, lacks)


if __name__ == "__main__":
    Changelog.read = _slowly  # type: ignore[method-assign]
    threading.Thread(target=end_when_orphaned, daemon=True).start()
    sys.exit(main(["worker", *sys.argv[2:]]))
