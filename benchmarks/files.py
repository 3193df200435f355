"""``firstseen dedup``, datasketch and rensa on one file: documents per second and quality.

Times are those of whole processes, by the clock and as CPU time of all cores; they are medians of
the rounds. The peers use one core; ``firstseen`` runs with one job and with two.

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
from typing import Final

from benchmarks.command import add_number, errors_reported, new_parser, output_of
from benchmarks.peers.environment import peers_python
from benchmarks.report import Figures, publish
from streams.corpus.corpus import generate

_DOCUMENTS: Final = 10_000
_SEED: Final = 7
_THRESHOLD: Final = 0.5
"""The threshold of the peers: half of the 5-grams in common, as in the profile ``wide``."""
_ROUNDS: Final = 3
_JOBS: Final = (1, 2)
_PROFILES: Final = ("wide", "quick")
_SET_CHILD_SUBREAPER: Final = 36
_PEERS: Final = ("datasketch", "rensa")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = new_parser("benchmarks.files", __doc__)
    add_number(parser, "--documents", _DOCUMENTS, "documents in the file")
    add_number(parser, "--rounds", _ROUNDS, "rounds of each variant")
    options = parser.parse_args(arguments)
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1)
    with tempfile.TemporaryDirectory(prefix="firstseen-") as directory, errors_reported():
        file = Path(directory, "documents.jsonl")
        roots = write_documents(file, options.documents)
        # An installed package has bytecode, but a checkout may not have it.
        os.environ["PYTHONPYCACHEPREFIX"] = str(Path(directory, "bytecode"))
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        contenders: list[Callable[[], Figures]] = [
            partial(_firstseen, file, roots, profile, jobs)
            for profile in _PROFILES
            for jobs in _JOBS
        ]
        contenders += [partial(_peer, name, file, roots) for name in _PEERS]
        for once in contenders:
            once()  # writes the bytecode
        rounds = [[once() for once in contenders] for _ in range(options.rounds)]
    figures = [_median(each) for each in zip(*rounds, strict=True)]
    publish(figures, options.json)


def write_documents(path: Path, count: int) -> list[int]:
    """Write ``count`` documents, one per line; return each one's root, or its own number."""
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


def _median(runs: Sequence[Figures]) -> Figures:
    """Return a run with the medians of the times; the quality of all runs is the same."""
    names = ("documents_per_second", "seconds", "cpu_seconds")
    return runs[0] | {name: statistics.median(run[name] for run in runs) for name in names}


def _firstseen(file: Path, roots: Sequence[int], profile: str, jobs: int) -> Figures:
    duplicates = file.with_name("duplicates")
    command = [sys.executable, "-m", "streams.cli.main", "dedup", str(file), "--force"]
    command += ["--jobs", str(jobs), "--profile", profile, "--duplicates", str(duplicates)]
    for kind in ("unique", "dead-letters"):
        command += [f"--{kind}", str(file.with_name(kind))]

    def originals(_output: bytes) -> list[int]:
        found = list(range(len(roots)))
        for line in duplicates.read_bytes().splitlines():
            record = json.loads(line)
            found[record["source"]["offset"]] = record["original"]["source"]["offset"]
        return found

    jobs_shown = "1 process" if jobs == 1 else f"--jobs {jobs}"
    return _measured(f"firstseen, {profile}, {jobs_shown}", command, roots, originals)


def _peer(name: str, file: Path, roots: Sequence[int]) -> Figures:
    command = [str(peers_python()), "-m", "benchmarks.quality.peer", name, str(file)]
    command.append(str(_THRESHOLD))
    return _measured(name, command, roots, lambda output: json.loads(output)[0]["originals"])


def _measured(
    name: str,
    command: Sequence[str],
    roots: Sequence[int],
    originals_of: Callable[[bytes], Sequence[int]],
) -> Figures:
    """Run a command; return its seconds, its CPU seconds, and the quality of its decisions.

    ``recall`` is the share of copies that were joined with their original or another copy of it.
    ``precision`` is the share of right joins. Roots and originals are numbers of documents.
    """
    before, began = _cpu_seconds(), time.perf_counter()
    output = output_of(command)
    seconds = time.perf_counter() - began
    # Processes that a command left running are now children of this one; they count when they end.
    with suppress(ChildProcessError):
        while True:
            os.wait()
    cpu_seconds = _cpu_seconds() - before
    originals = originals_of(output)
    copies = sum(root != number for number, root in enumerate(roots))
    joined = [number for number, original in enumerate(originals) if original != number]
    right = [number for number in joined if roots[number] == roots[originals[number]]]
    caught = sum(roots[number] != number for number in right)
    return {
        "name": name,
        "documents_per_second": len(roots) / seconds,
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "recall": caught / max(1, copies),
        "precision": len(right) / max(1, len(joined)),
    }


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
