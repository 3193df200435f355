"""Durations such as ``30d``, and the window of an index."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from simhash_core.errors import UsageError

# The longest unit comes first.
UNITS_MS: Final[Mapping[str, int]] = MappingProxyType(
    {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
)
DURATION_MS_MAX: Final = 36_500 * UNITS_MS["d"]

_DURATION: Final = re.compile(r"([0-9]{1,16})(d|h|m|s|ms)")


def parse_duration(text: str) -> int:
    """Return the milliseconds of ``30d``, ``12h``, ``90m``, ``45s`` or ``500ms``.

    Raises ``UsageError`` for any other form, and for more than a hundred years.
    """
    matched = _DURATION.fullmatch(text)
    if matched is None:
        raise UsageError(
            f"{text!r} is not a duration: write a whole number and d, h, m, s or ms, such as 30d"
        )
    duration_ms = int(matched[1]) * UNITS_MS[matched[2]]
    if duration_ms > DURATION_MS_MAX:
        raise UsageError(f"{text!r} is more than {format_duration(DURATION_MS_MAX)}")
    return duration_ms


def format_duration(duration_ms: int) -> str:
    """Return a duration in the longest unit without a remainder, so each duration has one text."""
    unit = next(name for name, size in UNITS_MS.items() if duration_ms % size == 0)
    return f"{duration_ms // UNITS_MS[unit]}{unit}"


SLICES: Final = 16  # documents expire late, by up to a sixteenth of window plus lateness


class Window(NamedTuple):
    """Only documents whose times are within the window can be near."""

    window_ms: int  # maximum time between near documents
    lateness_ms: int  # how far behind the watermark a document may come

    @property
    def slice_ms(self) -> int:
        return max(1, -(-(self.window_ms + self.lateness_ms) // SLICES))
