"""Trains an idf model from files of documents, and writes its file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import msgspec

from simhash_core.analysis.idf_training import DocumentFrequencies, TrainedIdf
from simhash_core.documents import Document, RawRecord, SourcePosition
from simhash_core.errors import UsageError
from simhash_core.text.idf import NAME, read_header
from simhash_core.text.normalization import normalize_batch
from simhash_core.text.profiles import Profile
from simhash_core.text.segmentation import load_segmenter, word_of
from streams.documents.raw_documents import DocumentReader
from streams.files.document_files import InputDocuments
from streams.files.output_files import NewFile
from streams.settings.settings import Settings

TEXT_SUFFIXES: Final = (".txt", ".txt.gz")
"""Such files have one plain text per line; other files have one JSON document per line."""

_BATCH_CHARACTERS: Final = 1 << 17


class IdfCorpus:
    """The documents of ``files`` (folders and ``-`` too), which can be iterated once."""

    def __init__(self, files: Sequence[str], settings: Settings) -> None:
        self.unreadable = 0
        by_kind: dict[bool, list[str]] = {}
        for file in files:
            by_kind.setdefault(file.endswith(TEXT_SUFFIXES), []).append(file)
        self._inputs: list[tuple[InputDocuments, DocumentReader]] = []
        for is_text, paths in by_kind.items():
            fields = settings.fields
            if is_text:
                fields = msgspec.structs.replace(fields, format="text")
            documents = InputDocuments(paths, fields, settings.max_record_bytes)
            self._inputs.append((documents, DocumentReader(fields, settings.max_record_bytes)))
        totals = [documents.total_bytes for documents, _ in self._inputs]
        self.total_bytes = None if None in totals else sum(total or 0 for total in totals)

    @property
    def bytes_read(self) -> int:
        return sum(documents.bytes_read for documents, _ in self._inputs)

    def batches(self) -> Iterator[list[str]]:
        """Yield the texts in batches; raise ``InputFileError`` if a file is damaged."""
        texts: list[str] = []
        characters = 0
        for text in self._texts():
            texts.append(text)
            characters += len(text)
            if characters >= _BATCH_CHARACTERS:
                yield texts
                texts, characters = [], 0
        if texts:
            yield texts

    def _texts(self) -> Iterator[str]:
        for documents, reader in self._inputs:
            for number, record in enumerate(documents):
                item = None
                if record.value is not None:
                    source = SourcePosition("idf", 0, number)
                    item = reader.read(source, RawRecord(None, record.value, 0))
                if isinstance(item, Document):
                    yield item.text
                else:
                    self.unreadable += 1


def train_idf(
    corpus: IdfCorpus,
    profile: Profile,
    *,
    name: str,
    terms_max: int,
    least: int,
    watch: Callable[[], None] = lambda: None,
) -> TrainedIdf:
    """Count the terms of the profile's segmenter; ``watch`` is called after each batch.

    Raises ``UsageError`` for invalid bounds, and for a corpus without common terms.
    """
    segmenter = load_segmenter(profile.segmenter, profile.user_dictionary)
    frequencies = DocumentFrequencies(terms_max)
    for texts in corpus.batches():
        for terms in segmenter.cut_all(normalize_batch(texts)):
            frequencies.add(map(word_of, terms))
        watch()
    return frequencies.model(name, profile.segmenter, least)


def checked_name(name: str | None, output: Path) -> str:
    """Return the given name, or the file's without suffixes; raise ``UsageError`` if invalid."""
    name = output.name.partition(".")[0] if name is None else name
    if not re.fullmatch(NAME, name):
        raise UsageError(
            f"the model's name is {name!r}: give 1 to 64 of a-z A-Z 0-9 . _ - with --name, the "
            "first a letter or a digit"
        )
    return name


def write_model(output: Path, data: bytes) -> None:
    with closing(NewFile(output)) as file:
        file.write(data)
        file.finish()


def model_object(data: bytes) -> dict[str, Any]:
    """Return a model's header with identity and size; raise as ``read_header`` does."""
    header, identity = read_header(data)
    return {"identity": identity, **msgspec.to_builtins(header), "bytes": len(data)}


def header_text(data: bytes) -> str:
    header, identity = read_header(data)
    shown = (
        f"{identity}, {header.terms:,} terms of {header.documents:,} documents, "
        f"cut by {header.segmenter}; each is in {header.least:,} or more, "
        f"others count as {header.unknown:g}"
    )
    if header.undercount:
        shown += (
            f"; counts may be up to {header.undercount:,} too low, because --terms limits memory"
        )
    return shown
