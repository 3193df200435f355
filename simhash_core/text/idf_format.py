"""Idf models as files: a text that says what it is, how it was made, and whether it is whole.

::

    firstseen-idf/1
    {"name":"news","segmenter":"words","normalization":"nfkc-casefold-1",…}
    1.0986 大桥
    …
    digest 6fb2…

UTF-8, each line ended by a newline. The second line is the header (``IdfHeader``), then a line a
term: the idf with four decimals, a blank, the term as normalised texts have it; terms rise by code
point. The last line has BLAKE2b-128 of all bytes before it. Decimals, not frequencies, are stored,
so that a model gives the same numbers on every machine.

Name and digest are the model's identity, which is part of the index identity: workers with two
different models under one name never share an index.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from simhash_core.errors import UsageError
from simhash_core.text.idf import IdfModel
from simhash_core.text.normalization import NORMALIZATION

FORMAT: Final = "firstseen-idf"
FORMAT_VERSION: Final = 1
TERMS_MAX: Final = 5_000_000
BYTES_MAX: Final = 256 * 1024 * 1024
NAME: Final = "[a-zA-Z0-9][a-zA-Z0-9._-]{0,63}"

_FIRST: Final = re.compile(rf"{FORMAT}/(\d{{1,9}})")
_LINE: Final = re.compile(r"(\d{1,4}\.\d{4}) (\S.*)")
_DIGEST: Final = "digest "
_DIGEST_BYTES: Final = 16
_IDENTITY_DIGITS: Final = 12


class IdfHeader(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a model was made.

    ``segmenter``: the name of what cut the texts. ``documents``: how many there were. ``least``: in
    how many documents a term of the table is at least. ``undercount``: by how much a document
    frequency may be too low, as memory was bounded. ``unknown``: the idf of other terms.
    """

    name: Annotated[str, Meta(pattern=f"^{NAME}$")]
    segmenter: str
    normalization: str
    documents: Annotated[int, Meta(ge=1)]
    least: Annotated[int, Meta(ge=1)]
    undercount: Annotated[int, Meta(ge=0)]
    terms: Annotated[int, Meta(ge=1, le=TERMS_MAX)]
    unknown: Annotated[float, Meta(ge=0, lt=10_000)]


def encode_idf(header: IdfHeader, table: Mapping[str, float]) -> bytes:
    """Return the file of a model; ``header.terms`` must be the table's size."""
    lines = [f"{FORMAT}/{FORMAT_VERSION}", msgspec.json.encode(header).decode()]
    lines += [f"{table[term]:.4f} {term}" for term in sorted(table)]
    body = ("\n".join(lines) + "\n").encode()
    return body + f"{_DIGEST}{_digest(body)}\n".encode()


def decode_idf(data: bytes) -> IdfModel:
    """Read the file of a model.

    Raises ``UsageError`` that begins with ``idf`` for one that is damaged, of another version, or
    made by another normalisation.
    """
    header, lines = _opened(data)
    table: dict[str, float] = {}
    for number, line in enumerate(lines, start=3):
        matched = _LINE.fullmatch(line)
        if matched is None:
            raise UsageError(f"idf model, line {number}: expected 'idf term', got {line[:80]!r}")
        table[matched[2]] = float(matched[1])
    if len(table) != header.terms:
        raise UsageError(f"idf model: it has {len(table)} terms, its header says {header.terms}")
    if header.normalization != NORMALIZATION:
        raise UsageError(
            f"idf model: it was trained with the normalisation {header.normalization}, this is "
            f"{NORMALIZATION}: train it again"
        )
    return IdfModel(idf_identity(data), table, header.unknown, header.segmenter)


def idf_identity(data: bytes) -> str:
    """Return what stands in the index identity; raises as ``decode_idf`` for a damaged file."""
    digest = data[-_DIGEST_BYTES * 2 - 1 : -1].decode()
    return f"{read_header(data).name}-{digest[:_IDENTITY_DIGITS]}"


def read_header(data: bytes) -> IdfHeader:
    """Return how a model was made; raises as ``decode_idf`` does for a damaged one."""
    return _opened(data)[0]


def _opened(data: bytes) -> tuple[IdfHeader, list[str]]:
    """Check that a file is whole; return its header and the lines of its terms."""
    first = data[: len(FORMAT) + 12].partition(b"\n")[0].decode("ascii", "replace")
    version = _FIRST.fullmatch(first)
    if version is None:
        raise UsageError(
            f"idf model: the file is not a model, it begins with {first!r}: "
            "make one with 'firstseen idf train'"
        )
    if int(version[1]) != FORMAT_VERSION:
        raise UsageError(
            f"idf model: it has format version {version[1]}, this release reads "
            f"{FORMAT_VERSION}: train it again, or use the release that made it"
        )
    body_end = data.rfind(b"\n", 0, len(data) - 1) + 1
    last = data[body_end:]
    if last != f"{_DIGEST}{_digest(data[:body_end])}\n".encode():
        raise UsageError(
            "idf model: the file is damaged or truncated (wrong digest): copy or train it again"
        )
    try:
        lines = data[:body_end].decode().split("\n")[1:-1]
        header = msgspec.json.decode(lines[0], type=IdfHeader)
    except (UnicodeDecodeError, IndexError, msgspec.MsgspecError) as error:
        raise UsageError(f"idf model, header: {error}") from None
    return header, lines[1:]


def _digest(body: bytes) -> str:
    return hashlib.blake2b(body, digest_size=_DIGEST_BYTES).hexdigest()
