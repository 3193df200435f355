"""Evaluates labelled files: from the files to the figures."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple

import msgspec

from simhash_core.documents import Document
from simhash_core.fingerprints.fingerprint import distance_bits
from simhash_core.text.fingerprinter import Fingerprinter
from simhash_core.text.profiles import Profile, index_digest
from streams.corpus.draws import pick
from streams.evaluation import figures
from streams.evaluation.dedup_pass import Decided, decide, exact_jaccards, named_by, of_pass
from streams.evaluation.figures import NEGATIVE, POSITIVE, LabelledPair
from streams.evaluation.labelled_files import (
    LabelledDocuments,
    documents_again,
    read_documents,
    read_pairs,
)
from streams.settings.settings import Settings

# ---- The figures of a pass, as in its JSON.

_DIGITS: Final = 6


class Quality(msgspec.Struct, frozen=True, kw_only=True):
    """Shares are 0 to 1 with six digits; None if there was nothing to measure.

    ``streams.evaluation.figures`` defines them. ``joined_pairs`` is the denominator of precision.
    ``documents_per_second``, ``seconds`` and ``cpu_seconds`` measure only the deduplication.
    """

    documents: int
    uniques: int
    recall: float | None
    recall_by_jaccard: Mapping[str, float | None]
    caught: float | None
    precision: float | None
    f1: float | None
    false_duplicates: float | None
    documents_per_second: float
    duplicates: int
    exact_duplicates: int
    undecidable: int
    positives: int
    positives_by_jaccard: Mapping[str, int]
    negatives: int
    negatives_joined: int
    joined_pairs: int
    seconds: float
    cpu_seconds: float
    profile: str
    index: str


def quality_of(
    documents: LabelledDocuments,
    pairs: Sequence[LabelledPair],
    decided: Decided,
    jaccards: Mapping[int, float],
    profile: str,
) -> Quality:
    """Compute the figures of a pass; ``jaccards`` has that of each duplicate and its original."""
    originals = decided.originals
    counted = figures.precision_counts(originals, documents.groups, pairs)
    recall = figures.recall(originals, pairs)
    precision = counted.right / counted.judged if counted.judged else None
    negatives = [pair for pair in pairs if pair.label == figures.NEGATIVE]
    uniques = figures.uniques(originals)
    return Quality(
        documents=len(documents.ids),
        uniques=uniques,
        recall=rounded(recall),
        recall_by_jaccard={
            band: rounded(value)
            for band, value in figures.recall_by_jaccard(originals, pairs).items()
        },
        caught=rounded(figures.caught(originals, pairs)),
        precision=rounded(precision),
        f1=rounded(figures.f1(recall, precision)),
        false_duplicates=rounded(figures.false_duplicates(jaccards)),
        documents_per_second=round(len(documents.ids) / max(decided.seconds, 1e-6), 1),
        duplicates=len(documents.ids) - uniques,
        exact_duplicates=decided.counts.get("exact_duplicate", 0),
        undecidable=decided.counts.get("undecidable", 0),
        positives=sum(pair.label == figures.POSITIVE for pair in pairs),
        positives_by_jaccard={
            band: len(in_band) for band, in_band in figures.by_band(pairs).items()
        },
        negatives=len(negatives),
        negatives_joined=sum(figures.joined(originals, pair) for pair in negatives),
        joined_pairs=counted.judged,
        seconds=round(decided.seconds, 3),
        cpu_seconds=round(decided.cpu_seconds, 3),
        profile=profile,
        index=index_digest(decided.identity),
    )


def rounded(value: float | None) -> float | None:
    return None if value is None else round(value, _DIGITS)


Watch = Callable[[str, int, int], None]  # called with a step, the amount done, and the total


class Labelled(NamedTuple):
    file: str
    documents: LabelledDocuments
    pairs: Sequence[LabelledPair]


class Evaluated(NamedTuple):
    labelled: Labelled
    decided: Decided
    jaccards: dict[int, float]
    quality: Quality


def read_labelled(file: str, pairs_file: str, settings: Settings) -> Labelled:
    """Read both files; raise ``LabelledFileError``, ``InputFileError`` and ``UsageError``."""
    documents = read_documents(file, settings)
    return Labelled(file, documents, read_pairs(pairs_file, documents))


def evaluate(
    labelled: Labelled,
    settings: Settings,
    fingerprinter_of: Callable[[Profile], Fingerprinter] = Fingerprinter,
    watch: Watch = lambda *_: None,
) -> Evaluated:
    file, documents, pairs = labelled
    count = len(documents.ids)
    watch("deduplicating", 0, count)
    decided = decide(
        file,
        settings,
        documents,
        fingerprinter_of,
        lambda done: watch("deduplicating", done, count),
    )
    jaccards = of_pass(
        exact_jaccards(
            documents_again(file, settings),
            named_by(decided.originals),
            lambda done: watch("comparing with originals", done, count),
        ),
        decided.originals,
    )
    quality = quality_of(documents, pairs, decided, jaccards, settings.profile)
    return Evaluated(labelled, decided, jaccards, quality)


def texts_of(file: str, settings: Settings, wanted: Collection[int]) -> dict[int, Document]:
    return {
        number: document
        for number, document in enumerate(documents_again(file, settings))
        if number in wanted
    }


# ---- Distances of labelled pairs, and of random pairs.

RANDOM_PAIRS: Final = 4_000

_SEED: Final = 1
_BATCH: Final = 250


class PairDistances(NamedTuple):
    """Distances in bits; those of ``unrelated`` are of random pairs of different groups."""

    positives: list[int]
    negatives: list[int]
    unrelated: list[int]
    of: Mapping[tuple[int, int], int]


def pair_distances(
    labelled: Labelled,
    settings: Settings,
    fingerprinter: Fingerprinter,
    others: Iterable[tuple[int, int]],
    watch: Callable[[int], None],
) -> PairDistances:
    """Compare labelled pairs, random pairs and ``others``; undecidable ones are left out."""
    positives, negatives = (
        [(pair.first, pair.second) for pair in labelled.pairs if pair.label == label]
        for label in (POSITIVE, NEGATIVE)
    )
    unrelated = _unrelated(labelled.documents.groups)
    pairs = {*positives, *negatives, *unrelated, *others}
    wanted = {number for pair in pairs for number in pair}
    prints = _fingerprints(labelled.file, settings, fingerprinter, wanted, watch)
    distances = {
        (a, b): distance_bits(prints[a], prints[b]) for a, b in pairs if prints[a] and prints[b]
    }

    def known(of: Iterable[tuple[int, int]]) -> list[int]:
        return [distances[pair] for pair in of if pair in distances]

    return PairDistances(known(positives), known(negatives), known(unrelated), distances)


def _unrelated(groups: Sequence[str | None]) -> list[tuple[int, int]]:
    """Draw pairs of different groups, with a fixed seed."""
    grouped = [number for number, group in enumerate(groups) if group is not None]
    if len({groups[number] for number in grouped}) < 2:  # noqa: PLR2004 - two make a pair
        return []
    rng = random.Random(_SEED)  # noqa: S311 - a sample, not a secret
    drawn = ((pick(rng, grouped), pick(rng, grouped)) for _ in range(RANDOM_PAIRS))
    return [(a, b) for a, b in drawn if groups[a] != groups[b]]


def _fingerprints(
    file: str,
    settings: Settings,
    fingerprinter: Fingerprinter,
    wanted: set[int],
    watch: Callable[[int], None],
) -> dict[int, bytes]:
    prints: dict[int, bytes] = {}
    numbered = enumerate(documents_again(file, settings))
    contents = ((number, each.content) for number, each in numbered if number in wanted)
    while batch := list(islice(contents, _BATCH)):
        made = fingerprinter.fingerprint_batch([content for _, content in batch])
        for (number, _), each in zip(batch, made, strict=True):
            prints[number] = each.fingerprint
        watch(batch[-1][0] + 1)
    return prints
