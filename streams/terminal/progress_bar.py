"""A bar on standard error for work that takes long."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn


@contextmanager
def progress_bar(first_step: str = "reading") -> Iterator[Callable[[str, int, int | None], None]]:
    """Show a bar where standard error is a terminal; give the function that moves it.

    Its arguments are the step in words, how much is done, and how much there is (None where nobody
    knows, as of a pipe).
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _step, _done, _total: None
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=None),
        TaskProgressColumn(),
        TimeRemainingColumn(compact=True),
    )
    with Progress(*columns, console=console, transient=True, refresh_per_second=4) as progress:
        task = progress.add_task(first_step, total=None)

        def move(step: str, done: int, total: int | None) -> None:
            progress.update(task, description=step, completed=done, total=total)

        yield move
