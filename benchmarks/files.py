"""``firstseen dedup`` and other libraries on one file: documents per second and quality.

Times are those of whole processes, by the clock and as CPU time of all cores; they are medians of
the rounds. The peers use one core; ``firstseen`` runs with one job and with two.

    python -m benchmarks.files [--documents N] [--file FILE] [--contenders NAME...] [--rounds N]
        [--json FILE]

Documents are generated, and it is known which are copies, unless ``--file`` names JSON lines with a
text (``benchmarks.paragraphs`` writes some). Of these the copies are those for which any contender
has named an original with an exact Jaccard of 0.5 or more.
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
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.command import add_number, errors_reported, new_parser, output_of, say
from benchmarks.peers.environment import peers_python
from benchmarks.quality.peer import ALIKE, REPEATS
from benchmarks.report import Figures, machine, publish
from streams.corpus.corpus import generate
from streams.corpus.generated import BROKEN
from streams.evaluation.dedup_pass import exact_jaccards, named_by
from streams.evaluation.labelled_files import documents_again
from streams.settings.settings import Settings

_DOCUMENTS: Final = 10_000
_SEED: Final = 7
_THRESHOLD: Final = 0.5
"""The threshold of the peers: half of the 5-grams in common, as in the profile ``wide``."""
_ROUNDS: Final = 3
_WARM_UP: Final = 100
_SET_CHILD_SUBREAPER: Final = 36
_OURS: Final = {f"{p}_{jobs}": (p, jobs) for p in ("wide", "quick") for jobs in (1, 2)}
_PEERS: Final = ("rensa_one_shot", "rensa_keep", "rensa", "datasketch")


class Run(NamedTuple):
    """One contender's run; ``originals`` are as in ``benchmarks.quality.peer``."""

    originals: Sequence[int]
    seconds: float
    cpu_seconds: float


def main(arguments: Sequence[str] | None = None) -> None:
    parser = new_parser("benchmarks.files", __doc__)
    add_number(parser, "--documents", _DOCUMENTS, "generated documents in the file")
    parser.add_argument("--file", type=Path, help="a file of documents instead of generated ones")
    names = [*_OURS, *_PEERS]
    parser.add_argument("--contenders", nargs="+", choices=names, default=names)
    add_number(parser, "--rounds", _ROUNDS, "rounds of each contender")
    options = parser.parse_args(arguments)
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1)
    with tempfile.TemporaryDirectory(prefix="firstseen-") as directory, errors_reported():
        few = Path(directory, "few.jsonl")
        write_documents(few, _WARM_UP)
        # An installed package has bytecode, but a checkout may not have it.
        os.environ["PYTHONPYCACHEPREFIX"] = str(Path(directory, "bytecode"))
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        for name in options.contenders:
            run(name, few)  # writes the bytecode
        file, roots = options.file, None
        if file is None:
            file = Path(directory, "documents.jsonl")
            roots = write_documents(file, options.documents)
        runs: dict[str, list[Run]] = {name: [] for name in options.contenders}
        for _ in range(options.rounds):
            for name, of_name in runs.items():
                say(f"{name} …")
                of_name.append(run(name, file))
        decisions = [of_name[0].originals for of_name in runs.values()]
        judge = Judge.of_named(decisions, file) if roots is None else Judge.of_roots(roots)
        figures = [
            {"name": name, **_speed(of_name), **judge.quality(of_name[0].originals)}
            for name, of_name in runs.items()
        ]
    publish({"machine": machine(), "figures": figures}, options.json)


def _speed(runs: Sequence[Run]) -> Figures:
    seconds = statistics.median(each.seconds for each in runs)
    return {
        "documents_per_second": len(runs[0].originals) / seconds,
        "seconds": seconds,
        "cpu_seconds": statistics.median(each.cpu_seconds for each in runs),
    }


def write_documents(path: Path, count: int) -> list[int]:
    """Write ``count`` documents, one per line; return each one's root, or its own number."""
    roots: list[int] = []
    number_of: dict[str, int] = {}
    with path.open("wb") as file:
        for record in generate(_SEED, 2 * count):
            if record.value is None or record.id is None or record.kind in BROKEN:
                continue
            number_of[record.id] = len(roots)
            roots.append(len(roots) if record.root is None else number_of[record.root])
            line = {"id": record.id, "text": json.loads(record.value)["text"]}
            file.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")
            if len(roots) == count:
                break
    return roots


def run(name: str, file: Path) -> Run:
    if name in _OURS:
        return _firstseen(file, *_OURS[name])
    command = [str(peers_python()), "-m", "benchmarks.quality.peer", name, str(file)]
    command.append(str(_THRESHOLD))
    return _measured(command, lambda output: json.loads(output)[0]["originals"])


def _firstseen(file: Path, profile: str, jobs: int) -> Run:
    with tempfile.TemporaryDirectory(prefix="firstseen-") as directory:
        outputs = {kind: Path(directory, kind) for kind in ("unique", "duplicates", "dead-letters")}
        command = [sys.executable, "-m", "streams.cli.main", "dedup", str(file)]
        command += ["--jobs", str(jobs), "--profile", profile]
        for kind, path in outputs.items():
            command += [f"--{kind}", str(path)]

        def originals(_output: bytes) -> list[int]:
            with file.open("rb") as lines:
                originals = list(range(sum(1 for _ in lines)))
            with outputs["duplicates"].open("rb") as lines:
                for record in map(json.loads, lines):
                    originals[record["source"]["offset"]] = record["original"]["source"]["offset"]
            return originals

        return _measured(command, originals)


def _measured(command: Sequence[str], originals_of: Callable[[bytes], Sequence[int]]) -> Run:
    before, began = _cpu_seconds(), time.perf_counter()
    output = output_of(command)
    seconds = time.perf_counter() - began
    # Processes that a command left running are now children of this one; they count when they end.
    with suppress(ChildProcessError):
        while True:
            os.wait()
    return Run(originals_of(output), seconds, _cpu_seconds() - before)


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Judge(NamedTuple):
    """``copies`` repeat an earlier document; ``alike`` are these and what they repeat."""

    copies: set[int]
    alike: set[int]
    is_near: Callable[[int, int], bool]

    @classmethod
    def of_roots(cls, roots: Sequence[int]) -> Judge:
        copies = {number for number, root in enumerate(roots) if root != number}
        alike = copies | {roots[number] for number in copies}
        return cls(copies, alike, lambda a, b: roots[a] == roots[b])

    @classmethod
    def of_named(cls, decisions: Iterable[Sequence[int]], file: Path) -> Judge:
        named = {pair for each in decisions for pair in named_by(each) if pair[1] >= 0}
        jaccards = exact_jaccards(documents_again(str(file), Settings()), named)
        near = {pair for pair, jaccard in jaccards.items() if jaccard >= _THRESHOLD}
        copies = {number for number, _ in near}
        return cls(copies, copies | {of for _, of in near}, lambda a, b: (a, b) in near)

    def quality(self, originals: Sequence[int]) -> Figures:
        """Return the share of copies that were joined rightly, and the share of right joins."""
        joined = named_by(originals)
        right = {number for number, original in joined if self._is_right(number, original)}
        return {
            "joined": len(joined),
            "recall": len(self.copies & right) / max(1, len(self.copies)),
            "precision": len(right) / max(1, len(joined)),
        }

    def _is_right(self, number: int, original: int) -> bool:
        if original == REPEATS:
            return number in self.copies
        if original == ALIKE:
            return number in self.alike
        return self.is_near(number, original)


if __name__ == "__main__":
    main()
