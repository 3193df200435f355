"""Files of documents to an idf model: read, cut into terms, counted, a batch at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec

from simhash_core.analysis.idf_training import DocumentFrequencies, TrainedIdf
from simhash_core.documents import Document, RawRecord, SourcePosition
from simhash_core.text.normal_forms import normalize_batch
from simhash_core.text.profiles import Profile
from simhash_core.text.segmentation import load_segmenter
from simhash_core.text.term_traits import word_of
from streams.documents.raw_documents import DocumentReader
from streams.files.input_documents import InputDocuments
from streams.settings.settings import Settings

TEXT_SUFFIXES: Final = (".txt", ".txt.gz")
"""Names of files with a plain text a line; others have a JSON document a line."""

_BATCH_CHARACTERS: Final = 1 << 17


class CorpusSize(msgspec.Struct):
    """What has been read: documents, and records that are none."""

    documents: int = 0
    unreadable: int = 0


class IdfCorpus:
    """The documents of ``files`` (folders and ``-`` too), to be gone through once."""

    def __init__(self, files: Sequence[str], settings: Settings) -> None:
        """Look at what there is; raises ``UsageError`` for what cannot be read."""
        self.size = CorpusSize()
        self._settings = settings
        by_kind: dict[bool, list[str]] = {}
        for file in files:
            by_kind.setdefault(file.endswith(TEXT_SUFFIXES), []).append(file)
        self._inputs = [
            (
                InputDocuments(paths, fields, settings.max_record_bytes),
                DocumentReader(fields, settings.max_record_bytes),
            )
            for is_text, paths in by_kind.items()
            for fields in [
                msgspec.structs.replace(settings.fields, format="text")
                if is_text
                else settings.fields
            ]
        ]
        totals = [documents.total_bytes for documents, _ in self._inputs]
        self.total_bytes = None if None in totals else sum(total or 0 for total in totals)

    @property
    def bytes_read(self) -> int:
        """How much of ``total_bytes`` has been read."""
        return sum(documents.bytes_read for documents, _ in self._inputs)

    def batches(self) -> Iterator[list[str]]:
        """Yield the texts, some at a time; raises ``InputFileError`` where a file is damaged."""
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
                source = SourcePosition("idf", 0, number)
                if record.value is None:
                    self.size.unreadable += 1
                    continue
                item = reader.read(source, RawRecord(None, record.value, 0))
                if isinstance(item, Document):
                    self.size.documents += 1
                    yield item.text
                else:
                    self.size.unreadable += 1


def train_idf(
    corpus: IdfCorpus,
    profile: Profile,
    *,
    name: str,
    terms_max: int,
    least: int,
    watch: Callable[[], None] = lambda: None,
) -> TrainedIdf:
    """Count the terms that the profile's segmenter gives; ``watch`` is called after each batch.

    Raises ``UsageError`` for invalid bounds, and for a corpus without common terms.
    """
    segmenter = load_segmenter(profile.segmenter, profile.user_dictionary)
    frequencies = DocumentFrequencies(terms_max)
    for texts in corpus.batches():
        for terms in segmenter.cut_all(normalize_batch(texts)):
            frequencies.add(map(word_of, terms))
        watch()
    return frequencies.model(name, profile.segmenter, least)
