"""Measures the process itself: seconds of its blocks, its memory, its files."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

_BYTES_OF_KB = 1024


class Stopwatch:
    """A context manager that measures the seconds of its blocks.

    By default it measures the CPU time of the whole process.
    """

    def __init__(self, clock: Callable[[], float] = time.process_time) -> None:
        self._clock = clock
        self._begun = 0.0
        self.laps: list[float] = []

    def __enter__(self) -> None:
        self._begun = self._clock()

    def __exit__(self, *_: object) -> None:
        self.laps.append(self._clock() - self._begun)

    @property
    def seconds(self) -> float:
        return sum(self.laps)

    def us_each(self, documents: int) -> float:
        return self.seconds / documents * 1e6

    def laps_us(self, documents: int) -> list[float]:
        """Return the microseconds of each block, for each of its ``documents``."""
        return [lap / documents * 1e6 for lap in self.laps]


def memory_bytes(name: str) -> int:
    """Return a line of ``/proc/self/status``, such as ``VmRSS``."""
    lines = Path("/proc/self/status").read_text("ascii").splitlines()
    return next(
        int(line.split()[1]) * _BYTES_OF_KB for line in lines if line.startswith(f"{name}:")
    )


def disk_bytes(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())
