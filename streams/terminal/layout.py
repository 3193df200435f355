"""Tables and lines that fit the terminal.

A command makes a list of blocks (lines and tables), and ``show`` prints them. On a narrow terminal,
cells and long lines are folded. In a file or a pipe every row is one line.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from textwrap import wrap
from typing import Final, Literal, NamedTuple, TypeAlias

from rich.cells import cell_len, set_cell_size
from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

# ---- Untrusted text on a terminal: one line, cut by cells (a Chinese character takes two).
#
# Control characters, escape sequences and direction marks are removed, because a document must not
# control the terminal.

ELLIPSIS: Final = "…"
_DROPPED: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})
_HEX_A_LINE: Final = 64
_LOOKED_AT: Final = 8  # characters examined for each cell, a bound on the work for long texts


def one_line(text: str, cells: int | None = None) -> str:
    if cells is not None and len(text) > cells * _LOOKED_AT:
        text = text[: cells * _LOOKED_AT] + ELLIPSIS
    text = " ".join(text.split())
    if not text.isprintable():
        text = "".join(sign for sign in text if unicodedata.category(sign) not in _DROPPED)
    if cells is None or cell_len(text) <= cells:
        return text
    return set_cell_size(text, cells - 1).rstrip() + ELLIPSIS if cells > 0 else ""


def escaped(text: str) -> str:
    """Return ``text`` with unprintable characters escaped; line ends and spaces stay."""
    return "".join(
        sign
        if sign.isprintable() or sign == "\n" or unicodedata.category(sign) == "Zs"
        else sign.encode("unicode_escape", "backslashreplace").decode()
        for sign in text
    )


def counted(count: int, noun: str) -> str:
    """Return, for example, ``1 worker`` or ``2 workers``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def hex_lines(fingerprint: bytes) -> list[str]:
    return wrap(fingerprint.hex(), _HEX_A_LINE)


_UNBOUNDED: Final = 100_000
_GAP: Final = 2
_JUSTIFY: Final[dict[str, Literal["left", "right"]]] = {"<": "left", ">": "right"}


class Listing(NamedTuple):
    """A table that becomes a paragraph for each row if the terminal is too narrow for its words.

    ``head`` names the columns; ``align`` is as for ``table``.
    """

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    align: str
    indent: str = ""


Block: TypeAlias = str | Text | Table | Listing


def table(rows: Iterable[Sequence[str | Text]], align: str, indent: str = "") -> Table:
    """Return a table; ``align`` has ``<`` or ``>`` for each column, ``indent`` is spaces."""
    rich_table = Table(
        box=None, show_header=False, show_edge=False, pad_edge=False, padding=(0, _GAP, 0, 0)
    )
    if indent:
        rich_table.add_column(width=len(indent) - _GAP, no_wrap=True)
    for side in align:
        rich_table.add_column(justify=_JUSTIFY[side], overflow="fold")
    for row in rows:
        cells = [_cell(cell) if isinstance(cell, str) else cell for cell in row]
        rich_table.add_row(*([""] if indent else []), *cells)
    return rich_table


def _cell(text: str) -> Text:
    return Text(" " * (len(text) - len(text.lstrip(" "))) + one_line(text))


def output_console(*, stderr: bool = False) -> Console:
    """Return a console as wide as the terminal or ``COLUMNS``, else without a limit."""
    console = Console(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _UNBOUNDED
    return console


def show(blocks: Iterable[Block], *, stderr: bool = False, console: Console | None = None) -> None:
    console = console or output_console(stderr=stderr)
    for block in blocks:
        if isinstance(block, Listing):
            show(_as_blocks(block, console.width), console=console)
        elif isinstance(block, Table):
            _print_table(console, block)
        else:
            line = Text(block) if isinstance(block, str) else block
            for part in folded(line, console.width):
                console.print(part, soft_wrap=True)


def _as_blocks(listing: Listing, width: int) -> Iterator[Block]:
    """Yield a listing as a table, or as paragraphs if a column would cut its words."""
    head, rows, align, indent = listing
    columns = zip(*([one_line(cell) for cell in row] for row in (head, *rows)), strict=True)
    narrowest = [
        max((cell_len(word) for cell in column for word in cell.split()), default=0)
        for column in columns
    ]
    if len(indent) + sum(narrowest) + _GAP * (len(narrowest) - 1) <= width:
        yield table([head, *rows], align, indent)
        return
    label_cells = max(map(cell_len, head[1:]))
    for row in rows:
        yield indent + one_line(row[0])
        for name, cell in zip(head[1:], row[1:], strict=True):
            if cell:
                blanks = " " * (label_cells - cell_len(name) + _GAP)
                yield f"{indent}  {name}{blanks}{one_line(cell)}"


def folded(line: Text, width: int) -> Iterator[Text]:
    """Yield a line in parts of at most ``width`` cells, cut at spaces if possible.

    If it is indented or has a label, the later parts are indented further.
    """
    if line.cell_len <= width:
        yield line
        return
    indent = len(line.plain) - len(line.plain.lstrip())
    indent = min(indent + _GAP, width // 2) if " " * _GAP in line.plain else 0
    console = Console(width=width)
    first, *_ = line.wrap(console, width)
    first.rstrip()
    yield first
    rest = line[len(first.plain) :]
    rest = rest[len(rest.plain) - len(rest.plain.lstrip()) :]
    for part in rest.wrap(console, width - indent):
        part.rstrip()
        yield Text(" " * indent) + part


def _print_table(console: Console, block: RenderableType) -> None:
    with console.capture() as capture:
        console.print(block)
    for line in capture.get().split("\n")[:-1]:
        console.out(line.rstrip(), highlight=False)


@contextmanager
def progress_bar() -> Iterator[Callable[[str, int, int | None], None]]:
    """Show a progress bar if standard error is a terminal; yield the function that moves it.

    Its arguments are the step in words, the amount done, and the total (None: unknown).
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
        task = progress.add_task("reading", total=None)

        def move(step: str, done: int, total: int | None) -> None:
            progress.update(task, description=step, completed=done, total=total)

        yield move
