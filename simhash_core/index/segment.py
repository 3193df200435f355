"""A segment: documents and the buckets that they are in, sorted. Built once, never changed.

Documents stand in the order of the log. All buckets of a packet are found in one pass of numpy over
each column; overloaded ones by their second level (``hot_buckets``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simhash_core.fingerprints.blocks import BAND_KEY_BITS, BlockScheme
from simhash_core.index.block_values import block_values
from simhash_core.index.bucket_columns import (
    BucketColumns,
    BucketQuery,
    build_columns,
    fingerprint_tags,
)
from simhash_core.index.hot_buckets import HotBuckets, find_hot
from simhash_core.index.memtable import Rows
from simhash_core.index.prints import NO_BAND, Prints, bucket_values
from simhash_core.index.sequence_column import SequenceColumn

CANDIDATES_LIMIT: Final = 1 << 21
"""Candidates in memory at one time; where buckets are full, documents go in smaller groups."""

_CHUNK: Final = 65_536
"""Fingerprints whose blocks are computed at once: bounds the memory."""


class Question(NamedTuple):
    """A packet as all segments are asked about it. ``values``, ``tags``: as of ``BucketQuery``."""

    prints: Prints
    values: NDArray[np.uint32]
    tags: NDArray[np.uint16]


class Candidates(NamedTuple):
    """Of each candidate the document that looked it up, the bucket's column, and its row."""

    documents: NDArray[np.intp]
    columns: NDArray[np.intp]
    rows: NDArray[np.uint32]


def question(scheme: BlockScheme, prints: Prints) -> Question:
    """Return what segments are asked about documents."""
    values = bucket_values(scheme, prints)
    return Question(prints, values, fingerprint_tags(scheme, prints.fingerprints))


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """Documents by bucket.

    ``slots``: uint16 (documents,). ``fingerprints``: uint64 words (documents, bits / 64).
    ``times_ms``: int64, event times.
    """

    scheme: BlockScheme
    sequences: SequenceColumn
    slots: NDArray[np.uint16]
    fingerprints: NDArray[np.uint64]
    times_ms: NDArray[np.int64]
    blocks: BucketColumns
    bands: BucketColumns
    hot: HotBuckets

    def __len__(self) -> int:
        """Return the number of documents."""
        return len(self.fingerprints)

    def rows(self) -> Rows:
        """Return the documents."""
        bands = self.bands.values(len(self))
        prints = Prints(np.asarray(self.fingerprints), bands, np.asarray(self.times_ms))
        return Rows(self.sequences.all(), np.asarray(self.slots), prints)

    def candidates(self, question: Question, *, within: bool) -> Iterator[Candidates]:
        """Yield what shares a bucket with documents; a pair once for each bucket that it shares.

        ``within``: what is farther than the distance may be left out.
        """
        blocks = self.scheme.all_blocks
        yield from self._candidates(self.blocks, 0, question, slice(0, blocks), within=within)
        yield from self._candidates(
            self.bands, blocks, question, slice(blocks, None), within=within
        )

    def _candidates(
        self, buckets: BucketColumns, first: int, question: Question, own: slice, *, within: bool
    ) -> Iterator[Candidates]:
        columns = buckets.columns
        if not columns:
            return
        values = question.values[:, own]
        query, starts, lengths = buckets.search(BucketQuery(values, question.tags), within=within)
        if buckets is self.bands:
            lengths[query.values == NO_BAND] = 0
        ranges = len(lengths) // values.size if values.size else 1
        if within and len(self.hot):
            yield from self._hot(first, columns, question, values.reshape(-1), lengths)
        a_document = columns * ranges
        ends = np.cumsum(lengths.reshape(-1, a_document).sum(axis=1))
        document = 0
        while document < len(values):
            before = int(ends[document - 1]) if document else 0
            last = int(np.searchsorted(ends, before + CANDIDATES_LIMIT, side="right"))
            last = max(last, document + 1)  # one document may exceed the limit by itself
            part = slice(document * a_document, last * a_document)
            of, rows = buckets.candidates(
                BucketQuery(query.values[part], query.tags[part]),
                starts[part],
                lengths[part],
                within=within,
            )
            of //= ranges
            yield Candidates(of // columns + document, of % columns + first, rows)
            document = last

    def _hot(
        self,
        first: int,
        columns: int,
        question: Question,
        values: NDArray[np.uint32],
        lengths: NDArray[np.intp],
    ) -> Iterator[Candidates]:
        """Yield the candidates in overloaded buckets, and set the lengths of their ranges to 0."""
        ranges = lengths.reshape(len(values), -1)
        overloaded = int(np.diff(self.hot.bounds).min()) if ranges.shape[1] == 1 else 0
        indexes = np.flatnonzero(ranges[:, 0] >= overloaded)
        numbers = self.hot.numbers(indexes % columns + first, values[indexes])
        indexes, numbers = indexes[numbers >= 0], numbers[numbers >= 0]
        if not len(indexes):
            return
        # With several buckets to a range, what is beside the overloaded one is not needed.
        ranges[indexes] = 0
        documents, of_columns = indexes // columns, indexes % columns + first
        fingerprints = question.prints.fingerprints[documents]
        for of, rows in self.hot.candidates(self.scheme, of_columns, numbers, fingerprints):
            yield Candidates(documents[of], of_columns[of], rows)


def build_segment(scheme: BlockScheme, part: Rows) -> Segment:
    """Return the segment of documents, of which there is one at least."""
    if np.any(part.sequences[1:] < part.sequences[:-1]):
        part = part.take(np.argsort(part.sequences, kind="stable"))
    prints = part.prints
    fingerprints = np.ascontiguousarray(prints.fingerprints)
    documents = part.documents
    values, tags = _values_by_block(scheme, fingerprints)
    blocks = build_columns(
        scheme, scheme.block_bits, zip(values, tags, strict=True), scheme.all_blocks, documents
    )
    no_tags = np.empty(0, dtype=np.uint16)
    bands = build_columns(
        scheme,
        BAND_KEY_BITS,
        ((np.ascontiguousarray(keys), no_tags) for keys in prints.bands.T),
        scheme.bands,
        documents,
    )
    hot = find_hot(
        scheme,
        fingerprints,
        [(0, scheme.block_bits, blocks), (scheme.all_blocks, BAND_KEY_BITS, bands)],
    )
    return Segment(
        scheme,
        SequenceColumn.of(part.sequences),
        part.slots,
        fingerprints,
        prints.times_ms,
        blocks,
        bands,
        hot,
    )


def _values_by_block(
    scheme: BlockScheme, fingerprints: NDArray[np.uint64]
) -> tuple[NDArray[np.uint32], NDArray[np.uint16]]:
    """Return block values and tags, both (blocks, documents)."""
    blocks, documents = scheme.all_blocks, len(fingerprints)
    values = np.empty((blocks, documents), dtype=np.uint32)
    as_bytes = fingerprints.view(np.uint8)
    for first in range(0, documents, _CHUNK):
        chunk = slice(first, first + _CHUNK)
        values[:, chunk] = block_values(scheme, as_bytes[chunk]).T
    tags = fingerprint_tags(scheme, fingerprints).T
    return values, tags if len(tags) else np.empty((blocks, 0), dtype=np.uint16)
