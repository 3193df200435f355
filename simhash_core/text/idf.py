"""The idf model: how rare each term is, from jieba's table or from a file."""

from __future__ import annotations

import hashlib
import math
import re
import statistics
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from math import inf, nan
from types import MappingProxyType
from typing import Annotated, Final, NamedTuple

import msgspec
from msgspec import Meta

from simhash_core.errors import UsageError
from simhash_core.text.normalization import NORMALIZATION, normalize_terms
from simhash_core.text.word_lists import read_jieba_file

# English function words with an idf. A table of Chinese terms gives every English word its median,
# so "the" would weigh like a rare name. The words in ``english_by_rank.txt`` are in order of
# frequency. The idf of rank r is 1 + 0.9 · ln r by Zipf's law, fitted to similar Chinese words in
# jieba's table (的 0.9, 了 1.5, 我们 3.4, 可以 3.5).
FUNCTION_WORDS_VERSION: Final = "english-1"

_BY_RANK: Final = (files("simhash_core.text") / "english_by_rank.txt").read_text("utf-8")
FUNCTION_WORD_IDF: Final[Mapping[str, float]] = MappingProxyType(
    {  # rounded, so that the logarithms of all machines give the same numbers
        word: round(1 + 0.9 * math.log(rank), 4)
        for rank, word in enumerate(_BY_RANK.split(), start=1)
    }
)


class IdfModel(NamedTuple):
    """Trained offline and never changed: a change would change the fingerprints of an index."""

    identity: str
    table: Mapping[str, float]
    unknown: float  # of a term outside the table
    segmenter: str = ""  # that cut the training texts; "": any will do

    def idf(self, term: str) -> float:
        return self.table.get(term, self.unknown)


@cache
def jieba_idf() -> IdfModel:
    """Return jieba's table with English words; unknown terms get the median, as in jieba."""
    data = read_jieba_file("analyse/idf.txt")
    chinese = parse_idf("jieba", data)
    return IdfModel(
        f"{chinese.identity}+{FUNCTION_WORDS_VERSION}",
        {**FUNCTION_WORD_IDF, **chinese.table},
        chinese.unknown,
    )


def parse_idf(name: str, data: bytes) -> IdfModel:
    """Read UTF-8 lines ``term idf``; raises ``UsageError`` for anything else."""
    text = data.decode("utf-8")
    fields = text.split()  # all lines at once, because a table has some 100,000
    terms, numbers = fields[::2], fields[1::2]
    regular = "\n".join(map(" ".join, zip(terms, numbers, strict=False)))
    try:
        values = list(map(float, numbers))
    except ValueError:
        values = [nan]
    in_range = values and all(0.0 <= value < inf for value in values)
    if regular != text.rstrip("\n") or not in_range:
        raise UsageError(f"idf model {name}: its lines are not 'term idf': reinstall it (pip)")
    # If several terms have the same normal form, the last one counts.
    table = dict(zip(normalize_terms(terms), values, strict=True))
    digest = hashlib.blake2b(data, digest_size=6).hexdigest()
    return IdfModel(f"{name}-{digest}", table, statistics.median(table.values()))


# docs/formats.md describes the file of a model (idf models). Decimals, not frequencies, give the
# same numbers on every machine.
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
    """The settings and counts of a model's training."""

    name: Annotated[str, Meta(pattern=f"^{NAME}$")]
    segmenter: str
    normalization: str
    documents: Annotated[int, Meta(ge=1)]
    least: Annotated[int, Meta(ge=1)]  # minimum of documents that contain a term of the table
    undercount: Annotated[int, Meta(ge=0)]  # a frequency may be too low by up to this number
    terms: Annotated[int, Meta(ge=1, le=TERMS_MAX)]
    unknown: Annotated[float, Meta(ge=0, lt=10_000)]  # the idf of terms outside the table


def encode_idf(header: IdfHeader, table: Mapping[str, float]) -> bytes:
    """Return the file of a model; ``header.terms`` must be the table's size."""
    lines = [f"{FORMAT}/{FORMAT_VERSION}", msgspec.json.encode(header).decode()]
    lines += [f"{table[term]:.4f} {term}" for term in sorted(table)]
    body = ("\n".join(lines) + "\n").encode()
    return body + f"{_DIGEST}{_digest(body)}\n".encode()


def decode_idf(data: bytes) -> IdfModel:
    """Read the file of a model; raises ``UsageError`` that begins with ``idf``.

    The error is raised for a file that is damaged, of another version, or made with another
    normalisation.
    """
    header, identity, lines = _opened(data)
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
    return IdfModel(identity, table, header.unknown, header.segmenter)


def read_header(data: bytes) -> tuple[IdfHeader, str]:
    """Return a model's header, and its part of the index identity; raises as ``decode_idf``."""
    return _opened(data)[:2]


def _opened(data: bytes) -> tuple[IdfHeader, str, list[str]]:
    """Check that a file is complete; return header, identity, and the lines of its terms."""
    first = data[: len(FORMAT) + 12].partition(b"\n")[0].decode("ascii", "replace")
    version = _FIRST.fullmatch(first)
    if version is None:
        raise UsageError(
            f"idf model: the file is not a model, it begins with {first!r}: create one with "
            "'firstseen idf train'"
        )
    if int(version[1]) != FORMAT_VERSION:
        raise UsageError(
            f"idf model: it has format version {version[1]}, this release reads "
            f"{FORMAT_VERSION}: train it again, or use the release that made it"
        )
    body_end = data.rfind(b"\n", 0, len(data) - 1) + 1
    digest = _digest(data[:body_end])
    if data[body_end:] != f"{_DIGEST}{digest}\n".encode():
        raise UsageError(
            "idf model: the file is damaged or truncated (wrong digest): copy or train it again"
        )
    try:
        lines = data[:body_end].decode().split("\n")[1:-1]
        header = msgspec.json.decode(lines[0], type=IdfHeader)
    except (UnicodeDecodeError, IndexError, msgspec.MsgspecError) as error:
        raise UsageError(f"idf model, header: {error}") from None
    return header, f"{header.name}-{digest[:_IDENTITY_DIGITS]}", lines[1:]


def _digest(body: bytes) -> str:
    return hashlib.blake2b(body, digest_size=_DIGEST_BYTES).hexdigest()
