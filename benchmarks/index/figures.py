"""What is measured of the index, and the goals, in the same words everywhere."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import msgspec

from benchmarks.report import Machine

MILLION: Final = 1_000_000
_TEN: Final = 10 * MILLION
_AT_MOST, _AT_LEAST = operator.le, operator.ge


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """One index. ``who``: the profile, or another library. Without a value: not measured."""

    who: str
    documents: int
    skewed: bool = False
    values: Mapping[str, float]


class Goal(msgspec.Struct, frozen=True):
    """A figure beside its goal; None: it was not measured. ``met``: as measured here."""

    value: float | None
    goal: float
    met: bool | None


class Report(msgspec.Struct, frozen=True):
    """All goals by their keys, and all figures."""

    machine: Machine
    goals: dict[str, Goal]
    figures: list[Measured]


class _Figures:
    """Figures by who, how many and how."""

    def __init__(self, measured: list[Measured]) -> None:
        self._values = {(each.who, each.documents, each.skewed): each.values for each in measured}

    def get(self, who: str, documents: int, name: str, *, skewed: bool = False) -> float | None:
        return self._values.get((who, documents, skewed), {}).get(name)

    def sizes(self, who: str) -> list[int]:
        """Return how many documents were measured, rising."""
        return sorted(size for name, size, skewed in self._values if name == who and not skewed)

    def largest(self, who: str, name: str) -> float | None:
        """Return a figure of the most documents for which it was measured."""
        known = [self.get(who, size, name) for size in self.sizes(who)]
        return next((each for each in reversed(known) if each is not None), None)


_Value = Callable[[_Figures], float | None]


class _Rule(NamedTuple):
    goal: float
    holds: Callable[[float, float], bool]
    value: _Value


def _ratio(above: float | None, below: float | None) -> float | None:
    return None if above is None or not below else round(above / below, 3)


def _beside(peer: str, profile: str) -> _Value:
    """Return the times that ``profile`` is faster, at the most documents that both have."""

    def value(figures: _Figures) -> float | None:
        most = max({*figures.sizes(peer)} & {*figures.sizes(profile)}, default=0)
        return _ratio(figures.get(peer, most, "cpu_us"), figures.get(profile, most, "cpu_us"))

    return value


def _growth(profile: str) -> _Value:
    return lambda figures: _ratio(
        figures.get(profile, _TEN, "cpu_us"), figures.get(profile, MILLION, "cpu_us")
    )


def _skew(profile: str) -> _Value:
    def value(figures: _Figures) -> float | None:
        name = "look_up_cpu_us"
        ratios = [
            _ratio(figures.get(profile, size, name, skewed=True), figures.get(profile, size, name))
            for size in figures.sizes(profile)
        ]
        return max((each for each in ratios if each is not None), default=None)

    return value


def flood_of(profile: str) -> str:
    """Return who is measured in a flood."""
    return f"{profile}, flood"


def _flood(profile: str) -> _Value:
    who = flood_of(profile)
    return lambda figures: _ratio(
        figures.largest(who, "flood_last_cpu_us"), figures.largest(who, "flood_first_cpu_us")
    )


def _largest(profile: str, name: str) -> _Value:
    return lambda figures: figures.largest(profile, name)


def _at_ten_million(profile: str, name: str) -> _Value:
    return lambda figures: figures.get(profile, _TEN, name)


def _rules(profile: str, disk_bytes: float, memory_mb: float) -> dict[str, _Rule]:
    rules = {
        "cpu_10m_beside_1m": _Rule(2, _AT_MOST, _growth(profile)),
        "look_up_skewed_beside_uniform": _Rule(2, _AT_MOST, _skew(profile)),
        "disk_bytes_a_document": _Rule(disk_bytes, _AT_MOST, _largest(profile, "disk_bytes")),
        "memory_mb_at_10m": _Rule(memory_mb, _AT_MOST, _at_ten_million(profile, "memory_mb")),
        "open_seconds_at_10m": _Rule(5, _AT_MOST, _at_ten_million(profile, "open_seconds")),
        **{
            f"{what}_a_cpu_second": _Rule(least, _AT_LEAST, _largest(profile, name))
            for what, least, name in (
                ("rebuilt", 150_000, "rebuilt_per_cpu_second"),
                ("loaded", 200_000, "load_per_cpu_second"),
                ("lines_read", 200_000, "lines_per_cpu_second"),
            )
        },
        "flood_last_beside_first": _Rule(1.5, _AT_MOST, _flood(profile)),
    }
    return {f"{profile}_{name}": rule for name, rule in rules.items()}


GOALS: Final[Mapping[str, _Rule]] = {
    "classic_times_faster_than_simhash": _Rule(5, _AT_LEAST, _beside("simhash", "classic")),
    "wide_times_faster_than_datasketch_redis": _Rule(
        10, _AT_LEAST, _beside("datasketch_redis", "wide")
    ),
    **_rules("classic", disk_bytes=120, memory_mb=1024),
    **_rules("wide", disk_bytes=450, memory_mb=2048),
}
"""A worker's packets, look-up and insertion of a document together; CPU time."""


def goals_of(measured: list[Measured]) -> dict[str, Goal]:
    """Return each goal with what was measured."""
    figures = _Figures(measured)
    goals: dict[str, Goal] = {}
    for key, rule in GOALS.items():
        value = rule.value(figures)
        met = None if value is None else rule.holds(value, rule.goal)
        goals[key] = Goal(value, rule.goal, met)
    return goals
