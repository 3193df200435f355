"""Two texts side by side: what is marked, what is folded, and that it is bounded."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from streams.offline.pages.text_differences import (
    SHOWN_MAX,
    TEXT_MAX,
    Piece,
    PieceKind,
    side_by_side,
)

SAME, ONLY, FOLDED = PieceKind.SAME, PieceKind.ONLY, PieceKind.FOLDED


def test_words_that_differ_are_marked() -> None:
    shown = side_by_side("The bridge opens today.", "The tunnel opens today.")
    assert shown.left == [
        Piece(SAME, "The "),
        Piece(ONLY, "bridge"),
        Piece(SAME, " opens today."),
    ]
    assert shown.right[1] == Piece(ONLY, "tunnel")


def test_characters_of_chinese_are_marked() -> None:
    shown = side_by_side("今天下雪了。", "今天下大雪了。")
    assert shown.left == [Piece(SAME, "今天下雪了。")]
    assert shown.right == [Piece(SAME, "今天下"), Piece(ONLY, "大"), Piece(SAME, "雪了。")]


def test_case_and_white_space_do_not_count() -> None:
    shown = side_by_side("Provided AS IS.\nNo warranty.", "Provided  as is. NO WARRANTY.")
    assert shown.left == [Piece(SAME, "Provided AS IS.\nNo warranty.")]
    assert shown.right == [Piece(SAME, "Provided  as is. NO WARRANTY.")]


def test_what_is_alike_is_folded() -> None:
    text = "这是一句话。" * 100
    shown = side_by_side(text + "完", text + "终")
    assert [piece.kind for piece in shown.left] == [FOLDED, SAME, ONLY]
    assert shown.left[0].text == "… 540 characters alike …"
    assert len(shown.left[1].text) == 60


def test_long_texts_are_cut_and_take_little_time() -> None:
    begun = time.process_time()
    shown = side_by_side("天" * 50_000, "a b " * 20_000)
    side_by_side("天地。" * 20_000, "地天。" * 20_000)
    assert time.process_time() - begun < 5
    for pieces in shown:
        assert sum(len(piece.text) for piece in pieces if piece.kind is ONLY) == SHOWN_MAX
        assert pieces[-1].kind is FOLDED
        assert "more" in pieces[-1].text
    assert f"{50_000 - SHOWN_MAX:,}" in shown.left[-1].text
    assert TEXT_MAX < 50_000


@given(st.text("ab雪。 \n.", max_size=200), st.text("ab雪。 \n.", max_size=200))
def test_nothing_is_lost(left: str, right: str) -> None:
    for text, pieces in zip((left, right), side_by_side(left, right), strict=True):
        length = 0
        for piece in pieces:
            if piece.kind is FOLDED:
                length += int(piece.text.split()[1].replace(",", ""))
            else:
                assert text[length : length + len(piece.text)] == piece.text
                length += len(piece.text)
        assert length == len(text)
