"""What runs against what: the contenders, each with its partitions, workers and documents."""

from __future__ import annotations

from typing import Final

import msgspec

FIRSTSEEN: Final = "firstseen"

DISTINCT: Final = "distinct"
COPIES: Final = "copies"
COPIED_SHARE: Final = 0.7
"""The share of the documents of the stream ``copies`` that repeat an earlier one."""


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """One contender in one setting.

    ``contender``: Firstseen, or a program of ``benchmarks.peers``. ``profile`` and ``delivery`` are
    settings of Firstseen; every other contender delivers exactly once.
    """

    name: str
    contender: str
    partitions: int = 1
    workers: int = 1
    stream: str = DISTINCT
    profile: str = "wide"
    delivery: str = "exactly_once"


SHAPES: Final = (
    Shape(name="ceiling_1", contender="ceiling"),
    Shape(name="ceiling_16", contender="ceiling", partitions=16),
    Shape(name="wide_1", contender=FIRSTSEEN),
    Shape(name="wide_4", contender=FIRSTSEEN, partitions=4),
    Shape(name="wide_16", contender=FIRSTSEEN, partitions=16),
    Shape(name="wide_64", contender=FIRSTSEEN, partitions=64),
    Shape(name="wide_4_workers_2", contender=FIRSTSEEN, partitions=4, workers=2),
    Shape(name="wide_4_at_least_once", contender=FIRSTSEEN, partitions=4, delivery="at_least_once"),
    Shape(name="classic_1", contender=FIRSTSEEN, profile="classic"),
    Shape(name="classic_16", contender=FIRSTSEEN, partitions=16, profile="classic"),
    Shape(name="quix", contender="quix_fingerprint"),
    Shape(name="quix_words", contender="quix_words"),
    Shape(name="faust", contender="faust_recipe"),
    Shape(name="ceiling_1_copies", contender="ceiling", stream=COPIES),
    Shape(name="wide_1_copies", contender=FIRSTSEEN, stream=COPIES),
    Shape(name="wide_16_copies", contender=FIRSTSEEN, partitions=16, stream=COPIES),
    Shape(name="classic_1_copies", contender=FIRSTSEEN, profile="classic", stream=COPIES),
    Shape(name="quix_copies", contender="quix_fingerprint", stream=COPIES),
    Shape(name="quix_words_copies", contender="quix_words", stream=COPIES),
    Shape(name="faust_copies", contender="faust_recipe", stream=COPIES),
)

_WARM_UP: Final = frozenset({"ceiling_1", "ceiling_16", "wide_64"})
WARM_UP_SHAPES: Final = tuple(shape for shape in SHAPES if shape.name in _WARM_UP)
"""Run before all others, and not counted: the broker compiles its code while it runs, and that for
transactions of many partitions takes several seconds."""


def wide(partitions: int, workers: int = 1) -> Shape:
    """Return Firstseen as users run it, for what is measured beside speed."""
    return Shape(
        name=f"wide_{partitions}", contender=FIRSTSEEN, partitions=partitions, workers=workers
    )
