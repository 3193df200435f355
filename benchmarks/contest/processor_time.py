"""The processor's time of processes: a process with all that it has started."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final, NamedTuple

_PROC: Final = Path("/proc")
_TICKS: Final = os.sysconf("SC_CLK_TCK")
# Fields of /proc/PID/stat behind the name, which may hold anything, brackets and spaces too.
_PARENT: Final = 1
_TIMES_OF_ENDED_CHILDREN: Final = slice(13, 15)
# The clock of another process, in nanoseconds, by clock_getcpuclockid(3): its number is made of the
# process's, and of what it counts. /proc/PID/stat has the same in hundredths of a second.
_PROCESS_SHIFT: Final = 3
_SCHEDULED: Final = 2


class _Process(NamedTuple):
    parent: int
    ended_children_seconds: float


def cpu_seconds(process: int) -> float:
    """Return what a process and its descendants have used, user and system, in seconds.

    Those that have ended count as long as their parent, which waited for them, is there.
    """
    processes = _processes()
    return sum(
        _own_seconds(each) + processes[each].ended_children_seconds
        for each in _tree(process, processes)
    )


def descendants(process: int) -> list[int]:
    return [each for each in _tree(process, _processes()) if each != process]


def command_of(process: int) -> list[str]:
    """Return the command line of a process, empty for one that is gone."""
    try:
        return (_PROC / str(process) / "cmdline").read_text("utf-8", "replace").split("\0")[:-1]
    except OSError:
        return []


def _own_seconds(process: int) -> float:
    try:
        return time.clock_gettime(~process << _PROCESS_SHIFT | _SCHEDULED)
    except OSError:  # It has ended in between.
        return 0.0


def _tree(root: int, processes: dict[int, _Process]) -> list[int]:
    children: dict[int, list[int]] = {}
    for number, each in processes.items():
        children.setdefault(each.parent, []).append(number)
    tree, left = list[int](), [root]
    while left:
        number = left.pop()
        if number in processes:
            tree.append(number)
            left += children.get(number, [])
    return tree


def _processes() -> dict[int, _Process]:
    processes = {}
    for path in _PROC.glob("[0-9]*/stat"):
        try:
            fields = path.read_text("utf-8", "replace").rpartition(")")[2].split()
        except OSError:  # It has ended in between.
            continue
        ticks = sum(map(int, fields[_TIMES_OF_ENDED_CHILDREN]))
        processes[int(path.parent.name)] = _Process(int(fields[_PARENT]), ticks / _TICKS)
    return processes
