"""The records of a demo: generated, with the truth about them, or from the user's own files."""

from __future__ import annotations

from collections.abc import Iterator

from streams.corpus.corpus import generate
from streams.demo.feed import LONGEST_BYTES, FeedRecord
from streams.demo.request import DemoRequest
from streams.demo.scoring import Truth
from streams.files.input_documents import InputDocuments
from streams.settings.settings import Settings


class StreamSource:
    """The stream, to be gone through once. ``truth`` is None where only the user knows it."""

    def __init__(self, request: DemoRequest, settings: Settings) -> None:
        """Raise ``UsageError`` for a file that cannot be read."""
        self.truth: Truth | None = None
        self.too_long = 0
        self._request = request
        self._input: InputDocuments | None = None
        if request.input is None:
            self.truth = Truth()
        else:
            self._input = InputDocuments([request.input], settings.fields, LONGEST_BYTES)

    def __iter__(self) -> Iterator[FeedRecord]:
        if self._input is not None:
            yield from self._read(self._input)
            return
        assert self.truth is not None
        for record in generate(self._request.seed, self._request.generated()):
            yield FeedRecord(record.key, record.value, self.truth.add(record))

    def share(self, sent: int, decided: int) -> float | None:
        """How much of the stream is done, from 0 to 1; None where its length is not known."""
        if self._input is None:
            return decided / max(1, self._request.generated())
        if self._request.documents is not None:
            return decided / self._request.documents
        if self._input.total_bytes is None:
            return None
        read = self._input.bytes_read / max(1, self._input.total_bytes)
        return read * decided / max(1, sent)

    def _read(self, documents: InputDocuments) -> Iterator[FeedRecord]:
        left = self._request.documents
        for record in documents:
            if left == 0:
                return
            if record.value is None:
                self.too_long += 1
                continue
            yield FeedRecord(record.key, record.value, where=record.where)
            left = None if left is None else left - 1
