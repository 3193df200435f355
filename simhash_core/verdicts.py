"""What is said of a document in the end."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from simhash_core.documents import SourcePosition


class UndecidableReason(StrEnum):
    """Why a text cannot be near-matched (a closed list; the values stand in headers)."""

    EMPTY = "empty"
    """Nothing is left after normalisation."""
    NO_FEATURES = "no_features"
    """Only punctuation, symbols or emoji."""
    TOO_FEW_FEATURES = "too_few_features"
    """Fewer distinct features than a fingerprint needs to tell texts apart."""


class Method(StrEnum):
    """How a duplicate was recognised."""

    EXACT = "exact"
    """Equal content after normalisation."""
    NEAR = "near"
    """Fingerprints within the distance."""


class Unique(msgspec.Struct, frozen=True):
    """The first of its kind."""


class Undecidable(msgspec.Struct, frozen=True):
    """Too little text to be near anything, and no exact repeat: put out, never dropped."""

    reason: UndecidableReason


class DuplicateOf(msgspec.Struct, frozen=True, gc=False):
    """A near copy of ``original``, which is unique.

    ``distance`` in bits; ``block`` is the index of the first equal block, None for a match by
    content of texts that are undecidable. ``agreement`` is how similar the sketches are, by the
    measure of the index (``simhash_core.text.verification``); None where it confirms no candidates,
    and for equal content, which needs no confirmation.
    """

    original_id: str
    original: SourcePosition
    original_event_time_ms: int
    distance: int
    block: int | None
    method: Method
    agreement: float | None = None


Verdict = Unique | Undecidable | DuplicateOf

VERDICT_NAMES: Final = ("unique", "undecidable", "near_duplicate", "exact_duplicate")
"""The names under which verdicts are counted."""


def verdict_name(verdict: Verdict) -> str:
    """Return the name under which ``verdict`` is counted: one of ``VERDICT_NAMES``."""
    match verdict:
        case Unique():
            return "unique"
        case Undecidable():
            return "undecidable"
        case DuplicateOf(method=Method.EXACT):
            return "exact_duplicate"
        case DuplicateOf():
            return "near_duplicate"
