"""Display of a running demo: a live picture on a terminal, else lines."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple, Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from streams.demo.examples import duplicate_lines
from streams.demo.summary import DemoReport, outputs
from streams.documents.output_records import DuplicateOutput

Change = Callable[[DuplicateOutput], str]
"""Returns how a duplicate differs from its original, "" if unknown."""


class Progress(NamedTuple):
    """The figures so far, and the latest duplicates, the last one at the end."""

    report: DemoReport
    latest: Sequence[DuplicateOutput]
    share: float | None  # of the stream that is done, 0 to 1; None if unknown
    per_second: float  # lately


class View(Protocol):
    def starting(self, what: str) -> None: ...

    def show(self, progress: Progress, change: Change) -> None: ...

    def finish(self) -> None: ...


HEADLINE: Final = "firstseen demo"

_FIXED_LINES: Final = 12  # height of the picture without the list of duplicates
_LINE_SECONDS: Final = 2.0


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
        self._print(f"{HEADLINE}: {title}")

    def starting(self, what: str) -> None:
        self._print(f"{what} …")

    def show(self, progress: Progress, change: Change) -> None:
        now, report = time.monotonic(), progress.report
        if progress.share != 1.0 and now - self._printed_at < _LINE_SECONDS:
            return
        self._printed_at = now
        share = "" if progress.share is None else f"{progress.share:4.0%}  "
        self._print(
            f"{report.seconds:6.1f} s  {share}{report.decided:,} decided "
            f"({progress.per_second:,.0f}/s): {report.unique:,} unique, "
            f"{report.duplicates:,} duplicates, {report.dead_letters:,} dead letters"
        )
        if progress.latest:
            for line in duplicate_lines(progress.latest[-1], change(progress.latest[-1])):
                self._print(f"        {line.plain}")

    def finish(self) -> None:
        pass

    def _print(self, text: str) -> None:
        self._console.print(text, soft_wrap=True, highlight=False, markup=False)


class LiveView:
    def __init__(self, live: Live, title: str) -> None:
        self._live = live
        self._title = title

    def starting(self, what: str) -> None:
        self._draw(Text(f"  {what} …"))

    def show(self, progress: Progress, change: Change) -> None:
        report, share, size = progress.report, progress.share, self._live.console.size
        bar = Table.grid(expand=True, padding=(0, 0, 0, 2))
        bar.add_row(
            ProgressBar(total=None if share is None else 1.0, completed=share or 0.0),
            Text(f"{report.decided:,} decided in {report.seconds:.1f} s"),
            Text(f"{progress.per_second:,.0f}/s", justify="right"),
        )
        room = max(1, (size.height - _FIXED_LINES) // 2)
        latest = [
            line
            for each in list(progress.latest)[-room:][::-1]
            for line in duplicate_lines(each, change(each))
        ]
        for line in latest:
            line.truncate(size.width, overflow="ellipsis")
        self._draw(
            bar, Text(), outputs(report), Text(), Text("  Latest duplicates", style="bold"), *latest
        )

    def finish(self) -> None:
        self._live.stop()

    def _draw(self, *parts: RenderableType) -> None:
        head = Text.assemble(
            (HEADLINE, "bold"), f"  {self._title}", no_wrap=True, overflow="ellipsis"
        )
        self._live.update(Group(head, Text(), *parts), refresh=True)
