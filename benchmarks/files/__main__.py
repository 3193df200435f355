"""``firstseen dedup`` beside datasketch and rensa on one file: documents a second and quality.

::

    python -m benchmarks.files [--documents N] [--rounds N]

Times are of whole processes, their start included: seconds of the clock, and of all processors,
medians of the rounds, in each of which all run in turn. The peers use one core; ``firstseen`` is
run with one process and with two beside the first, with the default profile and with ``quick``.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from benchmarks.files.truth import Quality, quality_of, write_documents
from benchmarks.peers.environment import ROOT, peers_python
from streams.terminal.layout import show, table

_DOCUMENTS = 10_000
_THRESHOLD = 0.5
"""Of the peers: half of the 5-grams in common, as ``wide`` has it."""
_ROUNDS = 3
_JOBS = (1, 2)
_PROFILES = ("wide", "quick")
_SET_CHILD_SUBREAPER = 36
_PEERS = ("datasketch", "rensa")


class Run(NamedTuple):
    """One run; seconds of the clock and of all processors."""

    name: str
    seconds: float
    cpu_seconds: float
    quality: Quality


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what the command line asks for, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.files")
    parser.add_argument("--documents", type=int, default=_DOCUMENTS)
    parser.add_argument("--rounds", type=int, default=_ROUNDS)
    options = parser.parse_args(arguments)
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1)
    with tempfile.TemporaryDirectory(prefix="firstseen-") as directory:
        file = Path(directory, "documents.jsonl")
        roots = write_documents(file, options.documents)
        # Whoever installs a package has its bytecode; a checkout may not.
        os.environ["PYTHONPYCACHEPREFIX"] = str(Path(directory, "bytecode"))
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        contenders: list[Callable[[], Run]] = [
            partial(_firstseen, file, roots, profile, jobs)
            for profile in _PROFILES
            for jobs in _JOBS
        ]
        contenders += [partial(_peer, name, file, roots) for name in _PEERS]
        for once in contenders:
            once()  # makes the bytecode
        rounds = [[once() for once in contenders] for _ in range(options.rounds)]
        runs = [_median(each) for each in zip(*rounds, strict=True)]
    head = ("", "documents/s", "seconds", "processor s", "recall", "precision")
    rows = [
        (
            run.name,
            f"{options.documents / run.seconds:,.0f}",
            f"{run.seconds:.1f}",
            f"{run.cpu_seconds:.1f}",
            f"{run.quality.recall:.3f}",
            f"{run.quality.precision:.3f}",
        )
        for run in runs
    ]
    show([f"{options.documents:,} generated documents, {os.cpu_count()} cores"])
    show([table([head, *rows], "<>>>>>", "  ")])


def _median(runs: Sequence[Run]) -> Run:
    """Return one run with the medians of the times of several; the quality is that of each."""
    return runs[0]._replace(
        seconds=statistics.median(run.seconds for run in runs),
        cpu_seconds=statistics.median(run.cpu_seconds for run in runs),
    )


def _firstseen(file: Path, roots: Sequence[int], profile: str, jobs: int) -> Run:
    outputs = {kind: file.with_name(kind) for kind in ("unique", "duplicates", "dead-letters")}
    command = [sys.executable, "-m", "streams.cli.main", "dedup", str(file), "--force"]
    command += ["--jobs", str(jobs), "--profile", profile]
    for kind, path in outputs.items():
        command += [f"--{kind}", str(path)]
    seconds, cpu_seconds, _ = _timed(command)
    originals = list(range(len(roots)))
    for line in outputs["duplicates"].read_bytes().splitlines():
        record = json.loads(line)
        originals[record["source"]["offset"]] = record["original"]["source"]["offset"]
    jobs_shown = "1 process" if jobs == 1 else f"--jobs {jobs}"
    return Run(
        f"firstseen, {profile}, {jobs_shown}", seconds, cpu_seconds, quality_of(roots, originals)
    )


def _peer(name: str, file: Path, roots: Sequence[int]) -> Run:
    command = [str(peers_python()), "-m", "benchmarks.quality.peer", name, str(file)]
    seconds, cpu_seconds, output = _timed([*command, str(_THRESHOLD)])
    (run,) = json.loads(output)
    return Run(name, seconds, cpu_seconds, quality_of(roots, run["originals"]))


def _timed(command: Sequence[str]) -> tuple[float, float, bytes]:
    """Run a command; return its seconds, those of the processors, and what it printed."""
    before, began = _cpu_seconds(), time.perf_counter()
    run = subprocess.run(command, check=True, capture_output=True, cwd=ROOT)
    seconds = time.perf_counter() - began
    # What a command leaves behind is this process's child now, and counts once it has ended.
    with suppress(ChildProcessError):
        while True:
            os.wait()
    return seconds, _cpu_seconds() - before, run.stdout


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
