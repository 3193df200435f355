"""Segmenters by name: they split normalised text into terms.

A segmenter is a pure function from text to its terms in order, repeats included. Its identity has
the versions of its parts, because the index identity must change when terms may change. Terms
without a letter or digit are included; ``is_feature`` says which terms count.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simhash_core.errors import UnknownNameError
from simhash_core.text.word_lists import UserDictionary

# Scripts, written as the insides of character classes in regular expressions. They are spelled out,
# because with a table of the interpreter, features would depend on its Unicode version.

# Chinese characters, and the marks that repeat a character: all that a dictionary segmenter knows.
HAN: Final = "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"

# Hiragana and katakana: a text in Han characters with these is Japanese.
KANA: Final = "\u3041-\u3096\u3099-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"

# Other scripts that write no blanks between words.
UNSPACED: Final = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u0f00-\u0fff"  # Tibetan
    "\u1000-\u109f\ua9e0-\ua9ff\uaa60-\uaa7f"  # Myanmar
    "\u1780-\u17ff"  # Khmer
    "\u1950-\u19df\u1a20-\u1aaf\uaa80-\uaadf"  # Tai scripts
    "\u1b00-\u1b7f\ua980-\ua9df"  # Balinese, Javanese
    "\ua000-\ua4cf"  # Yi
)
# Letters, marks and digits of scripts that write blanks between words.
SPACED: Final = (
    "\u00aa\u00b5\u00ba\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02af"  # Latin with marks
    "\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20f0\ufe20-\ufe2f"  # marks that combine
    "\u0370-\u0374\u0376-\u037d\u037f-\u0383\u0386\u0388-\u03f5\u03f7-\u03ff"  # Greek
    "\u1f00-\u1fbc\u1fbe\u1fc2-\u1fcc\u1fd0-\u1fdc\u1fe0-\u1fec\u1ff0-\u1ffc"
    "\u0400-\u0481\u0483-\u052f\u1c80-\u1c8f\u2de0-\u2dff\ua640-\ua672\ua674-\ua67d\ua67f-\ua69f"
    "\u0531-\u0559\u0560-\u0588\u10a0-\u10fa\u10fc-\u10ff\u1c90-\u1cbf\u2d00-\u2d2f"  # Caucasus
    "\u0591-\u05bd\u05bf\u05c1-\u05c2\u05c4-\u05c5\u05c7-\u05f2"  # Hebrew
    "\u0610-\u061a\u0620-\u0669\u066e-\u06d3\u06d5-\u06dd\u06df-\u06e8\u06ea-\u06fc\u06ff"  # Arabic
    "\u0710-\u07f5\u07fa-\u07fd\u0800-\u082f\u0840-\u085d\u0860-\u0887\u0889-\u08ff"
    "\u0900-\u0963\u0966-\u096f\u0971-\u09f1\u09f4-\u09f9\u09fc\u09fe-\u0a75\u0a77-\u0aef"  # India
    "\u0af2-\u0b6f\u0b71-\u0bf2\u0bfb-\u0c76\u0c78-\u0c7e\u0c80-\u0c83\u0c85-\u0d4e\u0d50-\u0d78"
    "\u0d7a-\u0df3\u0df5-\u0dff\ua8e0-\ua8f7\ua8fb\ua8fd-\ua8ff\uabc0-\uabff"
    "\u1100-\u11ff\u3131-\u318e\ua960-\ua97f\uac00-\ud7ff"  # Hangul
    "\u1200-\u135f\u1369-\u138f\u13a0-\u13ff\uab70-\uabbf"  # Ethiopic, Cherokee
    "\u1401-\u166c\u166f-\u167f\u1681-\u169a\u16a0-\u16ea\u180b-\u18ff"  # Canada, runes, Mongolian
    "\u1d00-\u1dbf\u1e00-\u1eff\u2c60-\u2c7f\ua722-\ua788\ua78b-\ua7ff\uab30-\uab5a\uab5c-\uab69"
    "\u2c00-\u2c5f\u2c80-\u2ce4\u2d30-\u2d6f\u2d71-\u2d7f\u3105-\u312f\u31a0-\u31bf"
)


GRAM: Final = 3
LONG_GRAM: Final = 4
WORDS_VERSION: Final = "words-1"

_UTF16: Final = "utf-16-le"
_SPECIAL: Final = re.compile(f"[{KANA}{UNSPACED}{SPACED}]")
_KANA: Final = re.compile(f"[{KANA}]")
_SPACED: Final = re.compile(f"[{SPACED}]")
# Each alternative is one repeated class, so a run is read only once, at any length.
_RUNS: Final = re.compile(
    f"(?P<japanese>[{HAN}{KANA}]+)|(?P<unspaced>[{UNSPACED}]+)|(?P<spaced>[A-Za-z0-9{SPACED}]+)"
)

Cut = Callable[[str], Sequence[str]]


def cut_words(texts: Sequence[str], dictionary: Cut) -> Iterator[Sequence[str]]:
    """Yield the terms of each normalised text; ``dictionary`` cuts Chinese and ASCII.

    jieba and rjieba cut other scripts into single characters, which make all texts of a language
    look alike. So runs of these scripts are cut separately. A run of a script with blanks between
    words is one word, with adjacent ASCII letters and digits. A run of Han with kana in it
    (Japanese) gives overlapping pieces of ``GRAM`` characters; a run of a script without blanks
    (Thai, Lao, Khmer, …) gives pieces of ``LONG_GRAM``.
    """
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
    """Return the terms of a run; None if the dictionary cuts it."""
    text = run.group()
    if run.lastgroup == "unspaced":
        return _grams(text, LONG_GRAM)
    if run.lastgroup == "japanese":
        return _grams(text, GRAM) if _KANA.search(text) else None
    return [text] if _SPACED.search(text) else None


def _grams(text: str, width: int) -> Sequence[str]:
    return [text[i : i + width] for i in range(max(1, len(text) - width + 1))]


def _texts_with_other_scripts(texts: Sequence[str]) -> set[int]:
    """Return the indices of texts that have a character unknown to the dictionary."""
    encoded = [text.encode(_UTF16, "surrogatepass") for text in texts]
    ends = np.cumsum([len(units) // 2 for units in encoded])
    special = _SPECIAL_UNITS.take(np.frombuffer(b"".join(encoded), dtype="<u2"))
    return set(np.searchsorted(ends, np.flatnonzero(special), side="right").tolist())


def _special_units() -> NDArray[np.bool_]:
    """Return for each UTF-16 unit whether it belongs to another script; no surrogate does."""
    units = np.arange(0x10000, dtype="<u2").tobytes().decode(_UTF16, "surrogatepass")
    is_special = np.zeros(0x10000, dtype=np.bool_)
    is_special[[ord(character) for character in _SPECIAL.findall(units)]] = True
    return is_special


_SPECIAL_UNITS: Final = _special_units()


NGRAM_CHARACTERS: Final = 4


def _load_ngrams(_words: object) -> tuple[str, Cut]:
    return f"ngrams-{NGRAM_CHARACTERS}", cut_ngrams


def cut_ngrams(text: str) -> Sequence[str]:
    """Return each run of four characters without white space; a shorter text is one run."""
    packed = "".join(text.split())
    if len(packed) <= NGRAM_CHARACTERS:
        return [packed] if packed else []
    return [packed[i : i + NGRAM_CHARACTERS] for i in range(len(packed) - NGRAM_CHARACTERS + 1)]


def _load_jieba(words: UserDictionary | None) -> tuple[str, Cut]:
    import jieba

    cut: Cut = tokenizer(words).lcut
    return f"jieba-{jieba.__version__}", cut


def tokenizer(words: UserDictionary | None) -> Any:  # noqa: ANN401 - jieba has no types
    """Return a separate tokenizer with its dictionary loaded."""
    import jieba

    # jieba reports on standard error that it builds its dictionary; the program should report this
    # itself.
    jieba.setLogLevel("WARNING")
    jieba_tokenizer = jieba.Tokenizer()
    jieba_tokenizer.initialize()
    if words is not None:
        for word in words.words:
            jieba_tokenizer.add_word(word.text, word.frequency, word.tag)
    return jieba_tokenizer


# Maps versions of rjieba to an earlier version with the same terms for every text. They keep its
# name in the identity, so workers can be replaced one by one (CONTRIBUTING.md).
SAME_TERMS_AS: Final[Mapping[str, str]] = MappingProxyType({})


def _load_rjieba(words: UserDictionary | None) -> tuple[str, Cut]:
    """Load jieba's algorithm and dictionary in Rust, which is 8 to 16 times as fast.

    It cuts about 2 % of Chinese documents slightly differently (e.g. "010-12306").
    """
    import rjieba

    segmenter = rjieba.Jieba()
    if words is not None:
        for word in words.words:
            segmenter.add_word(word.text, word.frequency, word.tag)
    installed = version("rjieba")
    return f"rjieba-{SAME_TERMS_AS.get(installed, installed)}", segmenter.cut


TAG_MARK: Final = "\x1f"  # before the tag of a term; normalised texts do not contain it


def word_of(term: str) -> str:
    return term.partition(TAG_MARK)[0]


def _load_posseg(words: UserDictionary | None) -> tuple[str, Cut]:
    """Load jieba's tagger, which determines parts of speech from the sentence.

    Each term is tagged, so a word that is both noun and verb is two terms; they share the hash and
    idf of the word. The tagger is fifty times slower than ``words``.
    """
    import jieba
    import jieba.posseg

    tagger = jieba.posseg.POSTokenizer(tokenizer(words))

    def cut(text: str) -> Sequence[str]:
        return [f"{pair.word}{TAG_MARK}{pair.flag}" for pair in tagger.lcut(text)]

    return f"jieba-posseg-{jieba.__version__}/{WORDS_VERSION}", cut


# Every dictionary segmenter makes each of these characters its own term, in any context. None is a
# feature. The list has only characters that are frequent in normalised texts.
SEPARATORS: Final = (
    " ,;:!?()[]{}<>\"'/\\|*=@$^~`"
    "\u2013\u2014\u2018\u2019\u201c\u201d\u2022\u2026\u00b7"
    "\u3001\u3002\u3008\u3009\u300a\u300b\u300c\u300d\u300e\u300f"
    "\u3010\u3011\u3014\u3015\u3016\u3017"
)


class Segmenter(NamedTuple):
    """A segmenter and its name in the index identity."""

    identity: str
    # An iterator, because there are many terms.
    cut_all: Callable[[Sequence[str]], Iterator[Sequence[str]]]
    separators: str = ""  # a text may be split there without a change to its features

    def cut(self, text: str) -> Sequence[str]:
        return next(self.cut_all([text]))


class _Kind(NamedTuple):
    load: Callable[[UserDictionary | None], tuple[str, Cut]]
    of_any_script: bool = False  # ``cut_words`` also cuts scripts other than Han and ASCII
    separators: str = SEPARATORS


_BY_NAME: Final[Mapping[str, _Kind]] = {
    "words": _Kind(_load_rjieba, of_any_script=True),
    "rjieba": _Kind(_load_rjieba),
    "jieba": _Kind(_load_jieba),
    "jieba-posseg": _Kind(_load_posseg, of_any_script=True),
    "ngrams": _Kind(_load_ngrams, separators=""),
}
SEGMENTERS: Final = tuple(_BY_NAME)
WITHOUT_DICTIONARY: Final = frozenset({"ngrams"})  # words cannot be added to these


def load_segmenter(name: str, user_dictionary: UserDictionary | None = None) -> Segmenter:
    """Raises ``UnknownNameError``; a segmenter in ``WITHOUT_DICTIONARY`` ignores the dictionary."""
    if name not in _BY_NAME:
        raise UnknownNameError("segmenter", name, SEGMENTERS)
    kind = _BY_NAME[name]
    identity, cut = kind.load(user_dictionary)
    if name == "words":
        identity = f"{WORDS_VERSION}/{identity}"
    if user_dictionary is not None:
        identity += f"+{user_dictionary.identity}"
    if kind.of_any_script:
        return Segmenter(identity, partial(cut_words, dictionary=cut), kind.separators)
    return Segmenter(identity, lambda texts: map(cut, texts), kind.separators)


def is_feature(term: str) -> bool:
    """Return whether a term has a letter or a digit, in any script."""
    return term.isalnum() or any(c.isalnum() for c in term)
