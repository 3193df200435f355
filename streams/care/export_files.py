"""Where an export is written: a file, a gzip file, or standard output."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, cast

from simhash_core.errors import UsageError
from streams.files.input_lines import STANDARD_INPUT

_PARTIAL: Final = ".partial"
_FAST: Final = 3


@contextmanager
def export_output(file: str) -> Iterator[BinaryIO]:
    """Open what ``file`` names; it gets its name once all is written.

    Raises ``UsageError`` where it is there already, or cannot be written.
    """
    if file == STANDARD_INPUT:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    path = Path(file)
    if path.exists():
        raise UsageError(f"{file} exists: name another file, or delete it")
    partial = path.with_name(path.name + _PARTIAL)
    try:
        with partial.open("wb") as raw:
            if file.endswith(".gz"):
                with gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=_FAST) as packed:
                    yield cast("BinaryIO", packed)
            else:
                yield raw
        partial.rename(path)
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error.strerror}") from None
    finally:
        partial.unlink(missing_ok=True)
