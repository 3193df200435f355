"""Writes the paragraphs of real texts to a file: distinct ones, in random order.

    python -m benchmarks.paragraphs FILE PATH... [--documents N] [--characters N]

Each PATH is a directory, a tar archive, or a file of documents (JSON lines with ``text``). Files of
other encodings than UTF-8 do not count. A paragraph ends at a blank line, in HTML at the end of a
block. Debian's packages of documentation and source texts are a good source (``dpkg -x``).
"""

from __future__ import annotations

import gzip
import html
import json
import random
import re
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from xxhash import xxh3_128_digest

from benchmarks.command import MeasurementError, add_number, errors_reported, new_parser

_SEED: Final = 7
_DOCUMENTS: Final = 3_020_000
_CHARACTERS: Final = 200
_CHARACTERS_MAX: Final = 20_000
_BYTES_MAX: Final = 16 << 20
"""The largest file that is read; larger ones are tables and data."""

_BLANK_LINES: Final = re.compile(r"\n[ \t\r]*\n\s*")
_HIDDEN: Final = re.compile(r"(?is)<(script|style)\b.*?</\1>|<!--.*?-->")
_BLOCK: Final = re.compile(r"(?i)</?(?:p|div|li|tr|table|pre|h\d|d[dt]|section|ul|ol|dl)\b[^>]*>")
_TAG: Final = re.compile(r"<[^>]*>")


def texts_of(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the texts of a path, each with a file name."""
    for packed_name, packed in _files_of(path):
        name = packed_name.removesuffix(".gz")
        content = gzip.decompress(packed) if name != packed_name else packed
        if name.endswith(".jsonl"):
            yield from ((name, json.loads(line)["text"]) for line in content.splitlines())
            continue
        try:
            text = content.decode()
        except UnicodeDecodeError:
            continue
        if "\0" not in text:
            yield name, text


def _files_of(path: Path) -> Iterator[tuple[str, bytes]]:
    if path.is_dir():
        for each in sorted(path.rglob("*")):
            if each.is_file() and not each.is_symlink():
                yield from _files_of(each)
    elif ".tar" in path.suffixes:
        with tarfile.open(path) as archive:
            for member in archive:
                if member.isfile() and member.size <= _BYTES_MAX:
                    file = archive.extractfile(member)
                    assert file is not None
                    yield member.name, file.read()
    elif path.stat().st_size <= _BYTES_MAX:
        yield path.name, path.read_bytes()


def paragraphs_of(name: str, text: str) -> Iterator[str]:
    if name.endswith((".html", ".xhtml")):
        text = _TAG.sub("", _BLOCK.sub("\n\n", _HIDDEN.sub("", text)))
        text = html.unescape(text)
    yield from (each.strip() for each in _BLANK_LINES.split(text))


def distinct(paths: Sequence[Path], characters: int) -> list[str]:
    """Return all paragraphs of enough characters that differ in more than white space."""
    known: set[bytes] = set()
    paragraphs = []
    for path in paths:
        for name, text in texts_of(path):
            for paragraph in paragraphs_of(name, text):
                if not characters <= len(paragraph) <= _CHARACTERS_MAX:
                    continue
                digest = xxh3_128_digest("".join(paragraph.split()).encode())
                if digest not in known:
                    known.add(digest)
                    paragraphs.append(paragraph)
    return paragraphs


def main(arguments: Sequence[str] | None = None) -> None:
    parser = new_parser("benchmarks.paragraphs", __doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("paths", type=Path, nargs="+", metavar="PATH")
    add_number(parser, "--documents", _DOCUMENTS, "the most paragraphs that are written")
    add_number(parser, "--characters", _CHARACTERS, "the fewest of a paragraph")
    options = parser.parse_args(arguments)
    with errors_reported(OSError):
        for path in options.paths:
            path.stat()  # name a missing one before the work
        paragraphs = distinct(options.paths, options.characters)
        if not paragraphs:
            raise MeasurementError(f"no paragraph has {options.characters} characters")
        random.Random(_SEED).shuffle(paragraphs)
        with options.file.open("wb") as file:
            for number, text in enumerate(paragraphs[: options.documents]):
                line = json.dumps({"id": str(number), "text": text}, ensure_ascii=False)
                file.write(line.encode(errors="replace") + b"\n")
    print(f"{min(len(paragraphs), options.documents):,} of {len(paragraphs):,} paragraphs")


if __name__ == "__main__":
    main()
