"""Files that may be packed: gzip (``.gz``) and Zstandard (``.zst``) by their name, else as is."""

from __future__ import annotations

import gzip
import io
import zlib
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

import zstandard

from simhash_core.errors import UsageError

PACKED_SUFFIXES: Final = (".gz", ".zst")
DAMAGED_ERRORS: Final = (EOFError, gzip.BadGzipFile, zlib.error, zstandard.ZstdError)
"""What reading a packed file raises where it is damaged or cut off."""

_CHUNK_BYTES: Final = 1 << 17


def unpacked_name(name: str) -> str:
    """Return a file's name without the suffix of its packing."""
    for suffix in PACKED_SUFFIXES:
        name = name.removesuffix(suffix)
    return name


def open_raw(file: str) -> BinaryIO:
    """Open a file as it is; raises ``UsageError`` where it cannot be."""
    try:
        return Path(file).open("rb")
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}") from None


def unpacked(raw: BinaryIO, name: str) -> BinaryIO:
    """Return the content of an open file, unpacked as its name says."""
    if name.endswith(".gz"):
        return cast("BinaryIO", gzip.GzipFile(fileobj=raw))
    if name.endswith(".zst"):
        return io.BufferedReader(_ZstandardReader(raw), _CHUNK_BYTES)
    return raw


class _ZstandardReader(io.RawIOBase):
    """Unpacks frame after frame; unlike the library's own reader, it notices a missing end."""

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        self._frame: Any = None
        self._packed = b""
        self._content = b""

    def readable(self) -> bool:
        """Say that it can be read."""
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - any writable buffer
        """Fill ``buffer`` as far as it goes; raises ``EOFError`` for a file that was cut off."""
        while not self._content and self._advance():
            pass
        size = min(len(buffer), len(self._content))
        buffer[:size] = self._content[:size]
        self._content = self._content[size:]
        return size

    def _advance(self) -> bool:
        """Unpack one more piece; False at the end of the file."""
        packed = self._packed or self._raw.read(_CHUNK_BYTES)
        self._packed = b""
        if not packed:
            if self._frame is not None:
                raise EOFError("the file ends within a frame")
            return False
        if self._frame is None:
            self._frame = zstandard.ZstdDecompressor().decompressobj()
        self._content = self._frame.decompress(packed)
        if self._frame.eof:
            self._packed, self._frame = self._frame.unused_data, None
        return True
