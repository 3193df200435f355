"""Runs ``firstseen worker`` in this process, and ends it when standard input closes.

The parent starts ``python -m streams.cli.worker_launcher [OPTION…]`` with a pipe as standard input.
The pipe closes when the parent ends, even if it is killed, so a demo leaves no worker behind.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from typing import Final

from streams.cli.main import run

_STANDARD_INPUT: Final = 0
_STOP_SECONDS: Final = 5.0


def end_when_orphaned() -> None:
    # Not sys.stdin: this thread would hold its lock while the interpreter ends.
    while os.read(_STANDARD_INPUT, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_STOP_SECONDS)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    threading.Thread(target=end_when_orphaned, daemon=True).start()
    run(["worker", *sys.argv[1:]])
