"""Compares the index with other libraries, at several sizes; measures its disk and memory.

    python -m benchmarks.index [--documents 100000 1000000] [--profile classic wide]
        [--without-peers] [--peer-documents 100000] [--state-dir DIRECTORY] [--json FILE]

Documents are random, so none is near another: the figures are the cost of every document. "Skewed"
documents have 5 % in one bucket; the others are uniform. Each index has its own process. 10 million
documents take a quarter of an hour and 5 GB of disk (`wide`).
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

from benchmarks.command import (
    add_state_dir,
    add_without_peers,
    errors_reported,
    new_parser,
    output_of,
    say,
)
from benchmarks.index.shard import run_step
from benchmarks.peers.environment import peers_python
from benchmarks.report import Figures, machine, publish
from simhash_core.text.profiles import PROFILES, profile_named

MILLION: Final = 1_000_000
PEERS: Final = ("simhash", "datasketch", "datasketch_redis", "rensa")
_PEERS_PROGRAM: Final = Path(__file__).parents[1] / "peers" / "index_libraries.py"
_LOOKED_UP: Final = 1_000
_SKEWED_LOOKED_UP: Final = 200
_FLOOD: Final = 100_000
_TEMPLATE: Final = 4_000


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """One index; ``who`` is the profile, or another library. A missing value was not measured."""

    who: str
    documents: int
    skewed: bool = False
    values: Mapping[str, float]


def _ratio(above: float | None, below: float | None) -> float | None:
    return None if above is None or not below else round(above / below, 3)


def flood_of(profile: str) -> str:
    return f"{profile}, flood"


def goals_of(measured: list[Measured]) -> dict[str, Figures]:
    """Return each figure with its goal, None if it was not measured; ``met`` is for this machine.

    CPU time is for look-up and insertion of a document together, in packets of a worker.
    """
    values = {(each.who, each.documents, each.skewed): each.values for each in measured}

    def get(who: str, documents: int, name: str, *, skewed: bool = False) -> float | None:
        return values.get((who, documents, skewed), {}).get(name)

    def sizes(who: str) -> list[int]:
        return sorted(size for name, size, skewed in values if name == who and not skewed)

    def largest(who: str, name: str) -> float | None:
        known = [get(who, size, name) for size in sizes(who)]
        return next((each for each in reversed(known) if each is not None), None)

    def beside(peer: str, profile: str) -> float | None:
        most = max({*sizes(peer)} & {*sizes(profile)}, default=0)
        return _ratio(get(peer, most, "cpu_us"), get(profile, most, "cpu_us"))

    def skew(profile: str) -> float | None:
        """Return the highest ratio of look-up times: skewed documents to uniform ones."""
        of_size = partial(get, profile, name="look_up_cpu_us")
        ratios = [_ratio(of_size(size, skewed=True), of_size(size)) for size in sizes(profile)]
        return max((each for each in ratios if each is not None), default=None)

    goals: dict[str, tuple[float, float | None]] = {
        "classic_times_faster_than_simhash": (5, beside("simhash", "classic")),
        "wide_times_faster_than_datasketch_redis": (10, beside("datasketch_redis", "wide")),
    }
    at_least = set(goals)
    for profile, disk, memory in (("classic", 120, 1024), ("wide", 450, 2048)):
        at_one, at_ten = (partial(get, profile, size) for size in (MILLION, 10 * MILLION))
        of_largest, flood = partial(largest, profile), partial(largest, flood_of(profile))
        floods = flood("flood_last_cpu_us"), flood("flood_first_cpu_us")
        of_profile: dict[str, tuple[float, float | None]] = {
            "cpu_10m_beside_1m": (2, _ratio(at_ten("cpu_us"), at_one("cpu_us"))),
            "look_up_skewed_beside_uniform": (2, skew(profile)),
            "disk_bytes_a_document": (disk, of_largest("disk_bytes")),
            "memory_mb_at_10m": (memory, at_ten("memory_mb")),
            "open_seconds_at_10m": (5, at_ten("open_seconds")),
            "rebuilt_a_cpu_second": (150_000, of_largest("rebuilt_per_cpu_second")),
            "loaded_a_cpu_second": (200_000, of_largest("load_per_cpu_second")),
            "lines_read_a_cpu_second": (200_000, of_largest("lines_per_cpu_second")),
            "flood_last_beside_first": (1.5, _ratio(*floods)),
        }
        goals |= {f"{profile}_{name}": goal for name, goal in of_profile.items()}
        at_least |= {f"{profile}_{name}" for name in of_profile if name.endswith("_a_cpu_second")}
    return {
        key: {
            "value": value,
            "goal": goal,
            "met": None if value is None else value >= goal if key in at_least else value <= goal,
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
    values = run_step("look_up_skewed", Path(), profile, documents)
    yield Measured(who=profile, documents=documents, skewed=True, values=values)


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
        say(f"{profile}, a flood of {options.flood:,} …")
        values = run_step("flood", Path(), profile, options.flood)
        measured.append(Measured(who=flood_of(profile), documents=options.flood, values=values))
        if profile_named(profile).verifier() is not None:
            say(f"{profile}, {options.template:,} of one template …")
            values = run_step("template", Path(), profile, options.template)
            who = f"{profile}, template"
            measured.append(Measured(who=who, documents=options.template, values=values))
    for name in () if options.without_peers else options.peers:
        for documents in options.peer_documents:
            measured += [of_peer(name, documents, skewed=skewed) for skewed in (False, True)]
    return {"machine": machine(), "goals": goals_of(measured), "figures": measured}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = new_parser("benchmarks.index", __doc__)
    parser.add_argument("--documents", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--profile", nargs="+", choices=list(PROFILES), default=list(PROFILES))
    parser.add_argument("--peer-documents", type=int, nargs="+", default=[100_000])
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=PEERS)
    parser.add_argument(
        "--flood", type=int, default=_FLOOD, help="documents of a flood of near copies"
    )
    parser.add_argument(
        "--template", type=int, default=_TEMPLATE, help="documents that share nearly half a text"
    )
    add_without_peers(parser)
    add_state_dir(parser)
    options = parser.parse_args(arguments)
    with errors_reported():
        report = run(options)
    rows = [
        {"": each.who, "documents": each.documents, "skewed": each.skewed, **each.values}
        for each in report["figures"]
    ]
    publish(report, options.json, report | {"figures": rows})


if __name__ == "__main__":
    main()
