"""A year of documents, with a window and without: the figures, and the picture of docs/windows.md.

Documents are fingerprints of ``classic`` made at random, one in five a copy of one of the last
days; they come in the order of their times, some of them hours late. They go through an index of
one shard. Nothing waits for a clock: a year passes in a minute. Each year is a process of its own,
as its memory is measured.

    python -m benchmarks.windows [--days 365] [--documents 4000] [--picture docs/windows.svg]
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from multiprocessing import get_context
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from benchmarks.command import new_parser, positive, say
from benchmarks.measures import disk_bytes, memory_bytes
from benchmarks.random_documents import CHAIN, IDENTITY, PACKET, columns_of, packet_of
from benchmarks.report import write_json
from simhash_core.index.look_up import Nearness
from simhash_core.log.local_decider import LocalDecider
from simhash_core.log.records import NO_CONTROL, Packet, Progress, sequence_number
from simhash_core.text.profiles import Profile, profile_named
from simhash_core.window import UNITS_MS, parse_duration
from streams.store.entry_batch import records_of
from streams.store.rocksdb_store import MIB, block_cache
from streams.store.row_codec import StoredProgress, StoreIdentity
from streams.store.shard_directory import RocksDisk, open_shard
from streams.store.shard_store import ShardStore

WINDOW: Final = "30d"
NAMES: Final = {None: "no window", WINDOW: "a window of 30 days"}

_START_MS: Final = 1_704_067_200_000
_DAY_MS: Final = UNITS_MS["d"]
_LATE_MS: Final = 6 * UNITS_MS["h"]
_LATE: Final = 0.05
_COPIES: Final = 0.2
_COPIED_DAYS: Final = 5
_SEED: Final = 20_240_101


class Day(msgspec.Struct):
    """At the end of a day. ``documents``: all so far; ``entries``: in the index.

    ``changelog_bytes``: of the records that compaction leaves. ``memory_bytes``: resident, less
    what the process had before the first document.
    """

    day: int
    documents: int
    entries: int
    disk_bytes: int
    changelog_bytes: int
    memory_bytes: int


def _packets_of_days(words: int, days: int, a_day: int) -> Iterator[list[Packet]]:
    """Yield the packets of one day after the other; ``words``: of 64 bits, in a fingerprint."""
    rng = np.random.default_rng(_SEED)
    recent = np.empty((0, words), dtype=np.uint64)
    for day in range(days):
        packets = []
        for first in range(0, a_day, PACKET):
            count = min(PACKET, a_day - first)
            prints = rng.integers(0, 1 << 64, (count, words), dtype=np.uint64)
            if len(recent):
                copies = np.flatnonzero(rng.random(count) < _COPIES)
                prints[copies] = recent[rng.integers(0, len(recent), len(copies))]
            recent = np.concatenate([recent, prints])[-_COPIED_DAYS * a_day :]
            times = _START_MS + day * _DAY_MS + (first + np.arange(count)) * _DAY_MS // a_day
            times -= np.where(rng.random(count) < _LATE, rng.integers(0, _LATE_MS, count), 0)
            no_sketches = np.empty((count, 0), dtype=np.uint8)
            columns = columns_of(rng, day * a_day + first, times, prints, no_sketches)
            packets.append(packet_of(columns))
        yield packets


class _Year:
    """The index of one shard: decider, store, and what its changelog would hold."""

    def __init__(self, profile: Profile, store: ShardStore) -> None:
        self._store = store
        self._decider = LocalDecider(Nearness.of(profile), store)
        self._changelog: dict[bytes, int] = {}
        self._packets = 0
        self._memory = memory_bytes("VmRSS")

    def take(self, packet: Packet) -> None:
        number = self._packets
        self._packets += 1
        decision = self._decider.decide(number, packet)
        clock = self._decider.clock_before(number + 1)
        before = 0 if clock is None else sequence_number(clock.horizon, 0)
        change = self._store.change([decision.new], decision.removed, before)
        progress = Progress(CHAIN, packet.last + 1, number + 1, NO_CONTROL, clock)
        self._store.write(change, StoredProgress(progress))
        for record in records_of(change):
            self._changelog.pop(record.key, None)
            if record.value is not None:
                self._changelog[record.key] = record.size

    def measured(self, day: int, documents: int) -> Day:
        return Day(
            day,
            documents,
            len(self._store),
            disk_bytes(self._store.path),
            sum(self._changelog.values()),
            memory_bytes("VmRSS") - self._memory,
        )


def year(window: str | None, days: int, a_day: int) -> list[Day]:
    profile = profile_named("classic")
    if window is not None:
        profile = msgspec.structs.replace(profile, window=parse_duration(window))
    owner = StoreIdentity(IDENTITY, "year", 0)
    measured = []
    with tempfile.TemporaryDirectory(prefix="firstseen-year-") as directory:
        path = Path(directory) / "shard-0"
        with closing(
            open_shard(path, owner, profile.bits, RocksDisk(block_cache(8 * MIB)))
        ) as store:
            index = _Year(profile, store)
            days_of_packets = _packets_of_days(profile.bits // 64, days, a_day)
            for day, packets in enumerate(days_of_packets, 1):
                for packet in packets:
                    index.take(packet)
                measured.append(index.measured(day, day * a_day))
    return measured


_WIDTH: Final = 760
_PANEL: Final = 170
_LEFT, _TOP, _PLOT_WIDTH, _PLOT_HEIGHT = 70, 44, 600, 110
_COLOURS: Final = ("#c0392b", "#2471a3")
_MILLION: Final = 1e6
_TICKS: Final = 3
_PANELS: Final[Mapping[str, Callable[[Day], int]]] = {
    "entries of the index, millions": lambda day: day.entries,
    "state on disk, MB": lambda day: day.disk_bytes,
    "changelog after compaction, MB": lambda day: day.changelog_bytes,
    "memory, MB": lambda day: day.memory_bytes,
}


def picture(years: Mapping[str, Sequence[Day]]) -> str:
    """Return an SVG with a panel for each thing that is measured, in millions.

    ``years``: the days of each index, by what it is called.
    """
    height = _TOP + _PANEL * len(_PANELS)
    box = f"0 0 {_WIDTH} {height}"
    font = 'font-family="sans-serif" font-size="12"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}" {font}>',
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
    ]
    for number, (name, colour) in enumerate(zip(years, _COLOURS, strict=False)):
        x = _LEFT + 200 * number
        parts.append(f'<rect x="{x}" y="12" width="14" height="4" fill="{colour}"/>')
        parts.append(f'<text x="{x + 20}" y="19">{name}</text>')
    for number, (title, value) in enumerate(_PANELS.items()):
        top = _TOP + _PANEL * number
        parts.append(f'<text x="{_LEFT}" y="{top + 12}" font-weight="bold">{title}</text>')
        lines = [[value(day) / _MILLION for day in days] for days in years.values()]
        parts += _panel(lines, top + 20 + _PLOT_HEIGHT)
    return "\n".join([*parts, "</svg>", ""])


def _panel(lines: Sequence[Sequence[float]], y0: int) -> Iterator[str]:
    """Draw lines of a value a day, from day 1; ``y0``: where 0 is."""
    days, highest = max(map(len, lines)), max(map(max, lines))
    x1 = _LEFT + _PLOT_WIDTH
    for tick in range(_TICKS):
        share = tick / (_TICKS - 1)
        y = y0 - share * _PLOT_HEIGHT
        yield f'<line x1="{_LEFT}" x2="{x1}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
        scale = f"{share * highest:.3g}"
        yield f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{scale}</text>'
    for month in range(0, days + 1, 90):
        x = _LEFT + month / days * _PLOT_WIDTH
        yield f'<text x="{x:.0f}" y="{y0 + 14}" text-anchor="middle">day {month}</text>'
    for line, colour in zip(lines, _COLOURS, strict=False):
        points = " ".join(
            f"{_LEFT + day / days * _PLOT_WIDTH:.1f},{y0 - value / highest * _PLOT_HEIGHT:.1f}"
            for day, value in enumerate(line, 1)
        )
        yield f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.6"/>'


def main() -> None:
    parser = new_parser("benchmarks.windows", __doc__)
    parser.add_argument("--days", type=positive, default=365)
    parser.add_argument("--documents", type=positive, default=4_000, help="a day")
    parser.add_argument("--picture", type=Path, help="where to write the SVG")
    chosen = parser.parse_args()
    years = {}
    for window, name in NAMES.items():
        with ProcessPoolExecutor(1, get_context("spawn")) as process:
            years[name] = process.submit(year, window, chosen.days, chosen.documents).result()
    if chosen.picture is not None:
        chosen.picture.write_text(picture(years), "utf-8")
    for name, days in years.items():
        for day in days[29::30]:
            say(f"{name:<20} day {day.day:>3}: {msgspec.structs.asdict(day)}")
    write_json(years, chosen.json)


if __name__ == "__main__":
    main()
