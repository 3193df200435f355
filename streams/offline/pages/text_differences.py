"""Two texts side by side with their differences marked, in bounded time and length.

Sentences are aligned first, then the words (Chinese: characters) of differing sentences until a
work budget is spent; later passages are marked as a whole. Case and white space do not count. Long
equal passages are folded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from enum import StrEnum
from typing import Final, NamedTuple

TEXT_MAX: Final = 12_000  # aligned characters of a text; the last piece says how many are left out
SHOWN_MAX: Final = 2_400  # shown characters of a text, without folded ones
_WORK_MAX: Final = 400_000
_CONTEXT: Final = 60
_LONG_LIST: Final = 1_000
_STOPS: Final = "\\n。！？!?；;."
_SENTENCE: Final = re.compile(f"[^{_STOPS}]*[{_STOPS}]|[^{_STOPS}]+$")
_WORD: Final = re.compile(r"[^\W\d_\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+|\d+|\s+|.", re.DOTALL)


class PieceKind(StrEnum):
    SAME = "same"
    ONLY = "only"  # the other text lacks it at this place
    FOLDED = "folded"  # left out; the piece's text says how much


class Piece(NamedTuple):
    kind: PieceKind
    text: str


class SideBySide(NamedTuple):
    left: list[Piece]
    right: list[Piece]


def side_by_side(left: str, right: str) -> SideBySide:
    rows = list(_aligned(left, right))
    return SideBySide(
        _shown([(row.left, row.alike) for row in rows], len(left) - TEXT_MAX),
        _shown([(row.right, row.alike) for row in rows], len(right) - TEXT_MAX),
    )


def differences(left: str, right: str) -> Iterator[tuple[str, str]]:
    """Yield the passages in which two texts differ, in order."""
    for row in _aligned(left, right):
        if not row.alike:
            yield row.left, row.right


class _Row(NamedTuple):
    left: str
    right: str
    alike: bool


def _aligned(left: str, right: str) -> Iterator[_Row]:
    work = _WORK_MAX
    sentences = _SENTENCE.findall(left[:TEXT_MAX]), _SENTENCE.findall(right[:TEXT_MAX])
    for row in _rows(*sentences):
        if row.alike:
            yield row
            continue
        words_a, words_b = _WORD.findall(row.left), _WORD.findall(row.right)
        work -= len(words_a) * len(words_b)
        if work < 0:
            yield row
        else:
            yield from _rows(words_a, words_b)


def _rows(left: Sequence[str], right: Sequence[str]) -> Iterator[_Row]:
    matcher = SequenceMatcher(
        None, [*map(_key, left)], [*map(_key, right)], autojunk=len(right) > _LONG_LIST
    )
    for tag, a1, a2, b1, b2 in matcher.get_opcodes():
        a, b = "".join(left[a1:a2]), "".join(right[b1:b2])
        yield _Row(a, b, tag == "equal" or not (a + b).strip())


def _key(passage: str) -> str:
    """Return a passage without case and white space, which comparisons ignore."""
    return " ".join(passage.casefold().split())


def _shown(passages: Sequence[tuple[str, bool]], left_out: int) -> list[Piece]:
    """Join passages of one kind, fold long equal ones, and stop at ``SHOWN_MAX``."""
    joined: list[tuple[str, bool]] = []
    for text, same in passages:
        if text and joined and joined[-1][1] == same:
            joined[-1] = (joined[-1][0] + text, same)
        elif text:
            joined.append((text, same))
    pieces: list[Piece] = []
    room = SHOWN_MAX
    for number, (text, same) in enumerate(joined):
        for piece in _pieces(text, number, len(joined)) if same else [Piece(PieceKind.ONLY, text)]:
            if piece.kind is PieceKind.FOLDED or len(piece.text) <= room:
                pieces.append(piece)
                room -= 0 if piece.kind is PieceKind.FOLDED else len(piece.text)
                continue
            rest = len(piece.text) - room + sum(len(t) for t, _ in joined[number + 1 :])
            if room:
                pieces.append(Piece(piece.kind, piece.text[:room]))
            return [*pieces, _folded(rest + max(0, left_out), "more")]
    if left_out > 0:
        pieces.append(_folded(left_out, "more"))
    return pieces


def _pieces(text: str, number: int, count: int) -> list[Piece]:
    """Fold the middle of an equal passage; at an end of the text, also its outer end."""
    before = 0 if number == 0 and count > 1 else _CONTEXT
    after = 0 if number == count - 1 and count > 1 else _CONTEXT
    folded = len(text) - before - after
    if folded < _CONTEXT:
        return [Piece(PieceKind.SAME, text)]
    pieces = [
        Piece(PieceKind.SAME, text[:before]),
        _folded(folded, "alike"),
        Piece(PieceKind.SAME, text[len(text) - after :]),
    ]
    return [piece for piece in pieces if piece.text]


def _folded(characters: int, what: str) -> Piece:
    return Piece(PieceKind.FOLDED, f"… {characters:,} characters {what} …")
