"""A labelled sample out of documents that nobody has labelled: originals, and edits of them.

Documents are drawn at random from a file of any size; those that repeat another of the draw, by
the deduplicator and the exact Jaccard, are left out, so that what is joined across originals is
wrong. Each copy is labelled with the original that it was made of: positive where the two still
share half of their character 5-grams, else not to be scored.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from simhash_core.analysis.exact_jaccard import exact_jaccard
from simhash_core.documents import Document
from streams.offline.evaluation.dedup_pass import decide
from streams.offline.evaluation.evaluation import Labelled, read_labelled
from streams.offline.evaluation.figures import FALSE_DUPLICATE_BELOW, POSITIVE, UNSCORED
from streams.offline.evaluation.injected_edits import edited_copies
from streams.offline.evaluation.labelled_files import (
    LabelledFileError,
    documents_again,
    read_documents,
)
from streams.offline.evaluation.text_pass import exact_jaccards, named_by
from streams.settings.settings import Settings

_encode: Final = msgspec.json.Encoder().encode


class InjectedSample(NamedTuple):
    """The sample, and how it came about: documents drawn, repeats among them, originals, copies."""

    labelled: Labelled
    drawn: int
    repeats: int
    originals: int
    copies: int


def inject(
    file: str, settings: Settings, directory: Path, *, size: int, copies: int, seed: int
) -> InjectedSample:
    """Draw up to ``size`` documents of ``file``, and write the sample into ``directory``.

    Originals come first, then the copies, as in a stream. The fields of the sample have their
    default names. Raises what ``read_documents`` raises.
    """
    drawn = _drawn(file, settings, size, seed)
    if not drawn:
        raise LabelledFileError(f"{file} has no documents with text to make copies of")
    plain = Settings(max_record_bytes=settings.max_record_bytes)
    path = directory / "drawn.jsonl"
    _write(path, [_record(str(number), each) for number, each in enumerate(drawn)])
    kept = _without_repeats(str(path), plain, drawn)
    edited = edited_copies([document.text for document in kept], copies, seed)
    records = [_record(f"{number}", each, f"{number}") for number, each in enumerate(kept)]
    pairs = ["id1\tid2\tlabel\tjaccard"]
    for number, copy in enumerate(edited):
        name = f"{copy.of}-{number}"
        original = kept[copy.of]
        records.append(
            _record(name, msgspec.structs.replace(original, text=copy.text), f"{copy.of}")
        )
        jaccard = exact_jaccard(original.text, copy.text)
        label = POSITIVE if jaccard >= FALSE_DUPLICATE_BELOW else UNSCORED
        pairs.append(f"{copy.of}\t{name}\t{label}\t{jaccard:.4f}")
    _write(directory / "sample.jsonl", records)
    (directory / "pairs.tsv").write_text("\n".join(pairs), "utf-8")
    labelled = read_labelled(str(directory / "sample.jsonl"), str(directory / "pairs.tsv"), plain)
    return InjectedSample(labelled, len(drawn), len(drawn) - len(kept), len(kept), len(edited))


def _drawn(file: str, settings: Settings, size: int, seed: int) -> list[Document]:
    """Draw documents that have a text, each with the same chance (Vitter's algorithm R)."""
    rng = random.Random(seed)  # noqa: S311 - a sample, not a secret
    drawn: list[Document] = []
    seen = 0
    for document in documents_again(file, settings):
        if not document.text.strip():
            continue
        seen += 1
        if len(drawn) < size:
            drawn.append(document)
        elif (at := int(rng.random() * seen)) < size:
            drawn[at] = document
    return drawn


def _without_repeats(file: str, settings: Settings, drawn: list[Document]) -> list[Document]:
    decided = decide(file, settings, read_documents(file, settings))
    named = named_by(decided.originals)
    jaccards = exact_jaccards(documents_again(file, settings), named)
    repeats = {
        duplicate
        for (duplicate, _), jaccard in jaccards.items()
        if jaccard >= FALSE_DUPLICATE_BELOW
    }
    return [document for number, document in enumerate(drawn) if number not in repeats]


def _record(name: str, document: Document, group: str | None = None) -> dict[str, object]:
    record: dict[str, object] = {
        "id": name,
        "text": document.text,
        "title": document.title,
        "keywords": document.keywords,
        "tags": document.tags,
        "references": document.references,
    }
    return record if group is None else record | {"group": group}


def _write(path: Path, records: list[dict[str, object]]) -> None:
    path.write_bytes(b"".join(_encode(record) + b"\n" for record in records))
