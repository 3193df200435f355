"""A file of generated documents with the truth about them, and how well it was found again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from streams.corpus.corpus import generate

SEED = 7


class Quality(NamedTuple):
    """Recall: copies that were joined with an original of theirs. Precision: of all that were."""

    recall: float
    precision: float


def write_documents(path: Path, count: int) -> list[int]:
    """Write ``count`` documents, a line each; return the number of each one's root, or its own.

    Articles, their copies and short posts; what is no document is left out.
    """
    roots: list[int] = []
    number_of: dict[str, int] = {}
    with path.open("wb") as file:
        for record in generate(SEED, 2 * count):
            if record.value is None or record.id is None or record.expected == "dead_letter":
                continue
            number_of[record.id] = len(roots)
            roots.append(len(roots) if record.root is None else number_of[record.root])
            fields = json.loads(record.value)
            line = {"id": record.id, "text": fields["text"]}
            file.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")
            if len(roots) == count:
                break
    return roots


def quality_of(roots: Sequence[int], originals: Sequence[int]) -> Quality:
    """Compare what was decided with the truth; both are numbers of documents."""
    copies = [number for number, root in enumerate(roots) if root != number]
    joined = [number for number, original in enumerate(originals) if original != number]
    right = sum(roots[number] == roots[originals[number]] for number in joined)
    caught = sum(originals[n] != n and roots[n] == roots[originals[n]] for n in copies)
    return Quality(caught / max(1, len(copies)), right / max(1, len(joined)))
