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
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from rich.table import Table

from benchmarks.command import (
    add_state_dir,
    add_without_peers,
    errors_told,
    new_parser,
    output_of,
    say,
)
from benchmarks.index.figures import Measured, flood_of, goals_of
from benchmarks.index.shard import run_step
from benchmarks.peers.environment import peers_python
from benchmarks.report import Figures, machine, new_table, publish
from simhash_core.text.profiles import PROFILES

PEERS: Final = ("simhash", "datasketch", "datasketch_redis", "rensa")
_PEERS_PROGRAM: Final = Path(__file__).parents[1] / "peers" / "index_libraries.py"
_LOOKED_UP: Final = 1_000
_SKEWED_LOOKED_UP: Final = 200
_REBUILT: Final = 1_000_000
_FLOOD: Final = 100_000


def of_profile(profile: str, documents: int, state: Path | None) -> Iterator[Measured]:
    say(f"{profile}, {documents:,} …")
    with tempfile.TemporaryDirectory(dir=state, prefix="index-") as name:
        path = Path(name) / "shard-0"
        values = run_step("load", path, profile, documents)
        values |= run_step("look_up", path, profile, documents)
    if documents <= _REBUILT:
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
