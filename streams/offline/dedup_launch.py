"""From a command to a run that is ready to go: everything opened and checked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from simhash_core.errors import UsageError
from simhash_core.text.fingerprinter import Fingerprinter
from simhash_core.text.profiles import Profile
from streams.offline.dedup_inputs import DedupInputs
from streams.offline.dedup_outputs import (
    check_can_be_continued,
    check_new,
    close_outputs,
    open_outputs,
    output_paths,
)
from streams.offline.dedup_progress import Kind, RunProgress, decode_run
from streams.offline.dedup_runs import abandon, check_same_command, new_run, skip_done
from streams.offline.fingerprint_pool import jobs_for, prepared_by, started_pool
from streams.offline.local_dedup import LocalDedup, begin, topic_of
from streams.offline.local_index import open_local_index
from streams.settings.settings import Settings


class DedupRequest(NamedTuple):
    """What a user wants; an output that is None goes to its default place."""

    files: Sequence[str]
    outputs: Mapping[Kind, str | None]
    state: Path | None = None
    abandon: bool = False
    force: bool = False
    jobs: int | None = 1
    """Processes that make fingerprints; None: one a core, where the input is worth it."""


class Launched(NamedTuple):
    """A run that is ready: ``dedup.run(inputs)`` does it.

    ``resumed_after``: lines done before an interruption, None for a new run; ``documents_before``:
    documents decided in them.
    """

    dedup: LocalDedup
    inputs: DedupInputs
    identity: str
    resumed_after: int | None
    documents_before: int


@contextmanager
def launched(
    settings: Settings,
    request: DedupRequest,
    fingerprinter_of: Callable[[Profile], Fingerprinter] = Fingerprinter,
) -> Iterator[Launched]:
    """Open input, index and outputs, and continue an interrupted run; close all of them at the end.

    ``fingerprinter_of`` makes the fingerprinter: one that remembers, for runs over the same texts.
    Raises ``UsageError``, ``IndexMismatchError``, ``InterruptedRunError``, ``OutputFileError``,
    and what the store raises.
    """
    paths = output_paths(request.files, request.outputs)
    if request.state is None:
        if request.abandon:
            raise UsageError(
                "--abandon discards an interrupted run of a state: name it with --state"
            )
        if not request.force:
            check_new(paths)
    else:
        check_can_be_continued(paths)
    with ExitStack() as opened:
        inputs = opened.enter_context(closing(DedupInputs(request.files, settings)))
        jobs = jobs_for(request.jobs, inputs.total_bytes)
        pool = opened.enter_context(started_pool(settings, jobs))
        fingerprinter = fingerprinter_of(settings.index_profile())
        store = opened.enter_context(
            open_local_index(
                settings, fingerprinter.identity, fingerprinter.scheme.bits, request.state
            )
        )
        stored = store.progress()
        previous = None if stored is None else decode_run(stored.run)
        run = _run_to_do(previous, inputs, paths, request)
        resumed = run is previous
        if not resumed:
            begin(store, run)
        outputs = open_outputs(run, with_state=request.state is not None)
        opened.callback(close_outputs, outputs.values())
        prepare = prepared_by(
            settings, fingerprinter, pool, jobs, lambda batch: topic_of(run, batch.file)
        )
        dedup = LocalDedup(settings, fingerprinter, store, run, outputs, prepare)
        done = run.all_lines if resumed else None
        yield Launched(dedup, inputs, fingerprinter.identity, done, run.documents)


def _run_to_do(
    previous: RunProgress | None,
    inputs: DedupInputs,
    paths: Mapping[Kind, Path],
    request: DedupRequest,
) -> RunProgress:
    """Return the run to do: ``previous`` itself, its lines skipped, or a new one."""
    if request.state is None:
        return new_run(0, inputs.names, paths)
    if previous is not None and not previous.finished and not request.abandon:
        check_same_command(previous, inputs.names, paths)
        skip_done(inputs, previous)
        return previous
    if not request.force:
        check_new(paths, previous)
    if previous is not None and not previous.finished:
        abandon(previous)
    return new_run(previous.run + 1 if previous else 1, inputs.names, paths)
