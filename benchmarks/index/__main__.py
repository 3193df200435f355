"""The index beside other libraries, at several sizes, uniform and skewed; its disk and memory.

    python -m benchmarks.index [--documents 100000 1000000] [--profile classic wide]
        [--without-peers] [--peer-documents 100000] [--state-dir DIRECTORY] [--json FILE]

Documents are random, and so none is near another: what is measured is what every document costs.
"Skewed" has 5 % of all documents in one bucket. Each index is a process of its own. 10 million take
a quarter of an hour and 5 GB of disk (`wide`).
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
from rich.table import Table

from benchmarks.command import (
    add_state_dir,
    add_without_peers,
    errors_told,
    new_parser,
    output_of,
    say,
)
from benchmarks.index.shard import run_step
from benchmarks.peers.environment import peers_python
from benchmarks.report import Figures, Goal, machine, new_table, publish
from simhash_core.text.profiles import PROFILES

MILLION: Final = 1_000_000
PEERS: Final = ("simhash", "datasketch", "datasketch_redis", "rensa")
_PEERS_PROGRAM: Final = Path(__file__).parents[1] / "peers" / "index_libraries.py"
_LOOKED_UP: Final = 1_000
_SKEWED_LOOKED_UP: Final = 200
_FLOOD: Final = 100_000


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """One index. ``who``: the profile, or another library. Without a value: not measured."""

    who: str
    documents: int
    skewed: bool = False
    values: Mapping[str, float]


class _Measurements:
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
    figures = _Measurements(measured)
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


def of_profile(profile: str, documents: int, state: Path | None) -> Iterator[Measured]:
    say(f"{profile}, {documents:,} …")
    with tempfile.TemporaryDirectory(dir=state, prefix="index-") as name:
        path = Path(name) / "shard-0"
        values = run_step("load", path, profile, documents)
        values |= run_step("look_up", path, profile, documents)
    if documents <= MILLION:
        with tempfile.TemporaryDirectory(dir=state, prefix="index-") as name:
            values |= run_step("rebuild", Path(name) / "shard-0", profile, documents)
            values |= run_step("lines", Path(name) / "lines", profile, documents)
    yield Measured(who=profile, documents=documents, values=values)
    values = run_step("in_memory", Path(), profile, documents, skewed=True)
    yield Measured(who=profile, documents=documents, skewed=True, values=values)


def of_flood(profile: str, documents: int) -> Measured:
    say(f"{profile}, a flood of {documents:,} …")
    values = run_step("flood", Path(), profile, documents)
    return Measured(who=flood_of(profile), documents=documents, values=values)


def of_peer(name: str, documents: int, *, skewed: bool) -> Measured:
    say(f"{name}, {documents:,}{', skewed' if skewed else ''} …")
    count = _SKEWED_LOOKED_UP if skewed else _LOOKED_UP
    command = [str(peers_python()), str(_PEERS_PROGRAM), name, str(documents), str(count)]
    output = output_of([*command, *(["--skewed"] if skewed else [])])
    values = json.loads(output.splitlines()[-1])
    return Measured(who=name, documents=documents, skewed=skewed, values=values)


def run(options: argparse.Namespace) -> Figures:
    measured: list[Measured] = []
    for profile in options.profile:
        for documents in options.documents:
            measured += of_profile(profile, documents, options.state_dir)
        measured.append(of_flood(profile, options.flood))
    for name in () if options.without_peers else options.peers:
        for documents in options.peer_documents:
            measured += [of_peer(name, documents, skewed=skewed) for skewed in (False, True)]
    return {"machine": machine(), "goals": goals_of(measured), "figures": measured}


def tables(report: Figures) -> Iterator[Table]:
    said = {None: "not measured", True: "", False: "missed"}
    yield new_table(
        "goals",
        ("", "measured", "goal", ""),
        (
            (
                key.replace("_", " "),
                "" if each["value"] is None else f"{each['value']:,.4g}",
                f"{each['goal']:,.6g}",
                said[each["met"]],
            )
            for key, each in report["goals"].items()
        ),
    )
    names = ("cpu_us", "look_up_cpu_us", "candidates")
    yield new_table(
        "CPU µs a document",
        ("", "documents", "", "look up + insert", "look up", "candidates"),
        (
            (
                each.who,
                f"{each.documents:,}",
                "skewed" if each.skewed else "",
                *(f"{each.values[name]:,.1f}" if name in each.values else "" for name in names),
            )
            for each in report["figures"]
            if "cpu_us" in each.values
        ),
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = new_parser("benchmarks.index", __doc__)
    parser.add_argument("--documents", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--profile", nargs="+", choices=list(PROFILES), default=list(PROFILES))
    parser.add_argument("--peer-documents", type=int, nargs="+", default=[100_000])
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=PEERS)
    parser.add_argument("--flood", type=int, default=_FLOOD, help="documents of a flood")
    add_without_peers(parser)
    add_state_dir(parser)
    options = parser.parse_args(arguments)
    with errors_told():
        report = run(options)
    publish(report, tables(report), options.json)


if __name__ == "__main__":
    main()
