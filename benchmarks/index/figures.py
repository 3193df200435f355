"""What is measured of the index, and the goals, in the same words everywhere."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import msgspec

from benchmarks.report import Machine


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """One index. ``who``: the profile, or another library. Without a value: not measured."""

    who: str
    documents: int
    skewed: bool
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


class _Rule(NamedTuple):
    goal: float
    holds: Callable[[float, float], bool]
    value: Callable[[Figures], float | None]


class Figures:
    """Figures by who, how many and how."""

    def __init__(self, measured: list[Measured]) -> None:
        """Later figures of the same index are added to the earlier ones."""
        self._values: dict[tuple[str, int, bool], dict[str, float]] = {}
        for each in measured:
            key = (each.who, each.documents, each.skewed)
            self._values.setdefault(key, {}).update(each.values)

    def get(self, who: str, documents: int, name: str, *, skewed: bool = False) -> float | None:
        """Return a figure, None where it was not measured."""
        return self._values.get((who, documents, skewed), {}).get(name)

    def sizes(self, who: str) -> list[int]:
        """Return how many documents were measured, rising."""
        return sorted(size for name, size, skewed in self._values if name == who and not skewed)

    def ratio(self, above: float | None, below: float | None) -> float | None:
        """Return a ratio of two figures, None where one is missing."""
        return None if above is None or not below else round(above / below, 3)


MILLION: Final = 1_000_000


def _beside(peer: str, profile: str) -> Callable[[Figures], float | None]:
    """Return the times that ``profile`` is faster, at the most documents that both have."""

    def value(figures: Figures) -> float | None:
        sizes = sorted({*figures.sizes(peer)} & {*figures.sizes(profile)})
        if not sizes:
            return None
        ours, theirs = (figures.get(who, sizes[-1], "cpu_us") for who in (profile, peer))
        return figures.ratio(theirs, ours)

    return value


def _growth(profile: str) -> Callable[[Figures], float | None]:
    return lambda figures: figures.ratio(
        figures.get(profile, 10 * MILLION, "cpu_us"), figures.get(profile, MILLION, "cpu_us")
    )


def _skew(profile: str) -> Callable[[Figures], float | None]:
    def value(figures: Figures) -> float | None:
        ratios = [
            figures.ratio(
                figures.get(profile, size, "look_up_cpu_us", skewed=True),
                figures.get(profile, size, "look_up_cpu_us"),
            )
            for size in figures.sizes(profile)
        ]
        return max((each for each in ratios if each is not None), default=None)

    return value


def flood_of(profile: str) -> str:
    """Return who is measured in a flood."""
    return f"{profile}, flood"


def _flood(profile: str) -> Callable[[Figures], float | None]:
    who = flood_of(profile)
    last, first = (_largest(who, name) for name in ("flood_last_cpu_us", "flood_first_cpu_us"))
    return lambda figures: figures.ratio(last(figures), first(figures))


def _largest(profile: str, name: str, at: int | None = None) -> Callable[[Figures], float | None]:
    """Return a figure of ``at`` documents, or of the most that were measured."""

    def value(figures: Figures) -> float | None:
        sizes = [at] if at else figures.sizes(profile)
        known = [figures.get(profile, size, name) for size in sizes]
        return next((each for each in reversed(known) if each is not None), None)

    return value


_TEN: Final = 10 * MILLION
_AT_MOST, _AT_LEAST = operator.le, operator.ge
GOALS: Final[Mapping[str, _Rule]] = {
    "classic_times_faster_than_simhash": _Rule(5, _AT_LEAST, _beside("simhash", "classic")),
    "wide_times_faster_than_datasketch_redis": _Rule(
        10, _AT_LEAST, _beside("datasketch_redis", "wide")
    ),
    **{
        key: rule
        for profile, disk, memory in (("classic", 120, 1024), ("wide", 450, 2048))
        for key, rule in {
            f"{profile}_cpu_10m_beside_1m": _Rule(2, _AT_MOST, _growth(profile)),
            f"{profile}_look_up_skewed_beside_uniform": _Rule(2, _AT_MOST, _skew(profile)),
            f"{profile}_disk_bytes_a_document": _Rule(
                disk, _AT_MOST, _largest(profile, "disk_bytes")
            ),
            f"{profile}_memory_mb_at_10m": _Rule(
                memory, _AT_MOST, _largest(profile, "memory_mb", _TEN)
            ),
            f"{profile}_open_seconds_at_10m": _Rule(
                5, _AT_MOST, _largest(profile, "open_seconds", _TEN)
            ),
            f"{profile}_rebuilt_a_cpu_second": _Rule(
                150_000, _AT_LEAST, _largest(profile, "rebuilt_per_cpu_second")
            ),
            f"{profile}_loaded_a_cpu_second": _Rule(
                200_000, _AT_LEAST, _largest(profile, "load_per_cpu_second")
            ),
            f"{profile}_lines_read_a_cpu_second": _Rule(
                200_000, _AT_LEAST, _largest(profile, "lines_per_cpu_second")
            ),
            f"{profile}_flood_last_beside_first": _Rule(1.5, _AT_MOST, _flood(profile)),
        }.items()
    },
}
"""A worker's packets, look-up and insertion of a document together; CPU time."""


def goals_of(measured: list[Measured]) -> dict[str, Goal]:
    """Return each goal with what was measured."""
    figures = Figures(measured)
    goals: dict[str, Goal] = {}
    for key, rule in GOALS.items():
        value = rule.value(figures)
        met = None if value is None else rule.holds(value, rule.goal)
        goals[key] = Goal(value, rule.goal, met)
    return goals
