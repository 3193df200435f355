"""From a document and its fingerprint to the message that begins its way through the shards."""

from __future__ import annotations

from simhash_core.documents import Document, RawRecord
from simhash_core.fingerprinter import Fingerprinted
from simhash_core.probes import Probe, Visit


def first_visit(document: Document, made: Fingerprinted, record: RawRecord) -> Visit:
    """Return the first visit of ``document``, which was read from ``record``."""
    return Visit(
        Probe(
            source=document.source,
            document_id=document.id,
            event_time_ms=document.event_time_ms,
            fingerprint=made.fingerprint,
            content_digest=made.content_digest,
            undecidable=made.undecidable,
            record=record,
            sketch=made.sketch,
        )
    )
