"""How much of each kind the demo stream holds."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from streams.corpus.generated import BROKEN, EditKind


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusShape:
    """The proportions of the stream; the shares are relative and need not add up to one.

    Raises:
        ValueError: a share is negative or not finite, the shares are all zero, or one of the
            other settings is out of its range.
    """

    original: float = 0.45
    exact_copy: float = 0.05
    typographic: float = 0.05
    repost: float = 0.08
    edit_1_5: float = 0.06
    edit_5_10: float = 0.05
    edit_10_20: float = 0.05
    truncated: float = 0.05
    reordered: float = 0.03
    short_post: float = 0.07
    emoji: float = 0.015
    punctuation: float = 0.01
    empty: float = 0.01
    broken: float = 0.025
    """The kinds of broken records together, each as often as the others."""
    chinese: float = 0.6
    """The probability that an article or a post is Chinese."""
    repeated_post: float = 0.25
    """The probability that a short post repeats an earlier one exactly."""
    deepest: int = 3
    """The longest chain of copies of copies: 1 means that only originals are copied."""

    def __post_init__(self) -> None:
        """Check every setting."""
        for name in ("chinese", "repeated_post"):
            probability = getattr(self, name)
            if not 0 <= probability <= 1:
                raise ValueError(f"{name} is {probability}; a probability is from 0 to 1")
        if self.deepest < 1:
            raise ValueError(f"deepest is {self.deepest}; set it to 1 or more")
        shares = {name: getattr(self, name) for name in _SHARES}
        for name, share in shares.items():
            if not (math.isfinite(share) and share >= 0):
                raise ValueError(f"the share {name} is {share}; set it to 0 or more")
        if sum(shares.values()) == 0:
            raise ValueError("every share is 0; give at least one kind of record a share")

    def weights(self) -> tuple[tuple[EditKind, float], ...]:
        """Return each kind that occurs with its part of the stream; the parts add up to one."""
        total = sum(getattr(self, name) for name in _SHARES)
        weights = [
            (EditKind(name), getattr(self, name) / total) for name in _SHARES if name != "broken"
        ]
        weights += [(kind, self.broken / total / len(BROKEN)) for kind in BROKEN]
        return tuple((kind, weight) for kind, weight in weights if weight > 0)


_SHARES = tuple(
    field.name
    for field in fields(CorpusShape)
    if field.name not in {"chinese", "repeated_post", "deepest"}
)
