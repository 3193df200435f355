"""Fingerprints batches of lines, in this process or in a pool.

Batches come back in order, so verdicts do not depend on the number of processes.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from multiprocessing import forkserver, resource_tracker
from typing import Final, NamedTuple

from simhash_core.document_columns import DocumentColumns
from simhash_core.documents import Document
from simhash_core.errors import FirstseenError
from simhash_core.fingerprints.fingerprint import WORD_BITS
from simhash_core.log.columns import document_columns
from simhash_core.text.fingerprinter import Fingerprinter
from simhash_core.text.profiles import DEFAULT_PROFILE, profile_named
from streams.documents.raw_documents import DocumentReader
from streams.files.input_lines import Line
from streams.files.text_files import Refused, read_line
from streams.offline.dedup_files import Batch
from streams.settings.settings import Settings

_WORTH_A_POOL_BYTES: Final = 16 << 20
_DEFAULT_FINGERPRINTER: Final = "streams.offline.default_fingerprinter"
_SAFE_PATH: Final = "PYTHONSAFEPATH"  # as the option -P
_AHEAD: Final = 2  # batches that wait for each process, so that none is idle


class Prepared(NamedTuple):
    """The documents of a batch as columns, and its refused lines by their position in it."""

    columns: DocumentColumns
    refused: dict[int, Refused]


class WorkerLostError(FirstseenError):
    """A process of the pool was killed or ran out of memory."""


class Preparer:
    def __init__(self, settings: Settings, fingerprinter: Fingerprinter) -> None:
        self._reader = DocumentReader(settings.fields, settings.max_record_bytes)
        self._fingerprinter = fingerprinter

    def prepare(self, topic: str, lines: Iterable[Line]) -> Prepared:
        documents: list[Document] = []
        refused: dict[int, Refused] = {}
        for row, line in enumerate(lines):
            if line.is_blank:
                continue
            item = read_line(self._reader, topic, line)
            if isinstance(item, Document):
                documents.append(item)
            else:
                refused[row] = item
        prints = self._fingerprinter.fingerprint_batch([item.content for item in documents])
        words = self._fingerprinter.scheme.bits // WORD_BITS
        return Prepared(document_columns(documents, prints, words), refused)


@contextmanager
def started_pool(settings: Settings, jobs: int) -> Iterator[ProcessPoolExecutor | None]:
    """Start ``jobs`` processes in the background; yield None for one job (this process)."""
    if jobs == 1:
        yield None
        return
    # Do not fork here, because the index may have threads: fork a server that has loaded
    # everything.
    context = multiprocessing.get_context("forkserver")
    usual = settings.index_profile() == profile_named(DEFAULT_PROFILE)
    context.set_forkserver_preload([__name__, *([_DEFAULT_FINGERPRINTER] if usual else [])])
    _start_server()
    pool = ProcessPoolExecutor(jobs, context, _begin_process, (settings,))
    # A process starts with its first task, and submitting a task waits for the server.
    begin = threading.Thread(target=_begin_all, args=(pool, jobs), daemon=True)
    begin.start()
    try:
        yield pool
    finally:
        begin.join()
        pool.shutdown(wait=True, cancel_futures=True)


def _start_server() -> None:
    """Start the server that forks; Ctrl-C in a terminal reaches it, and would end it with an error.

    It ignores SIGINT itself, but only after it has loaded everything. It would also import the
    Python files of the current folder, which may be anyone's.
    """
    safe_path = os.environ.get(_SAFE_PATH)
    os.environ[_SAFE_PATH] = "1"
    try:
        resource_tracker.ensure_running()  # it blocks SIGINT too, and then unblocks it here
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            forkserver.ensure_running()  # inherits the mask
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
    finally:
        if safe_path is None:
            del os.environ[_SAFE_PATH]
        else:
            os.environ[_SAFE_PATH] = safe_path


def _begin_all(pool: ProcessPoolExecutor, jobs: int) -> None:
    # Submitting a batch raises it again. The server may have ended too, as by SIGTERM to all.
    with suppress(BrokenProcessPool, RuntimeError, EOFError, OSError):
        for _ in range(jobs):
            pool.submit(os.getpid)  # any task


def jobs_for(jobs: int | None, total_bytes: int | None) -> int:
    """Return ``jobs``, or one for each usable core; 1 for small inputs, as starting is slow."""
    if jobs is not None:
        return jobs
    if total_bytes is not None and total_bytes < _WORTH_A_POOL_BYTES:
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def prepared_batches(
    settings: Settings,
    fingerprinter: Fingerprinter,
    pool: ProcessPoolExecutor | None,
    jobs: int,
    batches: Iterable[Batch],
) -> Iterator[tuple[Batch, Prepared]]:
    """Prepare batches in the pool, or in this process if there is none; yield them in order."""
    if pool is None:
        preparer = Preparer(settings, fingerprinter)
        for batch in batches:
            yield batch, preparer.prepare(batch.topic, batch.lines)
        return
    waiting: deque[tuple[Batch, Future[Prepared]]] = deque()
    try:
        for batch in batches:
            waiting.append((batch, pool.submit(_prepare, batch.topic, list(batch.lines))))
            if len(waiting) > jobs * _AHEAD:
                oldest, future = waiting.popleft()
                yield oldest, future.result()
        for oldest, future in waiting:
            yield oldest, future.result()
    except BrokenProcessPool:
        raise WorkerLostError(
            "a fingerprint process has ended (out of memory?): try fewer --jobs"
        ) from None


_preparer: Preparer | None = None


def _begin_process(settings: Settings) -> None:
    global _preparer  # noqa: PLW0603 - a process of the pool has no other place
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the main process handles Ctrl-C
    threading.Thread(target=_end_with_parent, daemon=True).start()
    loaded = sys.modules.get(_DEFAULT_FINGERPRINTER)
    profile = settings.index_profile()
    if loaded is not None and loaded.FINGERPRINTER.profile == profile:
        _preparer = Preparer(settings, loaded.FINGERPRINTER)
    else:
        _preparer = Preparer(settings, Fingerprinter(profile))


def _end_with_parent() -> None:
    """End this process when the parent has ended, even by SIGKILL."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _prepare(topic: str, lines: list[Line]) -> Prepared:
    assert _preparer is not None
    return _preparer.prepare(topic, lines)
