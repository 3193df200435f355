"""What confirming candidates costs and brings: bytes, processor's time, recall and precision.

Labelled documents are fingerprinted once; pairs that share a bucket within the distance are
candidates. Each verification then judges these at several thresholds, and the documents are gone
through in their order as a shard would: a document is a duplicate of the nearest earlier unique one
that is near.

    python -m benchmarks.verifications --documents FILE --pairs FILE [--json FILE]
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from msgspec.structs import replace
from rich.table import Table

from benchmarks.candidates import candidates
from benchmarks.command import errors_told, new_parser
from benchmarks.measures import Stopwatch
from benchmarks.report import Figures, new_table, publish, table_of
from simhash_core.analysis.exact_similarity import vector_cosine
from simhash_core.documents import Content
from simhash_core.text.fingerprinter import Fingerprinted, Fingerprinter
from simhash_core.text.profiles import BLOCKS_INSTEAD_OF_BANDS, PROFILES, Profile
from simhash_core.text.verification import NO_VERIFICATION, usual_threshold
from streams.evaluation.evaluation import Labelled, read_labelled
from streams.evaluation.figures import caught, f1, precision_counts, recall
from streams.evaluation.labelled_files import documents_again
from streams.settings.settings import Settings

BATCH: Final = 250
GRID: Final = tuple(round(0.2 + 0.05 * step, 2) for step in range(16))
BLOCKS_DISTANCE: Final = 64
PUBLISHED_DISTANCE: Final = 4
"""Of 64 bits: the largest at which metadata can still make two documents near."""

_AGREEMENTS_TIMED: Final = 20_000
_COSINES_COMPARED: Final = 400


class Case(NamedTuple):
    """A profile with a verification; ``without_references``: they may give the label away."""

    name: str
    profile: Profile
    without_references: bool = False


def cases() -> list[Case]:
    # Compared on the same candidates: those of blocks, which all of them can have.
    wide = replace(PROFILES["wide"], distance=BLOCKS_DISTANCE, **BLOCKS_INSTEAD_OF_BANDS)
    classic = replace(PROFILES["classic"], distance=PUBLISHED_DISTANCE)
    published = f"classic ≤ {PUBLISHED_DISTANCE}"
    compared = (NO_VERIFICATION, "shingles", "cosine")
    of_wide = [Case(f"wide, {name}", replace(wide, verify=name)) for name in compared]
    of_classic = [
        Case(f"{published}, {name}", replace(classic, verify=name))
        for name in (*compared, "metadata")
    ]
    without = of_classic[-1]._replace(
        name=f"{published}, metadata without references", without_references=True
    )
    return [*of_wide, *of_classic, without]


class _Stream:
    def __init__(self, labelled: Labelled, contents: Sequence[Content], case: Case) -> None:
        self._labelled = labelled
        if case.without_references:
            contents = [replace(content, references=()) for content in contents]
        self.case = case
        self.fingerprinter = Fingerprinter(replace(case.profile, verify_at=0.0))
        self.fingerprinter.fingerprint_batch(contents[:BATCH])
        self.made: list[Fingerprinted] = []
        self.fingerprinting = Stopwatch()
        with self.fingerprinting:
            for start in range(0, len(contents), BATCH):
                self.made += self.fingerprinter.fingerprint_batch(contents[start : start + BATCH])
        self._similarity: Callable[[int, bytes, bytes], float] = lambda _distance, _a, _b: 1.0
        if self.fingerprinter.verifier is not None:
            self._similarity = self.fingerprinter.verifier.verification.similarity
        self.distances = candidates(self.fingerprinter, self.made)
        self.agreements = {
            (a, b): self._similarity(distance, self.made[a].sketch, self.made[b].sketch)
            for (a, b), distance in self.distances.items()
        }

    def outcome(self, at: float) -> Figures:
        """Go through the documents, confirming at this threshold; figures as of ``evaluate``."""
        near: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for (a, b), similarity in self.agreements.items():
            if similarity >= at or self.made[a].content_digest == self.made[b].content_digest:
                near[b].append((self.distances[a, b], a))
        originals: list[int] = []
        for number in range(len(self.made)):
            unique = [(distance, a) for distance, a in near[number] if originals[a] == a]
            originals.append(min(unique)[1] if unique else number)
        pairs = self._labelled.pairs
        counts = precision_counts(originals, self._labelled.documents.groups, pairs)
        right = recall(originals, pairs)
        precision = counts.right / counts.judged if counts.judged else None
        return {
            "at": at,
            "recall": right,
            "caught": caught(originals, pairs),
            "precision": precision,
            "f1": f1(right, precision),
        }

    def agreement_us(self) -> float:
        some = list(self.distances.items())[:_AGREEMENTS_TIMED]
        spent = Stopwatch()
        with spent:
            for (a, b), distance in some:
                self._similarity(distance, self.made[a].sketch, self.made[b].sketch)
        return spent.us_each(max(1, len(some)))


def run(documents: str, pairs: str) -> Figures:
    """Measure; raises ``FirstseenError`` for files that cannot be read."""
    settings = Settings()
    labelled = read_labelled(documents, pairs, settings)
    contents = [document.content for document in documents_again(documents, settings)]
    measured: list[Figures] = []
    error: Figures = {}
    alone = 0.0
    for case in cases():
        stream = _Stream(labelled, contents, case)
        if case.profile.verify == NO_VERIFICATION:
            alone = stream.fingerprinting.us_each(len(contents))
        elif case.profile.verify == "cosine" and not error:
            error = _cosine_error(stream, contents)
        measured.append(_measured(stream, alone))
    return {
        "source": Path(documents).name,
        "documents": len(contents),
        "verifications": measured,
        "cosine_error": error,
    }


def _measured(stream: _Stream, alone_us: float) -> Figures:
    """Return the figures of one verification.

    Times are the processor's; ``sketch_us`` comes on top of fingerprinting alone.
    """
    sizes = [len(each.sketch) for each in stream.made]
    usual = stream.outcome(usual_threshold(stream.case.profile.verify))
    outcomes = [usual, *(stream.outcome(at) for at in GRID)]
    return {
        "case": stream.case.name,
        "candidates": len(stream.distances),
        "mean_bytes": round(sum(sizes) / len(sizes), 1),
        "most_bytes": max(sizes),
        "sketch_us": round(max(0.0, stream.fingerprinting.us_each(len(sizes)) - alone_us), 1),
        "agreement_us": round(stream.agreement_us(), 1),
        "usual": usual,
        "best": max(outcomes, key=lambda outcome: outcome["f1"] or 0.0),
    }


def _cosine_error(stream: _Stream, contents: Sequence[Content]) -> Figures:
    """Return how far sketches are from the cosine of whole term vectors, over candidates."""
    some = sorted(stream.agreements)
    some = some[:: max(1, len(some) // _COSINES_COMPARED)]
    errors = []
    for a, b in some:
        vectors = [dict(stream.fingerprinter.weighted_terms(contents[i])) for i in (a, b)]
        errors.append(stream.agreements[a, b] - vector_cosine(*vectors))
    return {
        "pairs": len(errors),
        "mean_error": round(sum(errors) / len(errors), 4),
        "mean_absolute_error": round(sum(map(abs, errors)) / len(errors), 4),
        "greatest_error": round(max(map(abs, errors)), 4),
    }


def tables(figures: Figures) -> Iterator[Table]:
    yield table_of(
        "Verifications on {documents:,} documents ({source})".format_map(figures),
        figures["verifications"],
        {
            "": "{case}",
            "candidates": "{candidates:,}",
            "bytes": "{mean_bytes:,.0f} (≤ {most_bytes})",
            "sketch µs": "{sketch_us:,.0f}",
            "similarity µs": "{agreement_us:,.1f}",
        },
    )
    of_one = ("recall", "precision", "F1")
    yield new_table(
        "At the usual threshold, and at the best of some",
        ("", "at", *of_one, "best", *of_one),
        (
            (each["case"], *_shown(each["usual"]), *_shown(each["best"]))
            for each in figures["verifications"]
        ),
    )
    yield new_table(
        "Cosine of sketches less that of whole vectors",
        ("", ""),
        ((name.replace("_", " "), f"{value:g}") for name, value in figures["cosine_error"].items()),
    )


def _shown(outcome: Figures) -> list[str]:
    shares = (outcome[name] for name in ("recall", "precision", "f1"))
    return [f"{outcome['at']:g}", *("-" if each is None else f"{each:.3f}" for each in shares)]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = new_parser("benchmarks.verifications", __doc__)
    parser.add_argument("--documents", required=True, metavar="FILE", help="JSON lines")
    parser.add_argument("--pairs", required=True, metavar="FILE", help="TSV of labels")
    options = parser.parse_args(arguments)
    with errors_told():
        figures = run(options.documents, options.pairs)
    publish(figures, tables(figures), options.json)


if __name__ == "__main__":
    main()
