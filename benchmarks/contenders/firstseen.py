"""Firstseen: text to fingerprint by the settings of a profile, a batch at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from simhash_core.text.fingerprinter import Fingerprinter
from simhash_core.text.profiles import profile_named

BATCH: Final = 250


def load(variant: str) -> Callable[[Sequence[str]], int]:
    """Return the work: fingerprints of texts by the profile ``variant``; it returns how many."""
    # Each turn has the same texts, which must not be remembered from one to the next.
    fingerprinter = Fingerprinter(profile_named(variant), remember=False)

    def work(texts: Sequence[str]) -> int:
        return sum(
            len(fingerprinter.fingerprint_batch(texts[start : start + BATCH]))
            for start in range(0, len(texts), BATCH)
        )

    return work
