"""Display of a running demo: a live picture on a terminal, else lines."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple, Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from streams.demo.feed import Counts
from streams.documents.output_records import DuplicateOutput
from streams.terminal.layout import one_line
from streams.terminal.record_lines import (
    DEAD_LETTER_STYLE,
    DUPLICATE_STYLE,
    QUIET_STYLE,
    UNDECIDABLE_STYLE,
    UNIQUE_STYLE,
)

Change = Callable[[DuplicateOutput], str]
"""Returns how a duplicate differs from its original, "" if unknown."""


class Progress(NamedTuple):
    """``share`` is the part of the stream that is done, 0 to 1; None if unknown."""

    counts: Counts
    decided: int
    share: float | None
    seconds: float
    per_second: float


class View(Protocol):
    def starting(self, what: str) -> None: ...

    def show(self, progress: Progress, change: Change) -> None: ...

    def finish(self) -> None: ...


HEADLINE: Final = "firstseen demo"

_FIXED_LINES: Final = 11  # height of the picture without the list of duplicates
_DUPLICATES_MAX: Final = 8
_ID_CELLS: Final = 24
_CHANGE_CELLS: Final = 200
_LINE_SECONDS: Final = 2.0
_BAR_CELLS: Final = 30


@contextmanager
def shown(console: Console, title: str, *, plain: bool) -> Iterator[View]:
    """Yield a live view on a terminal unless ``plain``, else a line view."""
    if plain or not console.is_terminal or console.is_dumb_terminal:
        yield LineView(console, title)
        return
    with Live(console=console, auto_refresh=False, transient=True) as live:
        yield LiveView(live, title)


class LineView:
    def __init__(self, console: Console, title: str) -> None:
        self._console = console
        self._printed_at = 0.0
        self._last: DuplicateOutput | None = None
        self._print(f"{HEADLINE}: {title}")

    def starting(self, what: str) -> None:
        self._print(f"{what} …")

    def show(self, progress: Progress, change: Change) -> None:
        now = time.monotonic()
        if progress.share != 1.0 and now - self._printed_at < _LINE_SECONDS:
            return
        self._printed_at, counts = now, progress.counts
        share = "" if progress.share is None else f"{progress.share:4.0%}  "
        self._print(
            f"{progress.seconds:6.1f} s  {share}{progress.decided:,} decided "
            f"({progress.per_second:,.0f}/s): {counts.unique:,} unique, "
            f"{counts.duplicates:,} duplicates, {counts.dead_letters:,} dead letters"
        )
        if counts.latest and counts.latest[-1] is not self._last:
            self._last = counts.latest[-1]
            what = one_line(change(self._last), _CHANGE_CELLS)
            self._print(f"          {_pair(self._last)}  {nearness(self._last)}  {what}".rstrip())

    def finish(self) -> None:
        pass

    def _print(self, text: str) -> None:
        self._console.print(text, soft_wrap=True, highlight=False, markup=False)


class LiveView:
    def __init__(self, live: Live, title: str) -> None:
        self._live = live
        self._title = title

    def starting(self, what: str) -> None:
        self._draw(self._head(None), Text(), Text(f"  {what} …"))

    def show(self, progress: Progress, change: Change) -> None:
        size = self._live.console.size
        room = max(1, min(_DUPLICATES_MAX, (size.height - _FIXED_LINES) // 2))
        latest = list(progress.counts.latest)[-room:][::-1]
        self._draw(
            self._head(progress),
            Text(),
            Padding(_bar(progress), (0, 0, 0, 2)),
            Text(),
            Padding(_counts(progress), (0, 0, 0, 2)),
            Text(),
            Text("  Latest duplicates", style="bold"),
            *(line for each in latest for line in _duplicate(each, change, size.width)),
        )

    def finish(self) -> None:
        self._live.stop()

    def _head(self, progress: Progress | None) -> RenderableType:
        head = Table.grid(expand=True)
        head.add_column(no_wrap=True, overflow="ellipsis")
        head.add_column(justify="right", no_wrap=True)
        seconds = "" if progress is None else f"{progress.seconds:.1f} s"
        head.add_row(Text.assemble((HEADLINE, "bold"), f"  {self._title}"), seconds)
        return head

    def _draw(self, *parts: RenderableType) -> None:
        self._live.update(Group(*parts), refresh=True)


def _bar(progress: Progress) -> RenderableType:
    bar = Table.grid(expand=True, padding=(0, 2, 0, 0))
    bar.add_column(ratio=1)
    bar.add_column(justify="right", no_wrap=True)
    bar.add_column(justify="right", no_wrap=True, min_width=9)
    share = progress.share
    drawn = ProgressBar(total=None if share is None else 1.0, completed=share or 0.0, pulse=False)
    bar.add_row(drawn, f"{progress.decided:,} decided", f"{progress.per_second:,.0f}/s")
    return bar


def _counts(progress: Progress) -> RenderableType:
    counts = progress.counts
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True, min_width=7)
    table.add_column(justify="right", no_wrap=True, min_width=6)
    table.add_column(no_wrap=True)
    for name, count, style in (
        ("unique", counts.unique, UNIQUE_STYLE),
        ("  too short to compare", counts.undecidable, UNDECIDABLE_STYLE),
        ("duplicates", counts.duplicates, DUPLICATE_STYLE),
        ("dead letters", counts.dead_letters, DEAD_LETTER_STYLE),
    ):
        share = count / max(1, progress.decided)
        cells = Text("━" * round(share * _BAR_CELLS), style=style)
        table.add_row(name, f"{count:,}", f"{share:.1%}", cells)
    return table


def _duplicate(duplicate: DuplicateOutput, change: Change, width: int) -> Iterator[Text]:
    line = Text("  ")
    line.append(_pair(duplicate), style=DUPLICATE_STYLE)
    line.append(f"  {nearness(duplicate)}")
    line.truncate(width)
    yield line
    yield Text("    " + one_line(change(duplicate), width - 5), style=QUIET_STYLE)


def _pair(duplicate: DuplicateOutput) -> str:
    return f"{one_line(duplicate.id, _ID_CELLS)} ← {one_line(duplicate.original_id, _ID_CELLS)}"


def nearness(duplicate: DuplicateOutput) -> str:
    if duplicate.method == "exact":
        return "the same content"
    return f"{duplicate.distance} of {duplicate.bits} bits differ"
