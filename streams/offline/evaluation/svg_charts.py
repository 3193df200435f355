"""Charts as inline SVG: histogram, lines, bars. No script, no style of their own, no assets.

Colours are CSS variables of the page (``--series-1`` …, ``--ink``, ``--grid``), so that a chart is
dark on a dark page. Each chart is an image with a title and a description for those who hear it;
marks carry their values as titles. Sizes are those of the drawing, which a page scales to its
width: text stays readable down to some 340 pixels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Final, NamedTuple

WIDTH: Final = 440
HEIGHT: Final = 270
_LEFT: Final = 46
_RIGHT: Final = 12
_TOP: Final = 14
_BOTTOM: Final = 44
_GRID_LINES: Final = 4
_LABELS_MAX: Final = 8
_LABEL_SHARE: Final = 0.15  # of the height, that a bar must have to hold its label


class Series(NamedTuple):
    """A named row of values; None where there is none. ``colour`` is the number of a variable."""

    name: str
    values: Sequence[float | None]
    colour: int


class Chart(NamedTuple):
    """What every chart has. ``key`` is unique on the page; ``x`` and ``y`` name the axes."""

    key: str
    title: str
    description: str
    x: str
    y: str


def histogram(
    chart: Chart, labels: Sequence[str], series: Sequence[Series], mark: float | None = None
) -> str:
    """Draw shares by bin, the bars of a bin side by side; ``mark``: a line at this many bins."""
    top = _ceiling(series)
    step = _plot_width() / len(labels)
    each = step * 0.86 / len(series)
    bars = [
        _bar(
            _LEFT + step * at + step * 0.07 + each * number,
            value / top,
            each,
            row.colour,
            f"{row.name}, {labels[at]}: {value:.1%}",
        )
        for number, row in enumerate(series)
        for at, value in enumerate(row.values)
        if value
    ]
    parts = [*_grid(0.0, top), *bars, *_x_labels(labels, step, step / 2)]
    if mark is not None:
        parts.append(_mark(_LEFT + step * mark))
    return _svg(chart, parts)


def lines(
    chart: Chart, xs: Sequence[float], series: Sequence[Series], mark: float | None = None
) -> str:
    """Draw values over ``xs``, which rise; ``mark``: a line at this x. The axis ends at 1."""
    values = [value for row in series for value in row.values if value is not None]
    low = _floor(min(values, default=0.0))
    span = (xs[-1] - xs[0]) or 1.0
    at = [_LEFT + (x - xs[0]) / span * _plot_width() for x in xs]
    parts = list(_grid(low, 1.0))
    if mark is not None:
        parts.append(_mark(_LEFT + (mark - xs[0]) / span * _plot_width()))
    for row in series:
        points = [
            (x, _y((value - low) / (1 - low)), value, left)
            for x, value, left in zip(at, row.values, xs, strict=True)
            if value is not None
        ]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y, _, _ in points)
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="var(--series-{row.colour})" '
            'stroke-width="2.5" stroke-linejoin="round"/>'
        )
        parts += [
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.4" fill="var(--series-{row.colour})">'
            f"<title>{escape(row.name)} at {left:g}: {value:.2%}</title></circle>"
            for x, y, value, left in points
        ]
    parts += [
        _text(x, HEIGHT - _BOTTOM + 17, f"{left:g}", "middle")
        for number, (x, left) in enumerate(zip(at, xs, strict=True))
        if _is_labelled(number, len(xs))
    ]
    return _svg(chart, parts)


def bars(chart: Chart, labels: Sequence[str], row: Series) -> str:
    """Draw a bar for each label, with its value above it; the axis is from 0 to 1."""
    step = _plot_width() / len(labels)
    parts = list(_grid(0.0, 1.0))
    for at, value in enumerate(row.values):
        middle = _LEFT + step * (at + 0.5)
        if value is None:
            parts.append(_text(middle, _y(0) - 6, "none", "middle"))
            continue
        title = f"{labels[at]}: {value:.2%}"
        parts.append(_bar(_LEFT + step * (at + 0.18), value, step * 0.64, row.colour, title))
        # Inside the bar's top where there is room, so that a full bar does not leave the picture.
        inside = value > _LABEL_SHARE
        y = _y(value) + 18 if inside else _y(value) - 6
        parts.append(_text(middle, y, f"{value:.1%}", "middle", "on-bar" if inside else "value"))
    parts += _x_labels(labels, step, step / 2)
    return _svg(chart, parts)


def legend(series: Sequence[Series]) -> str:
    """Return the names of series with their colours, as a list for beside a chart."""
    items = "".join(
        f'<li><span class="swatch" style="background:var(--series-{row.colour})"></span>'
        f"{escape(row.name)}</li>"
        for row in series
    )
    return f'<ul class="legend">{items}</ul>'


def _svg(chart: Chart, parts: Sequence[str]) -> str:
    key = escape(chart.key)
    middle = _LEFT + _plot_width() / 2
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-labelledby="{key}-title {key}-description">'
        f'<title id="{key}-title">{escape(chart.title)}</title>'
        f'<desc id="{key}-description">{escape(chart.description)}</desc>'
        + "".join(parts)
        + _text(middle, HEIGHT - 6, chart.x, "middle", "axis")
        + f'<text class="axis" text-anchor="middle" transform="translate(11 '
        f'{_TOP + _plot_height() / 2:.1f}) rotate(-90)">{escape(chart.y)}</text></svg>'
    )


def _grid(low: float, high: float) -> Iterator[str]:
    for step in range(_GRID_LINES + 1):
        share = step / _GRID_LINES
        value = low + (high - low) * share
        digits = 0 if round((high - low) * 100) % _GRID_LINES == 0 else 1
        yield (
            f'<line x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{_y(share):.1f}" y2="{_y(share):.1f}" '
            'stroke="var(--grid)"/>'
        )
        yield _text(_LEFT - 5, _y(share) + 4, f"{value:.{digits}%}", "end")


def _bar(x: float, share: float, width: float, colour: int, title: str) -> str:
    top = _y(min(1.0, share))
    return (
        f'<rect x="{x:.1f}" y="{top:.1f}" width="{width:.1f}" '
        f'height="{_y(0) - top:.1f}" fill="var(--series-{colour})">'
        f"<title>{escape(title)}</title></rect>"
    )


def _mark(x: float) -> str:
    """A broken line for the setting in force."""
    return (
        f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{_y(0):.1f}" stroke="var(--ink)" '
        'stroke-width="1.5" stroke-dasharray="5 4"><title>in force</title></line>'
    )


def _x_labels(labels: Sequence[str], step: float, first: float) -> list[str]:
    return [
        _text(_LEFT + first + step * at, HEIGHT - _BOTTOM + 17, label, "middle")
        for at, label in enumerate(labels)
        if _is_labelled(at, len(labels))
    ]


def _is_labelled(at: int, count: int) -> bool:
    """Whether there is room for the label of a place: of each, or of every so many."""
    return at % -(-count // _LABELS_MAX) == 0


def _text(x: float, y: float, text: str, anchor: str, kind: str = "tick") -> str:
    return (
        f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
    )


def _ceiling(series: Sequence[Series]) -> float:
    """Return a round value at or above all others."""
    largest = max((value for row in series for value in row.values if value), default=0.0)
    steps = (0.04, 0.08, 0.12, 0.2, 0.4, 0.6, 0.8, 1.0)
    return next((step for step in steps if largest <= step), 1.0)


def _floor(lowest: float) -> float:
    """Return where an axis begins: at 0, or nearer where all values are high."""
    return next((step for step in (0.9, 0.8, 0.6, 0.5) if lowest >= step), 0.0)


def _y(share: float) -> float:
    return _TOP + _plot_height() * (1 - share)


def _plot_width() -> float:
    return WIDTH - _LEFT - _RIGHT


def _plot_height() -> float:
    return HEIGHT - _TOP - _BOTTOM
