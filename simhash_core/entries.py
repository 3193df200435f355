"""What an index remembers of a document."""

from __future__ import annotations

import msgspec

from simhash_core.documents import SourcePosition


class Entry(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A unique document: what a duplicate of it must name, and what it is judged by.

    ``fingerprint`` is empty for an undecidable document, which matches by its content alone.
    ``sketch`` is what candidates are confirmed by, empty where the index confirms none. ``scope``:
    it is compared with documents of the same one; fingerprint and content digest are those of
    ``simhash_core.scopes``.
    """

    source: SourcePosition
    document_id: str
    event_time_ms: int
    fingerprint: bytes
    content_digest: bytes
    sketch: bytes = b""
    scope: str = ""
