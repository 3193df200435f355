"""One pass of a file through the deduplicator of ``firstseen dedup``, and its decisions.

Only the output of duplicates is read back, from a temporary file.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from simhash_core.analysis.exact_similarity import exact_jaccard
from simhash_core.documents import Content, Document
from simhash_core.text.fingerprinter import Fingerprinted, Fingerprinter
from simhash_core.text.profiles import Profile
from streams.documents.output_records import decode_duplicate
from streams.evaluation.labelled_files import LabelledDocuments
from streams.offline.local_dedup import DedupRequest, launched
from streams.settings.settings import Settings

# ---- Exact Jaccards of duplicates with the originals that they name.
#
# An original comes before its duplicates. So its text is in memory from its own line to the line of
# its last duplicate; no other text is in memory.

Named = tuple[int, int]  # numbers of a duplicate and of the original that it names


def named_by(originals: Sequence[int]) -> list[Named]:
    return [(number, original) for number, original in enumerate(originals) if original != number]


def exact_jaccards(
    documents: Iterable[Document],
    named: Iterable[Named],
    watch: Callable[[int], None] = lambda _: None,
) -> dict[Named, float]:
    """Return the exact Jaccard of each of ``named``, in one pass through all documents.

    ``named`` may come from several runs. ``watch`` is called with the number of documents done.
    """
    of_duplicate: dict[int, set[int]] = defaultdict(set)
    last_duplicate: dict[int, int] = {}
    for duplicate, original in named:
        of_duplicate[duplicate].add(original)
        last_duplicate[original] = max(duplicate, last_duplicate.get(original, duplicate))
    waiting: dict[int, str] = {}
    jaccards: dict[Named, float] = {}
    for number, document in enumerate(documents):
        for original in of_duplicate.get(number, ()):
            jaccards[number, original] = exact_jaccard(waiting[original], document.text)
            if last_duplicate[original] == number:
                del waiting[original]
        if number in last_duplicate:
            waiting[number] = document.text
        watch(number + 1)
    return jaccards


def of_pass(jaccards: Mapping[Named, float], originals: Sequence[int]) -> dict[int, float]:
    return {duplicate: jaccards[duplicate, original] for duplicate, original in named_by(originals)}


class Decided(NamedTuple):
    """The decisions of a pass, by document number.

    ``originals`` has the original of each document: itself if it is unique. ``distances`` has the
    bits of each duplicate. ``counts`` has the number of documents by the verdict's name.
    """

    originals: array[int]
    distances: Mapping[int, int]
    counts: Mapping[str, int]
    identity: str
    seconds: float
    cpu_seconds: float


def decide(
    file: str,
    settings: Settings,
    documents: LabelledDocuments,
    fingerprinter_of: Callable[[Profile], Fingerprinter] = Fingerprinter,
    watch: Callable[[int], None] = lambda _: None,
) -> Decided:
    """Deduplicate ``file`` in order, with the settings with which ``documents`` were read.

    ``watch`` is called with the number of documents done. Raises what ``launched`` raises.
    """
    with tempfile.TemporaryDirectory(prefix="firstseen-") as directory:
        duplicates = Path(directory, "duplicates.jsonl")
        outputs = {"unique": os.devnull, "duplicates": str(duplicates), "dead_letters": os.devnull}
        request = DedupRequest([file], outputs, force=True)  # type: ignore[arg-type] # keys are kinds
        with launched(settings, request, fingerprinter_of) as run:
            clock, cpu = time.perf_counter(), time.process_time()
            for progress in run.dedup.run():
                watch(progress.documents)
            seconds, cpu_seconds = time.perf_counter() - clock, time.process_time() - cpu
            counts, identity = run.dedup.progress.counts, run.identity
        originals = array("q", range(len(documents.ids)))
        distances = {}
        with duplicates.open("rb") as lines:
            for record in map(decode_duplicate, lines):
                number = documents.by_line[record.source.offset]
                originals[number] = documents.by_line[record.original.source.offset]
                distances[number] = record.distance
    return Decided(originals, distances, counts, identity, seconds, cpu_seconds)


# ---- A cache of fingerprints, for many passes over the same texts with other thresholds.
#
# Profiles that differ only in thresholds and blocks, which do not affect fingerprints, share it.

_DIGEST_BYTES: Final = 16

_THRESHOLDS: Final = ("blocks=", "distance=", "mean=")
_VERIFIED_AT: Final = "@"  # precedes the threshold in the identity of a verifier


def remembering() -> Callable[[Profile], Fingerprinter]:
    """Return what makes fingerprinters with a common cache, which needs 200 bytes for each text."""
    return partial(_Remembering, known={})


class _Remembering(Fingerprinter):
    def __init__(self, profile: Profile, known: dict[str, dict[bytes, Fingerprinted]]) -> None:
        super().__init__(profile)
        self._known = known.setdefault(_maker(self.identity), {})

    def fingerprint_batch(self, contents: Sequence[Content | str]) -> list[Fingerprinted]:
        digests = [_digest(content) for content in contents]
        missing = {
            digest: content
            for digest, content in zip(digests, contents, strict=True)
            if digest not in self._known
        }
        fingerprinted = super().fingerprint_batch(list(missing.values()))
        self._known.update(zip(missing, fingerprinted, strict=True))
        return [self._known[digest] for digest in digests]


def _maker(identity: str) -> str:
    """Return the parts of an index identity that affect fingerprints and sketches."""
    kept = [part for part in identity.split() if not part.startswith(_THRESHOLDS)]
    return " ".join(part.partition(_VERIFIED_AT)[0] for part in kept)


def _digest(content: Content | str) -> bytes:
    encoded = msgspec.msgpack.encode(content)
    return hashlib.blake2b(encoded, digest_size=_DIGEST_BYTES).digest()
