"""How far a run of ``firstseen dedup`` has come, kept in the same commit as the index.

A *run* is one pass over some files. Its progress stands in ``StoredProgress.run`` as JSON::

    run            number of the run in this state, from 1
    finished       whether all files have been read to their ends
    inputs         the names of the files
    file           the number of the file that is being read, from 0
    lines          lines done of it
    lines_xxh3     XXH3-64 of those lines, each ended by a line feed
    lines_before   lines of the files before it
    outputs        by kind (unique, duplicates, dead_letters): "path", absolute and percent-encoded,
                   and "bytes", its length at this commit
    counts         counts so far by name: see ``BLANK``
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal
from urllib.parse import quote_from_bytes, unquote_to_bytes

import msgspec

from simhash_core.verdicts import VERDICT_NAMES

Kind = Literal["unique", "duplicates", "dead_letters"]
KINDS: Final[tuple[Kind, ...]] = ("unique", "duplicates", "dead_letters")
"""The outputs of a run."""

BLANK: Final = "blank"
DEAD_LETTER: Final = "dead_letter/"
"""Counts of a run: ``blank`` lines, verdicts by ``VERDICT_NAMES``, ``dead_letter/<reason>``."""


class OutputState(msgspec.Struct, frozen=True):
    """One output of a run: where it is, and its length in bytes at the last commit."""

    path: Path
    length: int = 0


class RunProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a run has come: see the names above. ``run`` is 0 where there is no state."""

    run: int
    inputs: tuple[str, ...]
    outputs: Mapping[Kind, OutputState]
    finished: bool = False
    file: int = 0
    lines: int = 0
    digest: int = 0
    lines_before: int = 0
    counts: Mapping[str, int] = {}

    @property
    def all_lines(self) -> int:
        """How many lines have been done, of all files."""
        return self.lines_before + self.lines

    @property
    def documents(self) -> int:
        """How many documents have been decided."""
        return sum(self.counts.get(name, 0) for name in VERDICT_NAMES)


class _StoredOutput(msgspec.Struct, frozen=True, rename={"length": "bytes"}):
    path: str
    length: int


class _StoredRun(msgspec.Struct, frozen=True, kw_only=True, rename={"digest": "lines_xxh3"}):
    """A run as it is stored; the order of the fields is that of the JSON."""

    run: int
    finished: bool
    inputs: tuple[str, ...]
    file: int
    lines: int
    digest: int
    lines_before: int
    outputs: dict[Kind, _StoredOutput]
    counts: dict[str, int]


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_StoredRun).decode


def encode_run(run: RunProgress) -> bytes:
    """Return a run as it is stored."""
    outputs = {
        kind: _StoredOutput(quote_from_bytes(os.fsencode(output.path)), output.length)
        for kind, output in run.outputs.items()
    }
    return _encode(
        _StoredRun(
            run=run.run,
            finished=run.finished,
            inputs=run.inputs,
            file=run.file,
            lines=run.lines,
            digest=run.digest,
            lines_before=run.lines_before,
            outputs=outputs,
            counts=dict(run.counts),
        )
    )


def decode_run(stored: bytes) -> RunProgress | None:
    """Return the run that is stored, None where there was none yet.

    Raises ``msgspec.DecodeError`` for what is no run.
    """
    if not stored:
        return None
    run = _decode(stored)
    return RunProgress(
        run=run.run,
        inputs=run.inputs,
        outputs={
            kind: OutputState(Path(os.fsdecode(unquote_to_bytes(output.path))), output.length)
            for kind, output in run.outputs.items()
        },
        finished=run.finished,
        file=run.file,
        lines=run.lines,
        digest=run.digest,
        lines_before=run.lines_before,
        counts=run.counts,
    )
