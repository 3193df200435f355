"""Scripts: which characters make words of their own, and which write words without blanks.

Ranges of code points, spelled out: a table read from the interpreter would change features with its
Unicode version. Characters that a dictionary segmenter knows, Han and ASCII, are in none of them
but ``HAN``. Each is the inside of a character class of a regular expression.
"""

from __future__ import annotations

from typing import Final

HAN: Final = "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"
"""Chinese characters, and the marks that repeat one."""

KANA: Final = "\u3041-\u3096\u3099-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"
"""Hiragana and katakana: where they stand among Han, a text is Japanese."""

UNSPACED: Final = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u0f00-\u0fff"  # Tibetan
    "\u1000-\u109f\ua9e0-\ua9ff\uaa60-\uaa7f"  # Myanmar
    "\u1780-\u17ff"  # Khmer
    "\u1950-\u19df\u1a20-\u1aaf\uaa80-\uaadf"  # Tai scripts
    "\u1b00-\u1b7f\ua980-\ua9df"  # Balinese, Javanese
    "\ua000-\ua4cf"  # Yi
)
"""Other scripts that leave no blank between words."""

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
"""Letters, marks and digits of scripts that leave blanks between words."""
