"""A worker that trims the log within seconds, where others wait a minute.

``python -m tests.rigs.workers.trimming_worker [OPTION…]`` takes the options of ``firstseen
worker``; it ends when its standard input does.
"""

from __future__ import annotations

import sys
import threading

from streams.cli.main import main
from streams.cli.worker_launcher import end_when_orphaned
from streams.worker import decide

SECONDS = 1.0

if __name__ == "__main__":
    for name in ("_TRIM_SECONDS", "_POSITION_SECONDS"):
        assert name in vars(decide)
        vars(decide)[name] = SECONDS
    threading.Thread(target=end_when_orphaned, daemon=True).start()
    sys.exit(main(["worker", *sys.argv[1:]]))
