"""CPU time of a process together with all its descendants."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_TICKS: Final = os.sysconf("SC_CLK_TCK")
# Fields of /proc/PID/stat after the name, which may contain any characters.
_PARENT: Final = 1
_TIMES_OF_ENDED_CHILDREN: Final = slice(13, 15)
# The CPU clock of another process, in nanoseconds (clock_getcpuclockid(3)): its id is computed from
# the process id and the kind of the clock. /proc/PID/stat has only hundredths of a second.
_PROCESS_SHIFT: Final = 3
_SCHEDULED: Final = 2


def cpu_seconds(process: int) -> float:
    """Return the CPU time of a process and its descendants, user and system, in seconds.

    A descendant that has ended counts as long as the parent that waited for it exists.
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
    """Return the command line of a process, empty if the process has ended."""
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
    for number in tree:  # the loop adds to it
        tree += [child for child, parent in parents.items() if parent == number]
    return {number: seconds[number] for number in tree}
