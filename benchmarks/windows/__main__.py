"""A year of documents, with a window and without: the figures, and the picture of docs/windows.md.

python -m benchmarks.windows [--days 365] [--documents 4000] [--picture docs/windows.svg]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import msgspec

from benchmarks.report import add_json_option, write_json
from benchmarks.windows.picture import picture
from benchmarks.windows.year import Day

WINDOW = "30d"
NAMES = {None: "no window", WINDOW: "a window of 30 days"}


def year(window: str | None, days: int, documents: int) -> list[Day]:
    """Run a year in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.windows.year"]
    command += ["--days", str(days), "--documents", str(documents)]
    if window is not None:
        command += ["--window", window]
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    return [msgspec.json.decode(line, type=Day) for line in printed.splitlines()]


def main() -> None:
    """Run both, and write what is asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.windows", description=__doc__)
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--documents", type=int, default=4_000, help="a day")
    parser.add_argument("--picture", type=Path, help="where to write the SVG")
    add_json_option(parser)
    chosen = parser.parse_args()
    lines = {name: year(window, chosen.days, chosen.documents) for window, name in NAMES.items()}
    if chosen.picture is not None:
        chosen.picture.write_text(picture(lines), "utf-8")
    for name, days in lines.items():
        for day in days[29::30]:
            print(f"{name:<20} day {day.day:>3}: {msgspec.structs.asdict(day)}", file=sys.stderr)
    if chosen.json is not None:
        write_json(lines, chosen.json)


if __name__ == "__main__":
    main()
