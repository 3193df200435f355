"""An idf model: its name, its file, which is there whole or not at all, and what is shown of it."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from simhash_core.errors import UsageError
from simhash_core.text.idf_format import NAME, idf_identity, read_header
from streams.files.output_files import NewFile


def checked_name(name: str | None, output: Path) -> str:
    """Return the name of a model: the one given, or that of its file without suffixes.

    Raises ``UsageError`` for a name that cannot stand in an index identity.
    """
    name = output.name.partition(".")[0] if name is None else name
    if not re.fullmatch(NAME, name):
        raise UsageError(
            f"the model's name is {name!r}: give 1 to 64 of a-z A-Z 0-9 . _ - with --name, the "
            "first a letter or a digit"
        )
    return name


def write_model(output: Path, data: bytes) -> None:
    """Write the file of a model; raises ``OutputFileError``."""
    with closing(NewFile(output)) as file:
        file.write(data)
        file.finish()


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
