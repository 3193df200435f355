"""Writing an idf model: its name, and a file that is there whole or not at all."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

from simhash_core.errors import UsageError
from simhash_core.text.idf_format import NAME
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
