"""``make torture``: a cluster of real workers on a real Kafka, hurt at random, then judged.

The last line is one JSON object; the exit code is 1 where an invariant is broken, a worker ended
that nobody had ended, or the stream stood still (docs/torture.md).
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from streams.settings.settings import GroupProtocol, Mode
from tests.rigs.brokers.kafka_broker import why_kafka_cannot_run
from tests.torture.enclosure import enclose, furnish, is_enclosed, why_no_enclosure
from tests.torture.faults import Fault
from tests.torture.run import Order, torture

PACKAGE = "tests.torture"


def _kinds(text: str) -> tuple[Fault, ...]:
    return tuple(map(Fault, text.split(",")))


def main() -> int:
    parser = argparse.ArgumentParser(prog="make torture", description=__doc__)
    parser.add_argument(
        "--minutes", type=float, default=15.0, help="how long to send documents (15)"
    )
    parser.add_argument(
        "--documents", type=int, default=100_000, help="number of documents (100000)"
    )
    parser.add_argument("--faults", type=int, default=70, help="number of faults (70)")
    parser.add_argument(
        "--seed", type=int, help="seed of documents and faults (a new one for each run)"
    )
    parser.add_argument(
        "--mode", choices=list(Mode), default=Mode.SPLIT, help="output mode (split)"
    )
    parser.add_argument("--standbys", type=int, default=1, help="standbys of each shard (1)")
    parser.add_argument(
        "--brokers",
        type=int,
        choices=(1, 3),
        default=1,
        help="one broker, or three in networks of their own (1)",
    )
    parser.add_argument(
        "--kinds", type=_kinds, default=(), help="kinds of faults, separated by commas (all)"
    )
    parser.add_argument(
        "--apart",
        action="store_true",
        help="one fault at a time, each after the stream has recovered",
    )
    parser.add_argument(
        "--group-protocol",
        choices=list(GroupProtocol),
        type=GroupProtocol,
        default=GroupProtocol.CLASSIC,
        help="how workers join their group (classic)",
    )
    parser.add_argument(
        "--archive",
        action="store_true",
        help="documents of an earlier year, for which workers wait for each other",
    )
    parser.add_argument("--json", action="store_true", help="print only the JSON object")
    parser.add_argument("--keep", type=Path, help="keep logs and state in this new directory")
    chosen = parser.parse_args()
    reason = why_kafka_cannot_run()
    if reason is None and chosen.brokers > 1 and not is_enclosed():
        reason = why_no_enclosure()
    if reason is not None:
        parser.error(reason)
    if chosen.brokers > 1:
        if not is_enclosed():
            enclose([sys.executable, "-m", PACKAGE, *sys.argv[1:]])
        furnish()
    seed = chosen.seed if chosen.seed is not None else random.SystemRandom().randrange(2**32)
    order = Order(
        chosen.minutes,
        chosen.documents,
        chosen.faults,
        seed,
        chosen.mode,
        chosen.standbys,
        chosen.brokers,
        chosen.kinds,
        chosen.apart,
        chosen.group_protocol,
        chosen.archive,
    )
    if chosen.keep is not None:
        try:
            chosen.keep.mkdir(parents=True)
        except FileExistsError:  # the brokers of another run may use it
            parser.error(f"--keep {chosen.keep} exists already: name a new directory")
    directory = chosen.keep or Path(tempfile.mkdtemp(prefix="firstseen-torture-"))
    if not chosen.json:
        print(f"{order}, in {directory}", file=sys.stderr)
    report = torture(order, directory, lambda line: chosen.json or print(line, file=sys.stderr))
    is_left = chosen.keep is not None or not report.holds
    if is_left:
        print(f"logs and state are left in {directory}", file=sys.stderr)
    print(json.dumps(report.as_json(), ensure_ascii=False), flush=True)
    if not is_left:
        _remove(directory)
    return 0 if report.holds else 1


def _remove(directory: Path) -> None:
    """Remove what a run has left, with the file systems of brokers and of workers' states."""
    # A state is mounted over its disk, and comes before it.
    for mounted in sorted(
        filter(Path.is_mount, [*directory.iterdir(), *directory.glob("*/*/data")])
    ):
        subprocess.run(["umount", str(mounted)], check=True)
    shutil.rmtree(directory)


if __name__ == "__main__":
    sys.exit(main())
