"""Tables and lines of text that fit the terminal; into a file, each is as wide as it is.

A command makes a list of blocks, which are lines of text and tables, and ``show`` prints them. In
a terminal that is too narrow, cells of tables and long lines are folded, so nothing is cut and
nothing is wider than the terminal. Into a file or a pipe every row is one line.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from streams.terminal.terminal_text import one_line

_UNBOUNDED: Final = 100_000
_GAP: Final = 2
_JUSTIFY: Final[dict[str, Literal["left", "right"]]] = {"<": "left", ">": "right"}


class Listing(NamedTuple):
    """A table that becomes a paragraph for each row where its words do not fit beside each other.

    ``head`` names the columns, the first of which names a row; ``align`` is as for ``table``.
    """

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    align: str
    indent: str = ""


Block: TypeAlias = str | Text | Table | Listing
"""A line of text, or a table."""


def table(rows: Iterable[Sequence[str | Text]], align: str, indent: str = "") -> Table:
    """Return a table; ``align`` has a ``<`` or ``>`` for each column, ``indent`` is blanks."""
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
    """Return a cell whose text cannot move the cursor; blanks at its beginning stay."""
    return Text(" " * (len(text) - len(text.lstrip(" "))) + one_line(text))


def output_console(*, stderr: bool = False) -> Console:
    """Return the console for what a command prints.

    It is as wide as the terminal, or as ``COLUMNS`` says; without either it has no bound.
    """
    console = Console(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _UNBOUNDED
    return console


def show(blocks: Iterable[Block], *, stderr: bool = False, console: Console | None = None) -> None:
    """Print lines and tables, no line wider than the console."""
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
    """Yield a listing as a table, or as paragraphs where a column would cut its words."""
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
    """Yield a line in parts of at most ``width`` cells, cut at blanks where there are any.

    Where it is indented or has a label before a gap, all parts but the first are indented further.
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
    """Print a table, without the blanks that fill the last column."""
    with console.capture() as capture:
        console.print(block)
    for line in capture.get().split("\n")[:-1]:
        console.out(line.rstrip(), highlight=False)
