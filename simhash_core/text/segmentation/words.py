"""The words of any language: a dictionary for Chinese, words between blanks, else n-grams.

jieba and rjieba know Han and ASCII; of any other script they give single characters, by which all
texts of a language are alike. So the runs of other scripts are taken out and cut by what they are:

- letters of a script that leaves blanks between words (Latin with marks, Greek, Cyrillic, Arabic,
  Devanagari, Hangul, …) and ASCII letters and digits beside them: one word a run;
- Han with kana among it: Japanese, as overlapping runs of ``GRAM`` characters;
- scripts without blanks (Thai, Lao, Khmer, Myanmar, Tibetan, …): the same with ``LONG_GRAM``, as
  it takes more letters than syllable signs to make a word.

All that is left goes to the dictionary segmenter in one piece, so that a Chinese or English text
has exactly the terms that this one gives. Traditional Chinese does as well: the dictionary knows
less of it, and guesses the rest by a model of characters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from simhash_core.text.scripts import HAN, KANA, SPACED, UNSPACED

GRAM: Final = 3
LONG_GRAM: Final = 4
VERSION: Final = "words-1"

_UTF16: Final = "utf-16-le"
_SPECIAL: Final = re.compile(f"[{KANA}{UNSPACED}{SPACED}]")
_KANA: Final = re.compile(f"[{KANA}]")
_SPACED: Final = re.compile(f"[{SPACED}]")
# Each alternative is one class repeated, so a run is read once, however long it is.
_RUNS: Final = re.compile(
    f"(?P<japanese>[{HAN}{KANA}]+)|(?P<unspaced>[{UNSPACED}]+)|(?P<spaced>[A-Za-z0-9{SPACED}]+)"
)

Cut = Callable[[str], Sequence[str]]


def cut_all(texts: Sequence[str], dictionary: Cut) -> Iterator[Sequence[str]]:
    """Yield the terms of each normalised text; ``dictionary`` cuts Chinese and ASCII."""
    special = _texts_with_other_scripts(texts)
    for i, text in enumerate(texts):
        yield list(_cut(text, dictionary)) if i in special else dictionary(text)


def _cut(text: str, dictionary: Cut) -> Iterator[str]:
    done = 0
    for run in _RUNS.finditer(text):
        terms = _terms_of(run)
        if terms is not None:
            start, end = run.span()
            if start > done:
                yield from dictionary(text[done:start])
            yield from terms
            done = end
    if done < len(text):
        yield from dictionary(text[done:])


def _terms_of(run: re.Match[str]) -> Sequence[str] | None:
    """Return the terms of a run, None where it is the dictionary's."""
    text = run.group()
    if run.lastgroup == "unspaced":
        return _grams(text, LONG_GRAM)
    if run.lastgroup == "japanese":
        return _grams(text, GRAM) if _KANA.search(text) else None
    return [text] if _SPACED.search(text) else None


def _grams(text: str, width: int) -> Sequence[str]:
    return [text[i : i + width] for i in range(max(1, len(text) - width + 1))]


def _texts_with_other_scripts(texts: Sequence[str]) -> set[int]:
    """Return the places of texts that have a character that the dictionary does not know."""
    encoded = [text.encode(_UTF16, "surrogatepass") for text in texts]
    ends = np.cumsum([len(units) // 2 for units in encoded])
    special = _SPECIAL_UNITS.take(np.frombuffer(b"".join(encoded), dtype="<u2"))
    return set(np.searchsorted(ends, np.flatnonzero(special), side="right").tolist())


def _special_units() -> NDArray[np.bool_]:
    """Return for each UTF-16 unit whether it is of another script; none is of a pair."""
    units = np.arange(0x10000, dtype="<u2").tobytes().decode(_UTF16, "surrogatepass")
    is_special = np.zeros(0x10000, dtype=np.bool_)
    is_special[[ord(character) for character in _SPECIAL.findall(units)]] = True
    return is_special


_SPECIAL_UNITS: Final = _special_units()
