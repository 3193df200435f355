"""CPU time of processes: a process with all that it has started."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_TICKS: Final = os.sysconf("SC_CLK_TCK")
# Fields of /proc/PID/stat behind the name, which may hold anything, brackets and spaces too.
_PARENT: Final = 1
_TIMES_OF_ENDED_CHILDREN: Final = slice(13, 15)
# The clock of another process, in nanoseconds, by clock_getcpuclockid(3): its number is made of the
# process's, and of what it counts. /proc/PID/stat has the same in hundredths of a second.
_PROCESS_SHIFT: Final = 3
_SCHEDULED: Final = 2


def cpu_seconds(process: int) -> float:
    """Return what a process and its descendants have used, user and system, in seconds.

    Those that have ended count as long as their parent, which waited for them, is there.
    """
    seconds = 0.0
    for each, of_ended_children in _tree(process).items():
        seconds += of_ended_children
        with suppress(OSError):  # it has ended in between
            seconds += time.clock_gettime(~each << _PROCESS_SHIFT | _SCHEDULED)
    return seconds


def descendants(process: int) -> list[int]:
    return [each for each in _tree(process) if each != process]


def command_of(process: int) -> list[str]:
    """Return the command line of a process, empty for one that is gone."""
    try:
        return (_PROC / str(process) / "cmdline").read_text("utf-8", "replace").split("\0")[:-1]
    except OSError:
        return []


def _tree(root: int) -> dict[int, float]:
    """Return a process and its descendants, each with the seconds of its ended children."""
    parents: dict[int, int] = {}
    seconds: dict[int, float] = {}
    for path in _PROC.glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended in between
            fields = path.read_text("utf-8", "replace").rpartition(")")[2].split()
            number = int(path.parent.name)
            parents[number] = int(fields[_PARENT])
            seconds[number] = sum(map(int, fields[_TIMES_OF_ENDED_CHILDREN])) / _TICKS
    tree = [root] if root in seconds else []
    for number in tree:  # grows while it is read
        tree += [child for child, parent in parents.items() if parent == number]
    return {number: seconds[number] for number in tree}
