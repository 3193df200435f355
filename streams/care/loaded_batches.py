"""From documents of any sources to runs of one source each, as the index stores them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from simhash_core.document_columns import DocumentColumns
from simhash_core.documents import TopicPartition
from streams.care.load_spool import LoadedRun

BATCH_DOCUMENTS: Final = 8192
"""Documents that are read one after another and brought into runs together."""

_RUN_BYTES: Final = 512 * 1024
"""A run becomes one record of the changelog: well below what its topic takes."""


def loaded_runs(sources: Sequence[TopicPartition], columns: DocumentColumns) -> Iterator[LoadedRun]:
    """Yield documents in runs; ``sources``: of each document, in step with ``columns``."""
    for (topic, partition), rows in _rows_by_source(sources).items():
        for part in _rising(columns, rows):
            for each in _small(columns, part):
                is_all = len(each) == len(columns)
                yield LoadedRun(topic, partition, columns if is_all else columns.take(each))


def _rows_by_source(sources: Sequence[TopicPartition]) -> dict[TopicPartition, NDArray[np.intp]]:
    """Return the rows of each source, rising."""
    if sources and sources.count(sources[0]) == len(sources):
        return {sources[0]: np.arange(len(sources), dtype=np.intp)}
    rows: dict[TopicPartition, list[int]] = {}
    for row, source in enumerate(sources):
        rows.setdefault(source, []).append(row)
    return {source: np.array(own, dtype=np.intp) for source, own in rows.items()}


def _rising(columns: DocumentColumns, rows: NDArray[np.intp]) -> list[NDArray[np.intp]]:
    """Divide rows where their offsets do not rise."""
    offsets = columns.offsets[rows]
    falls = np.flatnonzero(offsets[1:] <= offsets[:-1]) + 1
    return np.split(rows, falls)


def _small(columns: DocumentColumns, rows: NDArray[np.intp]) -> list[NDArray[np.intp]]:
    """Divide rows so that a run has about ``_RUN_BYTES`` bytes."""
    sizes = (
        np.diff(columns.ids.bounds.astype(np.int64))[rows]
        + np.diff(columns.sketches.bounds.astype(np.int64))[rows]
        + columns.fingerprints.shape[1] * 8
        + 32
    )
    numbers = np.cumsum(sizes) // _RUN_BYTES
    ends = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(rows)]
    return [rows[low:high] for low, high in pairwise(ends) if high > low]
