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
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from rich.table import Table

from benchmarks.index.figures import Measured, Report, flood_of, goals_of
from benchmarks.index.flood import FLOOD_DOCUMENTS
from benchmarks.index.shard import run_step
from benchmarks.peers.environment import peers_python
from benchmarks.report import add_json_option, machine, new_table, publish
from simhash_core.text.profiles import PROFILES

PEERS: Final = ("simhash", "datasketch", "datasketch_redis", "rensa")
_PEERS_PROGRAM: Final = Path(__file__).parents[1] / "peers" / "index_libraries.py"
_LOOKED_UP: Final = 1_000
_SKEWED_LOOKED_UP: Final = 200
_REBUILT: Final = 1_000_000


def of_profile(profile: str, documents: int, state: Path | None) -> Iterator[Measured]:
    """Measure an index of ours."""
    with tempfile.TemporaryDirectory(dir=state, prefix="index-") as name:
        path = Path(name) / "shard-0"
        values = run_step("load", path, profile, documents, skewed=False)
        values |= run_step("look_up", path, profile, documents, skewed=False)
    if documents <= _REBUILT:
        with tempfile.TemporaryDirectory(dir=state, prefix="index-") as name:
            path = Path(name) / "shard-0"
            values |= run_step("rebuild", path, profile, documents, skewed=False)
            values |= run_step("lines", Path(name) / "lines", profile, documents, skewed=False)
    yield Measured(who=profile, documents=documents, skewed=False, values=values)
    values = run_step("in_memory", Path(), profile, documents, skewed=True)
    yield Measured(who=profile, documents=documents, skewed=True, values=values)


def of_peer(name: str, documents: int, *, skewed: bool) -> Measured:
    """Measure another library."""
    count = _SKEWED_LOOKED_UP if skewed else _LOOKED_UP
    command = [str(peers_python()), str(_PEERS_PROGRAM), name, str(documents), str(count)]
    command += ["--skewed"] if skewed else []
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    values = json.loads(done.stdout.splitlines()[-1])
    return Measured(who=name, documents=documents, skewed=skewed, values=values)


def tables(report: Report) -> list[Table]:
    """Return the figures for people."""
    goals = new_table("goals", "", "measured", "goal", "")
    for key, each in report.goals.items():
        value = "" if each.value is None else f"{each.value:,.4g}"
        said = {None: "not measured", True: "", False: "missed"}[each.met]
        goals.add_row(key.replace("_", " "), value, f"{each.goal:,.6g}", said)
    costs = new_table(
        "CPU µs a document", "", "documents", "", "look up + insert", "look up", "candidates"
    )
    for one in report.figures:
        if "cpu_us" not in one.values:
            continue
        costs.add_row(
            one.who,
            f"{one.documents:,}",
            "skewed" if one.skewed else "",
            *(
                f"{one.values[name]:,.1f}" if name in one.values else ""
                for name in ("cpu_us", "look_up_cpu_us", "candidates")
            ),
        )
    return [goals, costs]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark as the command line says."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.index", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--documents", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--profile", nargs="+", choices=list(PROFILES), default=list(PROFILES))
    parser.add_argument("--peer-documents", type=int, nargs="+", default=[100_000])
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=PEERS)
    parser.add_argument("--flood", type=int, default=FLOOD_DOCUMENTS, help="documents of a flood")
    parser.add_argument("--without-peers", action="store_true")
    parser.add_argument("--state-dir", type=Path, help="where to make stores (a temporary one)")
    add_json_option(parser)
    options = parser.parse_args(arguments)
    measured: list[Measured] = []
    for profile in options.profile:
        for documents in options.documents:
            _say(f"{profile}, {documents:,}")
            measured += of_profile(profile, documents, options.state_dir)
        _say(f"{profile}, a flood of {options.flood:,}")
        values = run_step("flood", Path(), profile, options.flood, skewed=False)
        who = flood_of(profile)
        measured.append(Measured(who=who, documents=options.flood, skewed=False, values=values))
    for name in () if options.without_peers else options.peers:
        for documents in options.peer_documents:
            for skewed in (False, True):
                _say(f"{name}, {documents:,}{', skewed' if skewed else ''}")
                measured.append(of_peer(name, documents, skewed=skewed))
    report = Report(machine(), goals_of(measured), measured)
    publish(report, tables(report), options.json)


def _say(what: str) -> None:
    print(what, "…", file=sys.stderr)


if __name__ == "__main__":
    main()
