"""An evaluation from its files to its figures."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from simhash_core.documents import Document
from simhash_core.text.fingerprinter import Fingerprinter
from simhash_core.text.profiles import Profile
from streams.offline.evaluation.dedup_pass import Decided, decide
from streams.offline.evaluation.figures import LabelledPair
from streams.offline.evaluation.labelled_files import (
    LabelledDocuments,
    documents_again,
    read_documents,
    read_pairs,
)
from streams.offline.evaluation.quality import Quality, quality_of
from streams.offline.evaluation.text_pass import exact_jaccards, named_by, of_pass
from streams.settings.settings import Settings

Watch = Callable[[str, int, int], None]
"""Called with the progress: the step, how much of it is done, and how much there is to do."""


class Labelled(NamedTuple):
    """What was read of the two files."""

    file: str
    documents: LabelledDocuments
    pairs: Sequence[LabelledPair]


class Evaluated(NamedTuple):
    """A pass and its figures. ``jaccards``: of each duplicate with its original."""

    labelled: Labelled
    decided: Decided
    jaccards: dict[int, float]
    quality: Quality


def read_labelled(file: str, pairs_file: str, settings: Settings) -> Labelled:
    """Read both files; raises ``LabelledFileError``, ``InputFileError`` and ``UsageError``."""
    documents = read_documents(file, settings)
    return Labelled(file, documents, read_pairs(pairs_file, documents))


def evaluate(
    labelled: Labelled,
    settings: Settings,
    fingerprinter_of: Callable[[Profile], Fingerprinter] = Fingerprinter,
    watch: Watch | None = None,
) -> Evaluated:
    """Let the deduplicator decide the documents, and set its verdicts beside the labels."""
    file, documents, pairs = labelled
    count = len(documents.ids)

    def watch_step(step: str, done: int) -> None:
        if watch is not None:
            watch(step, done, count)

    watch_step("deduplicating", 0)
    decided = decide(
        file,
        settings,
        documents,
        fingerprinter_of,
        lambda _, progress: watch_step("deduplicating", progress.documents),
    )
    jaccards = of_pass(
        exact_jaccards(
            documents_again(file, settings),
            named_by(decided.originals),
            lambda done: watch_step("comparing with originals", done),
        ),
        decided.originals,
    )
    quality = quality_of(documents, pairs, decided, jaccards, settings.profile)
    return Evaluated(labelled, decided, jaccards, quality)


def texts_of(file: str, settings: Settings, wanted: Collection[int]) -> dict[int, Document]:
    """Return the documents of these numbers."""
    return {
        number: document
        for number, document in enumerate(documents_again(file, settings))
        if number in wanted
    }
