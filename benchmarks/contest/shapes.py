"""The shapes of the contest: contenders with their partitions, workers and documents."""

from __future__ import annotations

from typing import Final

import msgspec

FIRSTSEEN: Final = "firstseen"

DISTINCT: Final = "distinct"
COPIES: Final = "copies"
COPIED_SHARE: Final = 0.7
"""The share of documents of the stream ``copies`` that repeat an earlier document."""


class Shape(msgspec.Struct, frozen=True):
    """One contender in one setting.

    ``contender`` is Firstseen, or a program of ``benchmarks.peers`` and its last argument.
    ``profile`` and ``delivery`` are for Firstseen; all others deliver exactly once.
    """

    name: str
    contender: str
    partitions: int = 1
    workers: int = 1
    stream: str = DISTINCT
    profile: str = "wide"
    delivery: str = "exactly_once"


SHAPES: Final = (
    Shape("ceiling_1", "ceiling"),
    Shape("ceiling_16", "ceiling", 16),
    Shape("wide_1", FIRSTSEEN),
    Shape("wide_4", FIRSTSEEN, 4),
    Shape("wide_16", FIRSTSEEN, 16),
    Shape("wide_64", FIRSTSEEN, 64),
    Shape("wide_256", FIRSTSEEN, 256),
    Shape("wide_4_workers_2", FIRSTSEEN, 4, workers=2),
    Shape("wide_4_at_least_once", FIRSTSEEN, 4, delivery="at_least_once"),
    Shape("classic_1", FIRSTSEEN, profile="classic"),
    Shape("classic_16", FIRSTSEEN, 16, profile="classic"),
    Shape("quix", "quix fingerprint"),
    Shape("quix_words", "quix words"),
    Shape("faust", "faust_recipe"),
    Shape("ceiling_1_copies", "ceiling", stream=COPIES),
    Shape("wide_1_copies", FIRSTSEEN, stream=COPIES),
    Shape("wide_16_copies", FIRSTSEEN, 16, stream=COPIES),
    Shape("classic_1_copies", FIRSTSEEN, stream=COPIES, profile="classic"),
    Shape("quix_copies", "quix fingerprint", stream=COPIES),
    Shape("quix_words_copies", "quix words", stream=COPIES),
    Shape("faust_copies", "faust_recipe", stream=COPIES),
)

_WARM_UP: Final = frozenset({"ceiling_1", "ceiling_16", "wide_64"})
WARM_UP_SHAPES: Final = tuple(shape for shape in SHAPES if shape.name in _WARM_UP)
"""This runs first and does not count: meanwhile the broker compiles its code, which takes several
seconds for transactions of many partitions."""


def wide(partitions: int, workers: int = 1) -> Shape:
    """Return Firstseen as users run it, for all measurements except speed."""
    return Shape(f"wide_{partitions}", FIRSTSEEN, partitions, workers)


def ceiling(partitions: int) -> Shape:
    return Shape(f"ceiling_{partitions}", "ceiling", partitions)
