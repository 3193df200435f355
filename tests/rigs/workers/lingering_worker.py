"""A worker that lingers for some seconds before it ends, so that it can be looked at meanwhile.

``python -m tests.rigs.workers.lingering_worker [OPTION…]`` takes the options of ``firstseen
worker``; it ends when its standard input does.
"""

from __future__ import annotations

import sys
import threading
import time

from streams.cli.main import main
from streams.cli.worker_launcher import end_when_orphaned
from streams.worker.process import _Worker

SECONDS = 5.0

_shut_down = _Worker.on_worker_shutdown


def _lingering(self: _Worker) -> None:
    time.sleep(SECONDS)
    _shut_down(self)


if __name__ == "__main__":
    _Worker.on_worker_shutdown = _lingering  # type: ignore[method-assign]
    threading.Thread(target=end_when_orphaned, daemon=True).start()
    sys.exit(main(["worker", *sys.argv[1:]]))
