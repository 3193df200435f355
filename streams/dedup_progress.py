r"""How far a run of ``firstseen dedup`` has come, kept in the same commit as the index.

A *run* is one pass over one file. Its progress is what ``Progress.received`` of the state's only
shard holds under names that begin with ``dedup/``, whole numbers all of them::

    dedup/run                       number of the run in this state, from 1
    dedup/finished                  1 when the file has been read to its end, else 0
    dedup/lines                     lines done
    dedup/lines_xxh3                XXH3-64 of those lines, each ended by \n
    dedup/input/<name>              0: the name of the file, without its directory
    dedup/output/<kind>/<path>      bytes of that output at this commit; kind: unique, duplicates
                                    or dead_letters; path: absolute, percent-encoded
    dedup/count/<name>              a count so far: see ``BLANK``

Names of senders begin with ``raw/`` or ``shard/``, so the two never meet.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal
from urllib.parse import quote_from_bytes, unquote_to_bytes

import msgspec

from simhash_core.entries import Progress
from simhash_core.verdicts import VERDICT_NAMES

Kind = Literal["unique", "duplicates", "dead_letters"]
KINDS: Final[tuple[Kind, ...]] = ("unique", "duplicates", "dead_letters")
"""The outputs of a run."""

BLANK: Final = "blank"
DEAD_LETTER: Final = "dead_letter/"
"""Counts of a run: ``blank`` lines, verdicts by ``VERDICT_NAMES``, ``dead_letter/<reason>``."""

_PREFIX: Final = "dedup/"
_RUN: Final = "dedup/run"
_FINISHED: Final = "dedup/finished"
_LINES: Final = "dedup/lines"
_DIGEST: Final = "dedup/lines_xxh3"
_INPUT: Final = "dedup/input/"
_OUTPUT: Final = "dedup/output/"
_COUNT: Final = "dedup/count/"


class OutputState(msgspec.Struct, frozen=True):
    """One output of a run: where it is, and its length in bytes at the last commit."""

    path: Path
    length: int = 0


class RunProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a run has come: see the names above. ``run`` is 0 where there is no state."""

    run: int
    input_name: str
    outputs: Mapping[Kind, OutputState]
    finished: bool = False
    lines: int = 0
    digest: int = 0
    counts: Mapping[str, int] = {}

    @property
    def documents(self) -> int:
        """How many documents have been decided."""
        return sum(self.counts.get(name, 0) for name in VERDICT_NAMES)


def with_run(progress: Progress, run: RunProgress) -> Progress:
    """Return a shard's progress with that of the run in it, in place of any earlier one."""
    received = {k: v for k, v in progress.received.items() if not k.startswith(_PREFIX)}
    return msgspec.structs.replace(progress, received=received | _numbers(run))


def run_in(progress: Progress) -> RunProgress | None:
    """Return the run that a shard's progress holds, None where there was none yet."""
    received = progress.received
    if _RUN not in received:
        return None
    outputs = {
        kind: OutputState(Path(os.fsdecode(unquote_to_bytes(path))), length)
        for kind in KINDS
        for path, length in _under(f"{_OUTPUT}{kind}/", received).items()
    }
    return RunProgress(
        run=received[_RUN],
        input_name=next(iter(_under(_INPUT, received)), ""),
        outputs=outputs,
        finished=received[_FINISHED] == 1,
        lines=received[_LINES],
        digest=received[_DIGEST],
        counts=_under(_COUNT, received),
    )


def _numbers(run: RunProgress) -> dict[str, int]:
    return {
        _RUN: run.run,
        _FINISHED: int(run.finished),
        _LINES: run.lines,
        _DIGEST: run.digest,
        _INPUT + run.input_name: 0,
        **{
            f"{_OUTPUT}{kind}/{quote_from_bytes(os.fsencode(output.path))}": output.length
            for kind, output in run.outputs.items()
        },
        **{_COUNT + name: count for name, count in run.counts.items()},
    }


def _under(prefix: str, received: Mapping[str, int]) -> dict[str, int]:
    return {k.removeprefix(prefix): v for k, v in received.items() if k.startswith(prefix)}
