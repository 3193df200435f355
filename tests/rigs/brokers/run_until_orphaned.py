"""Runs a command, and kills it when this process's standard input closes.

``python run_until_orphaned.py COMMAND ARGUMENT…`` gets a pipe as standard input. The pipe closes
when the parent ends in any way, so that a killed test run leaves no broker behind.
(Linux could do this with PR_SET_PDEATHSIG, but that fires when the *thread* that started the
process ends.) SIGTERM is left to the command, which gets it with the rest of the process group.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from types import FrameType

_STANDARD_INPUT = 0


def _leave_to_command(_number: int, _frame: FrameType | None) -> None:
    """Do nothing. This is a handler because the command would inherit SIG_IGN."""


def main() -> int:
    signal.signal(signal.SIGTERM, _leave_to_command)
    command = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)

    def kill_when_orphaned() -> None:
        # Not sys.stdin: this thread would hold its lock while the interpreter ends.
        while os.read(_STANDARD_INPUT, 1):
            pass
        command.kill()

    threading.Thread(target=kill_when_orphaned, daemon=True).start()
    code = command.wait()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
