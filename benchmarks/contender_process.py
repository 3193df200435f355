"""One contender in a process of its own, which works when it is its turn.

Run as a program it is the contender: ``python -m benchmarks.contender_process MODULE VARIANT``. It
reads the documents as one line of JSON, does the work once to warm up, and then once more for each
line that comes, on one processor. Each time it answers with the processor's time and the time of
the clock, in seconds, as a line of JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Final, NamedTuple, Self

ROOT: Final = Path(__file__).resolve().parents[1]

_TURN_SECONDS: Final = 120.0
_END_SECONDS: Final = 10.0
# Whatever array library a contender uses: one thread.
_ONE_THREAD: Final = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"
)


class Turn(NamedTuple):
    """The time of one turn, in seconds: of the processor, and of the clock."""

    cpu: float
    wall: float


class ContenderError(Exception):
    """A contender has failed, or takes too long."""


class ContenderProcess:
    """A contender as a context manager: started and warmed up, ended at the end of the block."""

    def __init__(self, python: Path, module: str, variant: str, texts: Sequence[str]) -> None:
        """``module`` is one of ``benchmarks.contenders``, for the interpreter ``python``."""
        self.name = f"{module} {variant}".strip()
        self._command = [str(python), "-m", "benchmarks.contender_process", module, variant]
        self._texts = texts
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        """Start it, and wait until it is warm; raises ``ContenderError``."""
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            cwd=ROOT,
            env={**os.environ, **_ONE_THREAD},
        )
        (done,) = self._ask(json.dumps(self._texts))
        if done != len(self._texts):
            self._end()
            raise ContenderError(f"{self.name} did {done:.0f} of {len(self._texts)} documents")
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        self._end()

    def turn(self) -> Turn:
        """Let it do its work once; raises ``ContenderError``."""
        cpu, wall = self._ask("again")
        return Turn(cpu, wall)

    def _ask(self, line: str) -> list[float]:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        watchdog = threading.Timer(_TURN_SECONDS, process.kill)
        watchdog.start()
        try:
            process.stdin.write(line + "\n")
            process.stdin.flush()
            answer = process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        finally:
            watchdog.cancel()
        if not answer:
            self._end()
            raise ContenderError(
                f"{self.name} has died, or took more than {_TURN_SECONDS:g} s for its turn"
            )
        numbers: list[float] = json.loads(answer)
        return numbers

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.communicate(timeout=_END_SECONDS)


def main(module: str, variant: str) -> None:
    """Be the contender until standard input ends."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    work = import_module(f"benchmarks.contenders.{module}").load(variant)
    texts = json.loads(sys.stdin.readline())
    print(json.dumps([work(texts)]), flush=True)
    for _ in sys.stdin:
        wall, cpu = time.perf_counter(), time.process_time()
        work(texts)
        turn = Turn(time.process_time() - cpu, time.perf_counter() - wall)
        print(json.dumps(turn), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
