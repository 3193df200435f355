"""One spelling for texts that a reader takes for the same.

NFKC (full-width forms, ligatures, composed letters), case folding, control and format characters
dropped, white space runs made one blank. The version is part of the index identity: to change
what this module does is to change every fingerprint.
"""

from __future__ import annotations

import unicodedata
from typing import Final

from simhash_core.text.simplified import simplified

NORMALIZATION: Final = "nfkc-casefold-1"

# The full-width signs of everyday Chinese. Each one's NFKC form is one ASCII character whatever
# stands beside it, so replacing them first is exact, and leaves most texts normalised: the
# general algorithm, 10 times slower, then runs only where something rarer is there.
_FULL_WIDTH_SIGNS: Final = tuple(
    (sign, unicodedata.normalize("NFKC", sign)) for sign in "，：；！？（）％～"
)

# Control and format characters, surrogates, private use: no meaning of their own for a reader. The
# zero width joiner goes too: an emoji sequence then becomes its parts, the same ones every time.
# Unassigned characters stay, or a text would change with the Unicode version of the interpreter.
_DROPPED: Final = frozenset({"Cc", "Cf", "Cs", "Co"})


def normalize(text: str, *, fold_case: bool = True, simplify: bool = False) -> str:
    """Return the normalised form of ``text``; applying it twice changes nothing more.

    Lone surrogates are dropped, so the result can always be encoded as UTF-8. Without
    ``fold_case`` capitals stay: what is left then is how a text is set, not how it is encoded.
    ``simplify``: traditional Chinese characters become simplified ones.
    """
    fold = _fold if fold_case else _compose
    for sign, plain in _FULL_WIDTH_SIGNS:
        text = text.replace(sign, plain)
    text = fold(text)
    if not text.isprintable():
        text = fold("".join(c for c in text if unicodedata.category(c) not in _DROPPED))
    return simplified(text) if simplify else text


def _compose(text: str) -> str:
    """Compatibility forms and white space."""
    if not unicodedata.is_normalized("NFKC", text):
        text = unicodedata.normalize("NFKC", text)
    return " ".join(text.split())


def _fold(text: str) -> str:
    """Case, compatibility forms and white space."""
    if not text.isascii():
        # Case folding can undo NFKC (e.g. U+0345), so Unicode's own recipe for caseless matching
        # is NFKC after folding as well; the quick check makes the second pass free.
        if not unicodedata.is_normalized("NFKC", text):
            text = unicodedata.normalize("NFKC", text)
        text = text.casefold()
        if not unicodedata.is_normalized("NFKC", text):
            # A few letters (ǰ, ΐ) fold to a letter and a mark that compose to the same one again:
            # so it is the composed form that must come to rest.
            text, before = unicodedata.normalize("NFKC", text), ""
            while text != before:
                text, before = unicodedata.normalize("NFKC", text.casefold()), text
    else:
        text = text.casefold()
    return " ".join(text.split())
