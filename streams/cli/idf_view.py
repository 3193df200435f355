"""What is shown of an idf model, for people and as JSON."""

from __future__ import annotations

from typing import Any

import msgspec

from simhash_core.text.idf_format import idf_identity, read_header


def model_object(data: bytes) -> dict[str, Any]:
    """Return the header of a model, with its identity and size; raises as ``read_header`` does."""
    header: dict[str, Any] = msgspec.to_builtins(read_header(data))
    return {"identity": idf_identity(data), **header, "bytes": len(data)}


def header_text(data: bytes) -> str:
    """Return the same in words."""
    header = read_header(data)
    shown = (
        f"{idf_identity(data)}, {header.terms:,} terms of {header.documents:,} documents, "
        f"cut by {header.segmenter}; each is in {header.least:,} or more, "
        f"others count as {header.unknown:g}"
    )
    if header.undercount:
        shown += f"; counts may be up to {header.undercount:,} too low, as --terms bounds memory"
    return shown
