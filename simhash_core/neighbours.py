"""The nearest documents among candidates, near or not: to be shown, not to decide."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from simhash_core.block_table import Candidates
from simhash_core.distance import distances_bits
from simhash_core.documents import SourcePosition
from simhash_core.entries import Entry
from simhash_core.verdicts import DuplicateOf

_SORTED_MOST: Final = 100_000
"""Candidates that are sorted; of more, the nearest are picked first, in linear time."""


class Neighbour(NamedTuple):
    """A document of the index beside one that is not in it.

    ``distance``: bits. ``agreement``: of the sketches, None where the index confirms none, and for
    equal content. ``near``: whether the index would call the two near. ``block``: the first that
    they share, None for texts without fingerprints.
    """

    entry: Entry
    distance: int
    agreement: float | None
    near: bool
    block: int | None


class Look(NamedTuple):
    """What a shard would say of a document, asked without being told of it.

    ``duplicate``: the verdict where it meets a confirmed near document. ``behind``: else the
    arrival that it would wait for, if any. ``candidates``: entries met. ``fullest_bucket``: the
    most documents in one of its buckets.
    """

    duplicate: DuplicateOf | None
    behind: SourcePosition | None
    nearest: list[Neighbour]
    candidates: int
    fullest_bucket: int


def nearest_orders(
    fingerprint: bytes, candidates: Candidates, most: int, meetings: int
) -> list[tuple[int, int]]:
    """Return ``(distance, order)`` of the ``most`` nearest candidates, ascending, each once.

    ``meetings``: how often one document can be among the candidates at most.
    """
    distances = distances_bits(fingerprint, candidates.fingerprints)
    picked = np.arange(len(distances))
    if len(distances) > max(_SORTED_MOST, most * meetings):
        picked = np.argpartition(distances, most * meetings)[: most * meetings]
    pairs = zip(distances[picked].tolist(), candidates.orders[picked].tolist(), strict=True)
    return sorted(set(pairs))[:most]
