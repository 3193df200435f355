"""One pass of a file through the deduplicator of ``firstseen dedup``, and what it decided.

Nothing of it is done otherwise here: the same launch, the same batches, the same records of
duplicates, read back from a temporary file.
"""

from __future__ import annotations

import os
import tempfile
import time
from array import array
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from simhash_core.text.fingerprinter import Fingerprinter
from simhash_core.text.profiles import Profile
from streams.offline.dedup_inputs import DedupInputs
from streams.offline.dedup_launch import DedupRequest, Launched, launched
from streams.offline.dedup_progress import RunProgress
from streams.offline.evaluation.labelled_files import LabelledDocuments
from streams.settings.settings import Settings

Watch = Callable[[DedupInputs, RunProgress], None]
"""Told of each commit of a pass."""


class Decided(NamedTuple):
    """What a pass decided, by the numbers of documents.

    ``originals``: of each document its original, itself where it is unique. ``distances``: of each
    duplicate, in bits. ``counts``: documents by verdict name. Seconds are those of the pass alone:
    of the clock, and of the processor.
    """

    originals: array[int]
    distances: Mapping[int, int]
    counts: Mapping[str, int]
    identity: str
    seconds: float
    cpu_seconds: float


class _Source(msgspec.Struct):
    offset: int


class _Original(msgspec.Struct):
    source: _Source


class _DuplicateRecord(msgspec.Struct):
    """What is read of a record of a duplicate."""

    source: _Source
    original: _Original
    distance: int


def decide(
    file: str,
    settings: Settings,
    documents: LabelledDocuments,
    fingerprinter_of: Callable[[Profile], Fingerprinter] = Fingerprinter,
    watch: Watch | None = None,
) -> Decided:
    """Let the deduplicator decide the documents of ``file``, in their order.

    ``settings`` are those with which ``documents`` were read, so that there are no dead letters.
    Raises what ``launched`` raises.
    """
    with tempfile.TemporaryDirectory(prefix="firstseen-") as directory:
        duplicates = Path(directory, "duplicates.jsonl")
        outputs = {"unique": os.devnull, "duplicates": str(duplicates), "dead_letters": os.devnull}
        request = DedupRequest([file], outputs, force=True)  # type: ignore[arg-type] # keys are kinds
        with launched(settings, request, fingerprinter_of) as run:
            clock, cpu = time.perf_counter(), time.process_time()
            _run(run, watch)
            seconds, cpu_seconds = time.perf_counter() - clock, time.process_time() - cpu
            counts, identity = run.dedup.progress.counts, run.identity
        originals = array("q", range(len(documents.ids)))
        distances = {}
        for record in _records(duplicates):
            number = documents.by_line[record.source.offset]
            originals[number] = documents.by_line[record.original.source.offset]
            distances[number] = record.distance
    return Decided(originals, distances, counts, identity, seconds, cpu_seconds)


def _run(run: Launched, watch: Watch | None) -> None:
    for progress in run.dedup.run(run.inputs):
        if watch is not None:
            watch(run.inputs, progress)


def _records(path: Path) -> Iterator[_DuplicateRecord]:
    decode = msgspec.json.Decoder(_DuplicateRecord).decode
    with path.open("rb") as lines:
        for line in lines:
            yield decode(line)
