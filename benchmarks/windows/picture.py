"""The picture of a year: an SVG with a panel for each thing that is measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from benchmarks.windows.year import Day

_WIDTH: Final = 760
_PANEL: Final = 170
_LEFT, _TOP, _PLOT_WIDTH, _PLOT_HEIGHT = 70, 44, 600, 110
_COLOURS: Final = ("#c0392b", "#2471a3")
_MILLION: Final = 1e6
_TICKS: Final = 3


class Panel(NamedTuple):
    """A thing that is measured, in millions."""

    title: str
    value: Callable[[Day], int]


PANELS: Final = (
    Panel("entries of the index, millions", lambda day: day.entries),
    Panel("state on disk, MB", lambda day: day.disk_bytes),
    Panel("changelog after compaction, MB", lambda day: day.changelog_bytes),
    Panel("memory, MB", lambda day: day.memory_bytes),
)


def picture(lines: Mapping[str, Sequence[Day]]) -> str:
    """Return the SVG; ``lines``: the days of each index, by what it is called."""
    height = _TOP + _PANEL * len(PANELS)
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
            'font-family="sans-serif" font-size="12">'
        ),
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
    ]
    for number, (name, colour) in enumerate(zip(lines, _COLOURS, strict=False)):
        x = _LEFT + 200 * number
        parts.append(f'<rect x="{x}" y="12" width="14" height="4" fill="{colour}"/>')
        parts.append(f'<text x="{x + 20}" y="19">{name}</text>')
    for number, panel in enumerate(PANELS):
        parts += _panel(panel, lines, _TOP + _PANEL * number)
    return "\n".join([*parts, "</svg>", ""])


def _panel(panel: Panel, lines: Mapping[str, Sequence[Day]], top: int) -> list[str]:
    days = max(each[-1].day for each in lines.values())
    highest = max(panel.value(day) for each in lines.values() for day in each) / _MILLION
    y0, x1 = top + 20 + _PLOT_HEIGHT, _LEFT + _PLOT_WIDTH
    parts = [f'<text x="{_LEFT}" y="{top + 12}" font-weight="bold">{panel.title}</text>']
    for tick in range(_TICKS):
        share = tick / (_TICKS - 1)
        y = y0 - share * _PLOT_HEIGHT
        parts.append(f'<line x1="{_LEFT}" x2="{x1}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(
            f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{share * highest:.3g}</text>'
        )
    for month in range(0, days + 1, 90):
        x = _LEFT + month / days * _PLOT_WIDTH
        parts.append(f'<text x="{x:.0f}" y="{y0 + 14}" text-anchor="middle">day {month}</text>')
    for each, colour in zip(lines.values(), _COLOURS, strict=False):
        points = " ".join(
            f"{_LEFT + day.day / days * _PLOT_WIDTH:.1f},"
            f"{y0 - panel.value(day) / _MILLION / highest * _PLOT_HEIGHT:.1f}"
            for day in each
        )
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.6"/>'
        )
    return parts
