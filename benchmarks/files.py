"""``firstseen dedup`` beside datasketch and rensa on one file: documents a second and quality.

Times are of whole processes, their start included: seconds of the clock, and of all processors,
medians of the rounds, in each of which all run in turn. The peers use one core; ``firstseen`` is
run with one process and with two beside the first, with the default profile and with ``quick``.

    python -m benchmarks.files [--documents N] [--rounds N] [--json FILE]
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.command import add_rounds, errors_told, new_parser, output_of, positive
from benchmarks.peers.environment import peers_python
from benchmarks.report import new_table, publish
from streams.corpus.corpus import generate

_DOCUMENTS: Final = 10_000
_SEED: Final = 7
_THRESHOLD: Final = 0.5
"""Of the peers: half of the 5-grams in common, as ``wide`` has it."""
_ROUNDS: Final = 3
_JOBS: Final = (1, 2)
_PROFILES: Final = ("wide", "quick")
_SET_CHILD_SUBREAPER: Final = 36
_PEERS: Final = ("datasketch", "rensa")


class Run(NamedTuple):
    """One run; seconds of the clock and of all processors.

    ``recall``: of copies, how many were joined with an original of theirs. ``precision``: of all
    that were joined with something.
    """

    name: str
    seconds: float
    cpu_seconds: float
    recall: float
    precision: float


def main(arguments: Sequence[str] | None = None) -> None:
    parser = new_parser("benchmarks.files", __doc__)
    parser.add_argument("--documents", type=positive, default=_DOCUMENTS)
    add_rounds(parser, _ROUNDS)
    options = parser.parse_args(arguments)
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1)
    with tempfile.TemporaryDirectory(prefix="firstseen-") as directory, errors_told():
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
    table = new_table(
        f"{options.documents:,} generated documents, {os.cpu_count()} cores",
        ("", "documents/s", "seconds", "processor s", "recall", "precision"),
        (
            (
                run.name,
                f"{options.documents / run.seconds:,.0f}",
                f"{run.seconds:.1f}",
                f"{run.cpu_seconds:.1f}",
                f"{run.recall:.3f}",
                f"{run.precision:.3f}",
            )
            for run in runs
        ),
    )
    publish([run._asdict() for run in runs], [table], options.json)


def write_documents(path: Path, count: int) -> list[int]:
    """Write ``count`` documents, a line each; return the number of each one's root, or its own.

    Articles, their copies and short posts; what is no document is left out.
    """
    roots: list[int] = []
    number_of: dict[str, int] = {}
    with path.open("wb") as file:
        for record in generate(_SEED, 2 * count):
            if record.value is None or record.id is None or record.expected == "dead_letter":
                continue
            number_of[record.id] = len(roots)
            roots.append(len(roots) if record.root is None else number_of[record.root])
            line = {"id": record.id, "text": json.loads(record.value)["text"]}
            file.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")
            if len(roots) == count:
                break
    return roots


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
    name = f"firstseen, {profile}, {jobs_shown}"
    return Run(name, seconds, cpu_seconds, *_quality(roots, originals))


def _peer(name: str, file: Path, roots: Sequence[int]) -> Run:
    command = [str(peers_python()), "-m", "benchmarks.quality.peer", name, str(file)]
    seconds, cpu_seconds, output = _timed([*command, str(_THRESHOLD)])
    (run,) = json.loads(output)
    return Run(name, seconds, cpu_seconds, *_quality(roots, run["originals"]))


def _quality(roots: Sequence[int], originals: Sequence[int]) -> tuple[float, float]:
    """Return recall and precision of what was decided; both arguments are numbers of documents."""
    copies = [number for number, root in enumerate(roots) if root != number]
    joined = [number for number, original in enumerate(originals) if original != number]
    right = sum(roots[number] == roots[originals[number]] for number in joined)
    caught = sum(originals[n] != n and roots[n] == roots[originals[n]] for n in copies)
    return caught / max(1, len(copies)), right / max(1, len(joined))


def _timed(command: Sequence[str]) -> tuple[float, float, bytes]:
    """Run a command; return its seconds, those of the processors, and what it printed."""
    before, began = _cpu_seconds(), time.perf_counter()
    output = output_of(command)
    seconds = time.perf_counter() - began
    # What a command leaves behind is this process's child now, and counts once it has ended.
    with suppress(ChildProcessError):
        while True:
            os.wait()
    return seconds, _cpu_seconds() - before, output


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
