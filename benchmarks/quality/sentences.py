"""Short texts: how often two different sentences are taken for one."""

from __future__ import annotations

import gzip
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from simhash_core.text.normalization import normalize
from streams.evaluation.dedup_pass import decide
from streams.evaluation.labelled_files import read_documents
from streams.settings.settings import Settings


class SentenceFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Of a profile on pairs of sentences, the two of a pair next to each other in one stream.

    ``near``: sentences called a near duplicate of any other, not an exact one; ``near_share``: of
    them in the number of pairs. ``near_pairs``: pairs whose two sentences differ and are joined;
    ``near_pairs_apart``: those of them that are labelled 0, no paraphrases.
    """

    profile: str
    pairs: int
    different_pairs: int
    undecidable: int
    exact: int
    near: int
    near_share: float
    near_pairs: int
    near_pairs_share: float
    near_pairs_apart: int


def sentence_figures(file: Path, profiles: Sequence[str]) -> list[SentenceFigures]:
    """Stream all sentences of a file through each profile."""
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        read = [json.loads(line) for line in lines]
    pairs = [(each["text"], each["text2"]) for each in read]
    different = [normalize(a) != normalize(b) for a, b in pairs]
    with tempfile.TemporaryDirectory(prefix="firstseen-") as directory:
        path = Path(directory, "sentences.jsonl")
        texts = [text for pair in pairs for text in pair]
        path.write_text(
            "\n".join(json.dumps({"id": str(n), "text": text}) for n, text in enumerate(texts)),
            "utf-8",
        )
        documents = read_documents(str(path), Settings())
        figures = []
        for profile in profiles:
            decided = decide(str(path), Settings(profile=profile), documents)
            originals, counts = decided.originals, decided.counts
            near = counts.get("near_duplicate", 0)
            joined = [
                differ and originals[2 * n] == originals[2 * n + 1]
                for n, differ in enumerate(different)
            ]
            figures.append(
                SentenceFigures(
                    profile=profile,
                    pairs=len(pairs),
                    different_pairs=sum(different),
                    undecidable=counts.get("undecidable", 0),
                    exact=counts.get("exact_duplicate", 0),
                    near=near,
                    near_share=round(near / len(pairs), 6),
                    near_pairs=sum(joined),
                    near_pairs_share=round(sum(joined) / len(pairs), 6),
                    near_pairs_apart=sum(
                        together and each["label"] == 0
                        for together, each in zip(joined, read, strict=True)
                    ),
                )
            )
    return figures
