"""Mutants of look-ups, and of the rules for the shell around the core."""

from __future__ import annotations

from typing import Final

import numpy as np

from simhash_core.index import known_sketches, look_up, pairs
from simhash_core.index.document_index import DocumentIndex, SegmentMerge
from simhash_core.index.known_sketches import KnownSketches
from simhash_core.index.look_up import LookUp
from simhash_core.index.pairs import Pairs
from simhash_core.index.prints import Prints
from simhash_core.text.verification import Verifier
from tests.simulation.mutant import Rule
from tests.simulation.replacements import Function, always, by, wrapped


def _nearest_pairs(
    original: Function, index: DocumentIndex, prints: Prints, kept: object = None
) -> Pairs:
    """Return the nearest candidate of each document."""
    found: Pairs = original(index, prints, kept)
    _, first = np.unique(found.rows, return_index=True)
    rows, distances, sequences, slots = found
    return Pairs(rows[first], distances[first], sequences[first], slots[first])


def _pairs_of_latest(
    original: Function, index: DocumentIndex, prints: Prints, kept: object = None
) -> Pairs:
    segments = index._segments
    index._segments = segments[-1:]
    try:
        found: Pairs = original(index, prints, kept)
        return found
    finally:
        index._segments = segments


def _noted_under_the_next(
    original: Function, known: KnownSketches, sequence: int, sketch: bytes
) -> None:
    original(known, sequence + 1, sketch)


def _build_without_first(original: Function, merge: SegmentMerge) -> object:
    merge._live = [np.zeros_like(merge._live[0]), *merge._live[1:]]
    return original(merge)


LOOK_UP: Final[dict[str, Rule]] = {
    "only the nearest candidate is confirmed": wrapped(DocumentIndex, "pairs", _nearest_pairs),
    "candidates are not confirmed": by(
        Verifier,
        "similarity",
        lambda verifier, distance, a, b: verifier.verification.similarity(distance, a, b),
    ),
    "the mean of two similarities is not wanted": by(
        Verifier, "_mean", lambda _verifier, _distance, _similarity: 1.0
    ),
    "equal content is confirmed like the rest": always(look_up, "_has_content", False),
    "of candidates as near any is named": by(
        pairs,
        "_order",
        lambda rows, distances, sequences: np.lexsort(
            (np.uint64(2**64 - 1) - sequences, distances, rows)
        ),
    ),
    "of candidates the earliest is named, not the nearest": by(
        pairs, "_order", lambda rows, distances, sequences: np.lexsort((distances, sequences, rows))
    ),
    "equal contents are not looked up": by(
        LookUp, "_of_content", lambda _look_up, _columns, _view: []
    ),
    "the memtable is not looked up": by(
        DocumentIndex, "_pairs_in_memtable", lambda _index, _prints: iter(())
    ),
    "only the latest segment is looked up": wrapped(DocumentIndex, "pairs", _pairs_of_latest),
    "pairs that share no block are near": by(
        pairs, "_share_a_bucket", lambda _scheme, ours, _theirs: np.ones(len(ours), bool)
    ),
    "an entry with a known sketch is not near": by(
        known_sketches,
        "are_similar",
        lambda _verifier, distances, _ours, _rows, _theirs, _others: np.zeros(
            len(distances), dtype=np.bool_
        ),
    ),
    "a known sketch is taken for that of another entry": wrapped(
        KnownSketches, "note", _noted_under_the_next
    ),
    "a merge forgets the segment before the last": wrapped(
        SegmentMerge, "build", _build_without_first
    ),
}


SHELL: Final[dict[str, Rule]] = {
    "commits of zombies are not refused": "commits_are_fenced",
    "entries are committed apart from outputs": "entries_with_outputs",
    "progress is committed apart from outputs": "progress_with_outputs",
    "the log is trimmed before all have reported": "trims_when_all_reported",
    "the log is trimmed too far": "trims_to_lowest",
    "a shard that others had since is kept": "lost_shards_are_dropped",
    "a new shard commits no first progress": "initial_progress",
}
