"""A small labelled set with every kind of copy, written as the files of an evaluation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from simhash_core.analysis.exact_similarity import exact_jaccard
from streams.corpus.corpus import generate
from streams.corpus.generated import COPIES, EditKind


class LabelledSample(NamedTuple):
    """The paths of the two files, and their content."""

    documents: str
    pairs: str
    size: int
    positives: int


def labelled_sample(directory: Path, documents: int = 150) -> LabelledSample:
    """Write labelled articles and copies; two successive articles are a negative pair."""
    texts: dict[str, str] = {}
    lines = []
    pairs = ["id1\tid2\tlabel\tjaccard"]
    articles: list[str] = []
    positives = 0
    for record in generate(7, documents):
        if record.kind not in {*COPIES, EditKind.ORIGINAL}:
            continue
        assert record.value is not None
        assert record.id is not None
        fields = json.loads(record.value)
        texts[record.id] = fields["text"]
        fields["group"] = record.root or record.id
        lines.append(json.dumps(fields, ensure_ascii=False))
        if record.root is None:
            if articles:
                pairs.append(f"{articles[-1]}\t{record.id}\t0\t")
            articles.append(record.id)
        else:
            jaccard = exact_jaccard(texts[record.root], texts[record.id])
            pairs.append(f"{record.root}\t{record.id}\t1\t{jaccard:.4f}")
            positives += 1
    paths = directory / "documents.jsonl", directory / "pairs.tsv"
    paths[0].write_text("\n".join(lines), "utf-8")
    paths[1].write_text("\n".join(pairs), "utf-8")
    return LabelledSample(str(paths[0]), str(paths[1]), len(lines), positives)
