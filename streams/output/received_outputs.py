"""Records of the output topics, read back: what the filter said of which raw record.

The form of a record shows what it is, not the topic that it came from, so a copy of an output
topic reads alike. docs/formats.md has the forms.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from simhash_core.documents import SourcePosition
from simhash_core.errors import UsageError
from streams.output.duplicate_value import READABLE_SCHEMAS, DuplicateValue, decode_duplicate

_ERROR: Final = "__connect.errors."


class UniqueOutput(msgspec.Struct, frozen=True):
    """A first of its kind. ``undecidable`` is the reason where the text was too short, else ""."""

    source: SourcePosition
    id: str
    undecidable: str


class DuplicateOutput(msgspec.Struct, frozen=True):
    """A repeat, and the document that it repeats; ``similarity`` is from 0 to 1."""

    source: SourcePosition
    id: str
    original: SourcePosition
    original_id: str
    distance: int
    bits: int
    similarity: float
    method: str


class DeadLetterOutput(msgspec.Struct, frozen=True):
    """A record that could not be read."""

    source: SourcePosition
    reason: str
    detail: str


class TombstoneOutput(msgspec.Struct, frozen=True):
    """A document leaves ``unique``; ``reason``: ``deleted`` or ``replaced``."""

    source: SourcePosition
    id: str
    reason: str


ReceivedOutput = UniqueOutput | TombstoneOutput | DuplicateOutput | DeadLetterOutput


def received_output(
    value: bytes | None, headers: Iterable[tuple[str, bytes | None]]
) -> ReceivedOutput | None:
    """Return what a record of an output topic says; None where it is no output of the filter."""
    named = {name: (content or b"").decode(errors="replace") for name, content in headers}
    try:
        match named.get("firstseen-verdict"):
            case "unique" | "undecidable" as verdict:
                return UniqueOutput(
                    source_position(named["firstseen-source"]),
                    named["firstseen-id"],
                    named["firstseen-reason"] if verdict == "undecidable" else "",
                )
            case "deleted" | "replaced" as reason:
                position = source_position(named["firstseen-source"])
                return TombstoneOutput(position, named["firstseen-id"], reason)
            case "duplicate" if "firstseen-original-source" in named:
                return _tagged_duplicate(named)
            case "duplicate":
                return _duplicate(decode_duplicate(value or b""))
            case None if f"{_ERROR}offset" in named and "firstseen-reason" in named:
                return DeadLetterOutput(
                    SourcePosition(
                        named[f"{_ERROR}topic"],
                        int(named[f"{_ERROR}partition"]),
                        int(named[f"{_ERROR}offset"]),
                    ),
                    named["firstseen-reason"],
                    named[f"{_ERROR}exception.message"],
                )
    except (KeyError, ValueError, msgspec.MsgspecError):
        pass  # it has our headers, and not our form
    return None


def _tagged_duplicate(named: Mapping[str, str]) -> DuplicateOutput:
    """Return what the headers say: with ``mode=tag`` the value is the raw record's."""
    return DuplicateOutput(
        source_position(named["firstseen-source"]),
        named["firstseen-id"],
        source_position(named["firstseen-original-source"]),
        named["firstseen-original"],
        int(named["firstseen-distance"]),
        int(named["firstseen-bits"]),
        float(named["firstseen-similarity"]),
        named["firstseen-method"],
    )


def source_position(shown: str) -> SourcePosition:
    """Return the position that ``topic/partition@offset`` names; raises ``UsageError``."""
    topic, slash, rest = shown.partition("/")
    partition, at, offset = rest.partition("@")
    if not (topic and slash and at and partition.isdecimal() and offset.isdecimal()):
        raise UsageError(f"{shown!r} is not topic/partition@offset")
    return SourcePosition(topic, int(partition), int(offset))


def _duplicate(record: DuplicateValue) -> DuplicateOutput | None:
    if record.schema not in READABLE_SCHEMAS:
        return None
    return DuplicateOutput(
        record.source.position(),
        record.id,
        record.original.source.position(),
        record.original.id,
        record.distance,
        record.bits,
        record.similarity,
        record.method,
    )
