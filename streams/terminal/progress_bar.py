"""A bar for work in steps, each of which knows how much there is to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn


@contextmanager
def step_progress() -> Iterator[Callable[[str, int, int], None]]:
    """Show a bar on standard error where that is a terminal; give what moves it.

    It is told the step in words, how much is done and how much there is.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _step, _done, _total: None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        TaskProgressColumn(),
        TimeRemainingColumn(compact=True),
    )
    with Progress(*columns, console=console, transient=True, refresh_per_second=4) as progress:
        task = progress.add_task("reading", total=None)

        def move(step: str, done: int, total: int) -> None:
            progress.update(task, description=step, completed=done, total=total)

        yield move
