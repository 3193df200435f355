"""How few features are too few: near matches among different sentences, by the least number.

Of labelled pairs of sentences, and of all pairs of the sentences that share a bucket, those are
counted that the profile calls near, for each ``min_features`` that it could have. Sentences with
equal content after normalisation are one.

    python -m benchmarks.short_texts --pairs FILE [--profile NAME …] [--json FILE]

FILE has JSON lines of ``text``, ``text2`` and ``label``: 1 where they mean the same, else 0; gzip
by its name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from msgspec.structs import replace
from rich.table import Table

from benchmarks.candidates import candidates
from benchmarks.command import new_parser
from benchmarks.report import Figures, publish, table_of
from benchmarks.texts import json_lines
from simhash_core.fingerprints.fingerprint import distance_bits
from simhash_core.text.fingerprinter import Fingerprinted, Fingerprinter
from simhash_core.text.profiles import PROFILES, Profile

LEAST: Final = (1, 4, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 27, 28, 32)


class LabelledPair(NamedTuple):
    text: str
    other: str
    means_same: bool


def run(pairs: Sequence[LabelledPair], names: Sequence[str], source: str) -> Figures:
    sentences = list(dict.fromkeys(text for pair in pairs for text in (pair.text, pair.other)))
    return {
        "source": source,
        "pairs": len(pairs),
        "sentences": len(sentences),
        "profiles": {name: _curve(PROFILES[name], pairs, sentences) for name in names},
    }


def _curve(
    profile: Profile, pairs: Sequence[LabelledPair], sentences: Sequence[str]
) -> list[Figures]:
    """Return what each ``min_features`` gives.

    ``comparable``: sentences that have a fingerprint. ``near_pairs``: of all pairs of sentences.
    The others are of the labelled pairs that differ: how many are near, and the share of all.
    """
    fingerprinter = Fingerprinter(replace(profile, min_features=1))

    def is_confirmed(distance: int, a: Fingerprinted, b: Fingerprinted) -> bool:
        verifier = fingerprinter.verifier
        return verifier is None or verifier.similarity(distance, a.sketch, b.sketch) is not None

    prints = dict(zip(sentences, fingerprinter.fingerprint_batch(sentences), strict=True))
    near: dict[bool, list[int]] = {True: [], False: []}
    for pair in pairs:
        a, b = prints[pair.text], prints[pair.other]
        if a.undecidable or b.undecidable or a.content_digest == b.content_digest:
            continue
        distance = distance_bits(a.fingerprint, b.fingerprint)
        if distance <= profile.distance and is_confirmed(distance, a, b):
            near[pair.means_same].append(min(a.features, b.features))
    distinct = list({each.content_digest: each for each in prints.values()}.values())
    of_all = [
        min(distinct[a].features, distinct[b].features)
        for (a, b), distance in candidates(fingerprinter, distinct).items()
        if is_confirmed(distance, distinct[a], distinct[b])
    ]
    return [
        {
            "min_features": least,
            "comparable": sum(each.features >= least for each in distinct),
            "near_pairs": _reaching(of_all, least),
            "near_other_meaning": _reaching(near[False], least),
            "near_same_meaning": _reaching(near[True], least),
            "near_share": round(_reaching(near[False] + near[True], least) / len(pairs), 6),
        }
        for least in LEAST
    ]


def _reaching(features: Sequence[int], least: int) -> int:
    return sum(count >= least for count in features)


def tables(figures: Figures) -> Iterator[Table]:
    what = "{pairs:,} pairs of {sentences:,} sentences ({source})".format_map(figures)
    columns = {
        "min_features": "{min_features}",
        "comparable": "{comparable:,}",
        "near, other meaning": "{near_other_meaning:,}",
        "near, same meaning": "{near_same_meaning:,}",
        "share of pairs": "{near_share:.3%}",
        "near of all pairs": "{near_pairs:,}",
    }
    for name, curve in figures["profiles"].items():
        yield table_of(f"{name}: {what}", curve, columns)


def read_pairs(path: Path) -> list[LabelledPair]:
    """Read the pairs of a file; raises ``SystemExit`` with a message for one that has none."""
    pairs = list(
        json_lines(
            path,
            "text, text2 and label",
            lambda row: LabelledPair(row["text"], row["text2"], row["label"] == 1),
        )
    )
    if not pairs:
        raise SystemExit(f"{path} has no pairs")
    return pairs


def main(arguments: Sequence[str] | None = None) -> None:
    parser = new_parser("benchmarks.short_texts", __doc__)
    parser.add_argument("--pairs", type=Path, required=True, metavar="FILE", help="labelled pairs")
    parser.add_argument("--profile", nargs="+", choices=list(PROFILES), default=list(PROFILES))
    options = parser.parse_args(arguments)
    figures = run(read_pairs(options.pairs), options.profile, options.pairs.name)
    publish(figures, tables(figures), options.json)


if __name__ == "__main__":
    main()
