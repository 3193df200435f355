"""What fingerprinting gives: of each document what is stored, of its terms what is explained."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from simhash_core.verdicts import UndecidableReason


class Fingerprinted(NamedTuple):
    """What is known of a text: ``fingerprint`` is empty exactly where ``undecidable`` is set.

    ``content_digest``: BLAKE2b-128 of the normalised text. It decides alone for undecidable
    texts, so it is one that nobody can collide on purpose. ``sketch``: what candidates are
    confirmed by; empty where the profile confirms none, and for undecidable texts. ``passes``: it
    is undecidable, and not compared by its content either.
    """

    fingerprint: bytes
    content_digest: bytes
    features: int
    undecidable: UndecidableReason | None
    sketch: bytes = b""
    passes: bool = False


class Printed(NamedTuple):
    """The same before it is judged: with a fingerprint of too few features, without a digest."""

    fingerprint: bytes
    features: int
    undecidable: UndecidableReason | None
    sketch: bytes


class WeightedTerm(NamedTuple):
    """A term of a text and its weight, for explanations."""

    term: str
    weight: float


Judge = Callable[[str, int], UndecidableReason | None]
"""From a normalised text and the number of its features to why it is undecidable, if it is."""
