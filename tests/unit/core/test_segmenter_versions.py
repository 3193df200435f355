"""The version of the segmenter in the identity: another one, unless it cuts texts as before."""

from __future__ import annotations

import pytest

from simhash_core.text import segmentation


def test_a_version_that_cuts_as_before_keeps_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segmentation, "version", lambda _: "9.9.9")
    newer = segmentation.load_segmenter("rjieba")
    monkeypatch.setattr(segmentation, "SAME_TERMS_AS", {"9.9.9": "0.2.2"})
    same = segmentation.load_segmenter("rjieba")
    assert newer.identity == "rjieba-9.9.9"
    assert same.identity == "rjieba-0.2.2"
