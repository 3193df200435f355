"""Distances of labelled pairs, compared directly; and of pairs that nobody would call alike."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from simhash_core.documents import Content
from simhash_core.fingerprints.distance import distance_bits
from simhash_core.text.fingerprinter import Fingerprinted, Fingerprinter
from streams.offline.evaluation.evaluation import Labelled
from streams.offline.evaluation.figures import NEGATIVE, POSITIVE, LabelledPair
from streams.offline.evaluation.labelled_files import documents_again
from streams.settings.settings import Settings

RANDOM_PAIRS: Final = 4_000

_SEED: Final = 1
_BATCH: Final = 250


class PairDistances(NamedTuple):
    """In bits. ``unrelated``: random pairs of different groups. ``of``: by pair of numbers."""

    positives: list[int]
    negatives: list[int]
    unrelated: list[int]
    of: Mapping[tuple[int, int], int]


def pair_distances(
    labelled: Labelled,
    settings: Settings,
    fingerprinter: Fingerprinter,
    others: Iterable[tuple[int, int]] = (),
    watch: Callable[[int], None] | None = None,
) -> PairDistances:
    """Fingerprint what is needed and compare it; pairs with an undecidable document are left out.

    ``others``: pairs that are wanted besides the labelled ones.
    """
    pairs = [pair for pair in labelled.pairs if pair.label in (POSITIVE, NEGATIVE)]
    unrelated = _unrelated(labelled.documents.groups)
    ends = {(pair.first, pair.second) for pair in pairs} | set(others)
    wanted = {number for pair in (*ends, *unrelated) for number in pair}
    prints = _fingerprints(labelled.file, settings, fingerprinter, wanted, watch)
    distances = {pair: d for pair in ends if (d := _distance(prints, pair)) is not None}
    return PairDistances(
        _of_label(distances, pairs, POSITIVE),
        _of_label(distances, pairs, NEGATIVE),
        [d for pair in unrelated if (d := _distance(prints, pair)) is not None],
        distances,
    )


def _of_label(
    distances: Mapping[tuple[int, int], int], pairs: Iterable[LabelledPair], label: int
) -> list[int]:
    ends = [(pair.first, pair.second) for pair in pairs if pair.label == label]
    return [distances[pair] for pair in ends if pair in distances]


def _unrelated(groups: Sequence[str | None]) -> list[tuple[int, int]]:
    """Draw pairs of different groups, the same ones each time; none where there are no groups."""
    grouped = [number for number, group in enumerate(groups) if group is not None]
    if len({groups[number] for number in grouped}) < 2:  # noqa: PLR2004 - two make a pair
        return []
    rng = random.Random(_SEED)  # noqa: S311 - a sample, not a secret
    drawn = (
        (grouped[int(rng.random() * len(grouped))], grouped[int(rng.random() * len(grouped))])
        for _ in range(RANDOM_PAIRS)
    )
    return [(a, b) for a, b in drawn if groups[a] != groups[b]]


def _fingerprints(
    file: str,
    settings: Settings,
    fingerprinter: Fingerprinter,
    wanted: set[int],
    watch: Callable[[int], None] | None,
) -> dict[int, bytes]:
    prints: dict[int, bytes] = {}
    batch: list[tuple[int, Content]] = []

    def make() -> None:
        fingerprinted: list[Fingerprinted] = fingerprinter.fingerprint_batch(
            [each for _, each in batch]
        )
        prints.update(
            (number, each.fingerprint)
            for (number, _), each in zip(batch, fingerprinted, strict=True)
        )
        batch.clear()

    for number, document in enumerate(documents_again(file, settings)):
        if number in wanted:
            batch.append((number, document.content))
        if len(batch) >= _BATCH:
            make()
        if watch is not None:
            watch(number + 1)
    make()
    return prints


def _distance(prints: Mapping[int, bytes], pair: tuple[int, int]) -> int | None:
    a, b = prints[pair[0]], prints[pair[1]]
    return distance_bits(a, b) if a and b else None
