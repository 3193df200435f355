"""Normalisation of many texts at once: what ``normalize`` gives, for a fraction of the time.

Nearly every text is made of characters that have a normal form of their own, one character,
whatever stands beside them: these are looked up in a table, all of a batch in one step. A text
with any other character (an emoji, a combining mark, an ellipsis) goes through ``normalize``.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from simhash_core.text.normalization import normalize
from simhash_core.text.simplified import simplified_forms

_UTF16: Final = "utf-16-le"
_UNITS: Final = 0x10000
_NO_FORM: Final = 0
_BLANK: Final = ord(" ")
_LINE: Final = "\n"
# A letter that is its own form, and no other character's.
_SEPARATOR: Final = "龘"
_SURROGATES: Final = range(0xD800, 0xE000)
# Ideographs and Hangul syllables: their own forms, and more than half of all characters.
_OWN_FORMS: Final = (np.arange(0x3400, 0xA000), np.arange(0xAC00, 0xD7A4))
# Here are the characters of combining class 0 that may become one with what stands before them:
# vowel signs of Indian scripts, Hangul jamo. The whole stretch is left to the general way.
_MAY_JOIN: Final = range(0x0900, 0x1E00)


def normalize_batch(
    texts: Sequence[str], *, fold_case: bool = True, simplify: bool = False
) -> list[str]:
    """Return the normalised form of each text; the options are those of ``normalize``."""
    encoded = [text.encode(_UTF16, "surrogatepass") for text in texts]
    ends = np.cumsum([len(units) // 2 for units in encoded])
    forms = _table(fold_case=fold_case, simplify=simplify).take(
        np.frombuffer(b"".join(encoded), dtype="<u2")
    )
    special = set(np.searchsorted(ends, np.flatnonzero(forms == _NO_FORM), side="right").tolist())
    blank = forms == _BLANK
    # Runs become one blank, also where one runs over into the next text: texts are stripped below.
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
    """Return the normalised form of each term; quick where nearly all are normalised already."""
    units = np.frombuffer(_LINE.join([*terms, ""]).encode(_UTF16, "surrogatepass"), dtype="<u2")
    between = units == ord(_LINE)
    ends = np.flatnonzero(between)
    if ends.size != len(terms):
        return normalize_batch(terms)
    own_form = (
        (_table(fold_case=True).take(units) == units) & (units != _BLANK) & (units != _NO_FORM)
    )
    normal = list(terms)
    others = np.unique(np.searchsorted(ends, np.flatnonzero(~own_form & ~between))).tolist()
    for index, form in zip(others, normalize_batch([terms[i] for i in others]), strict=True):
        normal[index] = form
    return normal


@cache
def _table(*, fold_case: bool, simplify: bool = False) -> NDArray[np.uint16]:
    """Return the normal form of each UTF-16 unit that has one of its own, else ``_NO_FORM``."""
    if simplify:
        return _simplified(_table(fold_case=fold_case))
    table = np.full(_UNITS, _NO_FORM, dtype="<u2")
    for own in _OWN_FORMS:
        table[own] = own
    alone = [
        unit
        for unit in range(_UNITS)
        if not table[unit] and unit not in _SURROGATES and _stands_alone(unit)
    ]
    # All at once, as one text: each stands between separators, and so do their forms.
    text = _SEPARATOR.join(["", *map(chr, alone), ""])
    forms = normalize(text, fold_case=fold_case).split(_SEPARATOR)[1:-1]
    for unit, form in zip(alone, forms, strict=True):
        if len(form) == 1 and (ord(form) == unit or _stands_alone(ord(form))):
            table[unit] = ord(form)
    return table


def _simplified(table: NDArray[np.uint16]) -> NDArray[np.uint16]:
    """Return a table whose forms are simplified characters."""
    forms = np.arange(_UNITS, dtype="<u2")
    for character, form in simplified_forms().items():
        if character < _UNITS:
            forms[character] = form if form < _UNITS else _NO_FORM
    return forms.take(table)


def _stands_alone(code: int) -> bool:
    """Whether no character before this one can change it, or be changed by it."""
    return code < _UNITS and code not in _MAY_JOIN and not unicodedata.combining(chr(code))
