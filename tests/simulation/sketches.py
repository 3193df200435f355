"""What confirms candidates in the simulation: a relation that is symmetric and not transitive.

A sketch is one byte, and two agree where the bytes are at most one apart; a document without one
agrees with all.
"""

from __future__ import annotations

from typing import Final

from simhash_core.verification import Confirmation, Verification

VALUES: Final = 4
"""Sketches are drawn from so many values: some near documents agree, some do not."""


def _agreement(distance: int, a: bytes, b: bytes) -> float:  # noqa: ARG001 - as of all
    if not a or not b:
        return 1.0
    return max(0.0, 1.0 - abs(a[0] - b[0]) / 4)


CONFIRMATION: Final = Confirmation(
    Verification("simulated", 0.75, lambda made: [b""] * len(made.contents), _agreement), at=0.75
)
