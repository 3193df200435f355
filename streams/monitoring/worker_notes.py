"""What a worker writes beside the offsets that it commits, so that all others can show it.

Kafka keeps a text with each committed offset. A worker writes there who it is, where its page is,
and what it has put out since it started. The text is committed with the outputs that it counts, so
the figures are exact; and reading the group's offsets is one request, whatever the number of
workers.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from typing import Final

import msgspec

NOTE_BYTES_LIMIT: Final = 2048
"""A broker takes 4,096 (``offset.metadata.max.bytes``) unless it was set lower."""

_MILLISECONDS: Final = 1000


class WorkerNote(msgspec.Struct, frozen=True, omit_defaults=True):
    """One worker, as of its commit at ``at_ms``.

    ``documents``: put out since ``since_ms``, by verdict. ``page``: the address of its ops page.
    """

    worker: str
    since_ms: int
    at_ms: int
    documents: dict[str, int] = {}
    page: str = ""


class WorkerNotes:
    """Writes the notes of one worker, and counts for them. One thread at a time."""

    def __init__(self, worker: str, page: str | None) -> None:
        """``worker``: the name of the worker in the group."""
        self._worker = worker
        self._page = page or ""
        self._since_ms = _now_ms()
        self._documents: Counter[str] = Counter()

    def note(self, documents: Mapping[str, int]) -> str:
        """Return the text for a commit of so many documents, by verdict; "" where it is too long.

        The documents count from then on if ``committed`` says so.
        """
        counts = {name: self._documents[name] + count for name, count in documents.items()}
        note = WorkerNote(
            self._worker, self._since_ms, _now_ms(), dict(self._documents) | counts, self._page
        )
        text = msgspec.json.encode(note).decode()
        return text if len(text.encode()) <= NOTE_BYTES_LIMIT else ""

    def committed(self, documents: Mapping[str, int]) -> None:
        """Count documents whose outputs are committed."""
        self._documents.update(documents)


def decode_note(text: str | None) -> WorkerNote | None:
    """Return the note in the text of an offset; None where it is none of ours."""
    try:
        return msgspec.json.decode(text or "", type=WorkerNote)
    except msgspec.DecodeError:
        return None


def _now_ms() -> int:
    return int(time.time() * _MILLISECONDS)
