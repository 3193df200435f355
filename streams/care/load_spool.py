"""What is to be loaded, on disk until all of it is known to be readable: a temporary file.

Only then does the one transaction begin that brings it into the index.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import Final, NamedTuple, Self

import msgspec

from simhash_core.document_columns import DocumentColumns
from streams.store.columns_codec import EncodedColumns, decode_columns, encode_columns

_LENGTH_BYTES: Final = 4


class LoadedRun(NamedTuple):
    """Documents of one source, in rising order of their offsets in it."""

    topic: str
    partition: int
    columns: DocumentColumns


class _Run(msgspec.Struct, frozen=True, array_like=True):
    topic: str
    partition: int
    columns: EncodedColumns


class LoadSpool:
    """Runs, first written and then read; the file is gone at the end of the block."""

    def __init__(self) -> None:
        """Make the file, in the directory for temporary files (``TMPDIR``)."""
        self.documents = 0
        self._file = tempfile.TemporaryFile(prefix="firstseen-load-")  # noqa: SIM115 - closed by __exit__
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder(_Run).decode

    def __enter__(self) -> Self:
        """Give itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Delete the file."""
        self._file.close()

    def write(self, run: LoadedRun) -> None:
        """Add a run."""
        value = self._encode(_Run(run.topic, run.partition, encode_columns(run.columns)))
        self._file.write(len(value).to_bytes(_LENGTH_BYTES, "big"))
        self._file.write(value)
        self.documents += len(run.columns)

    def read(self) -> Iterator[LoadedRun]:
        """Yield the runs in order."""
        self._file.seek(0)
        while head := self._file.read(_LENGTH_BYTES):
            run = self._decode(self._file.read(int.from_bytes(head, "big")))
            yield LoadedRun(run.topic, run.partition, decode_columns([run.columns]))
