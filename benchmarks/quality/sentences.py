"""Measures how often two different short sentences are taken for duplicates."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.report import Figures
from benchmarks.texts import json_lines
from simhash_core.text.normalization import normalize
from streams.evaluation.dedup_pass import decide
from streams.evaluation.labelled_files import LabelledDocuments, read_documents
from streams.settings.settings import Settings

_Pair = tuple[str, str, int]


def sentence_figures(file: Path, profiles: Sequence[str]) -> list[Figures]:
    """Stream all sentences of a file through each profile."""
    what = "text, text2 and label"
    read = json_lines(file, what, lambda line: (line["text"], line["text2"], line["label"]))
    pairs: list[_Pair] = list(read)
    with tempfile.TemporaryDirectory(prefix="firstseen-") as directory:
        path = Path(directory, "sentences.jsonl")
        texts = [text for a, b, _ in pairs for text in (a, b)]
        lines = (json.dumps({"id": str(number), "text": text}) for number, text in enumerate(texts))
        path.write_text("\n".join(lines), "utf-8")
        documents = read_documents(str(path), Settings())
        return [_of_profile(profile, str(path), documents, pairs) for profile in profiles]


def _of_profile(
    profile: str, path: str, documents: LabelledDocuments, pairs: Sequence[_Pair]
) -> Figures:
    """Return the figures of a profile.

    ``near`` counts sentences that are near, but not exact, duplicates of any other sentence;
    ``near_share`` divides it by the number of pairs. ``near_pairs`` counts pairs of different
    sentences that are joined; ``near_pairs_apart`` counts those with label 0: no paraphrases.
    """
    decided = decide(path, Settings(profile=profile), documents)
    originals, counts = decided.originals, decided.counts
    differing = [
        (n, label) for n, (a, b, label) in enumerate(pairs) if normalize(a) != normalize(b)
    ]
    joined = [label for n, label in differing if originals[2 * n] == originals[2 * n + 1]]
    near = counts.get("near_duplicate", 0)
    return {
        "profile": profile,
        "pairs": len(pairs),
        "different_pairs": len(differing),
        "undecidable": counts.get("undecidable", 0),
        "exact": counts.get("exact_duplicate", 0),
        "near": near,
        "near_share": round(near / len(pairs), 6),
        "near_pairs": len(joined),
        "near_pairs_share": round(len(joined) / len(pairs), 6),
        "near_pairs_apart": joined.count(0),
    }
