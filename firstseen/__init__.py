"""Firstseen for programs: which texts of a stream are the first of their kind.

::

    from firstseen import Deduplicator

    with Deduplicator() as seen:
        for text in texts:
            verdict = seen.add(text)

It has the same core and the same verdicts as the filter for Kafka (``firstseen worker``). Anything
that is not exported here may change in any release (docs/api.md).
"""

from __future__ import annotations

from firstseen.deduplicator import Deduplicator
from firstseen.fingerprinting import Fingerprinter
from simhash_core.documents import SourcePosition
from simhash_core.errors import FirstseenError
from simhash_core.text.fingerprinter import Fingerprinted
from simhash_core.verdicts import (
    DuplicateOf,
    Method,
    Undecidable,
    UndecidableReason,
    Unique,
    Verdict,
)
from streams.settings.settings import IndexSettings

__all__ = [
    "Deduplicator",
    "DuplicateOf",
    "Fingerprinted",
    "Fingerprinter",
    "FirstseenError",
    "IndexSettings",
    "Method",
    "SourcePosition",
    "Undecidable",
    "UndecidableReason",
    "Unique",
    "Verdict",
]
