"""What is measured of the index, and the goals, in the same words everywhere."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

import msgspec

from benchmarks.report import Figures, Goal

MILLION: Final = 1_000_000


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """One index. ``who``: the profile, or another library. Without a value: not measured."""

    who: str
    documents: int
    skewed: bool = False
    values: Mapping[str, float]


class _Figures:
    def __init__(self, measured: list[Measured]) -> None:
        self._values = {(each.who, each.documents, each.skewed): each.values for each in measured}

    def get(self, who: str, documents: int, name: str, *, skewed: bool = False) -> float | None:
        return self._values.get((who, documents, skewed), {}).get(name)

    def sizes(self, who: str) -> list[int]:
        return sorted(size for name, size, skewed in self._values if name == who and not skewed)

    def largest(self, who: str, name: str) -> float | None:
        """Return a figure of the most documents for which it was measured."""
        known = [self.get(who, size, name) for size in self.sizes(who)]
        return next((each for each in reversed(known) if each is not None), None)

    def beside(self, peer: str, profile: str) -> float | None:
        """Return the times that ``profile`` is faster, at the most documents that both have."""
        most = max({*self.sizes(peer)} & {*self.sizes(profile)}, default=0)
        return _ratio(self.get(peer, most, "cpu_us"), self.get(profile, most, "cpu_us"))

    def skew(self, profile: str) -> float | None:
        """Return the highest ratio of a look-up among skewed documents to one among uniform."""
        name = "look_up_cpu_us"
        ratios = [
            _ratio(self.get(profile, size, name, skewed=True), self.get(profile, size, name))
            for size in self.sizes(profile)
        ]
        return max((each for each in ratios if each is not None), default=None)


def _ratio(above: float | None, below: float | None) -> float | None:
    return None if above is None or not below else round(above / below, 3)


def flood_of(profile: str) -> str:
    return f"{profile}, flood"


def goals_of(measured: list[Measured]) -> dict[str, Figures]:
    """Return each figure beside its goal; None: it was not measured. ``met``: as measured here.

    CPU time is of a worker's packets, look-up and insertion of a document together.
    """
    figures = _Figures(measured)
    goals = {
        "classic_times_faster_than_simhash": (
            Goal(at_least=5),
            figures.beside("simhash", "classic"),
        ),
        "wide_times_faster_than_datasketch_redis": (
            Goal(at_least=10),
            figures.beside("datasketch_redis", "wide"),
        ),
    }
    for profile, disk, memory in (("classic", 120, 1024), ("wide", 450, 2048)):
        at_one, at_ten = (partial(figures.get, profile, size) for size in (MILLION, 10 * MILLION))
        largest = partial(figures.largest, profile)
        flood = partial(figures.largest, flood_of(profile))
        of_profile = {
            "cpu_10m_beside_1m": (Goal(at_most=2), _ratio(at_ten("cpu_us"), at_one("cpu_us"))),
            "look_up_skewed_beside_uniform": (Goal(at_most=2), figures.skew(profile)),
            "disk_bytes_a_document": (Goal(at_most=disk), largest("disk_bytes")),
            "memory_mb_at_10m": (Goal(at_most=memory), at_ten("memory_mb")),
            "open_seconds_at_10m": (Goal(at_most=5), at_ten("open_seconds")),
            "rebuilt_a_cpu_second": (Goal(at_least=150_000), largest("rebuilt_per_cpu_second")),
            "loaded_a_cpu_second": (Goal(at_least=200_000), largest("load_per_cpu_second")),
            "lines_read_a_cpu_second": (Goal(at_least=200_000), largest("lines_per_cpu_second")),
            "flood_last_beside_first": (
                Goal(at_most=1.5),
                _ratio(flood("flood_last_cpu_us"), flood("flood_first_cpu_us")),
            ),
        }
        goals |= {f"{profile}_{name}": goal for name, goal in of_profile.items()}
    return {
        key: {
            "value": value,
            "goal": goal.at_most or goal.at_least,
            "met": None if value is None else goal.is_met(value),
        }
        for key, (goal, value) in goals.items()
    }
