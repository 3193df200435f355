"""The text of ``--help``: no line wider than the terminal, the examples included.

click wraps paragraphs by itself, but leaves lines as they are that must keep their ends. Those are
folded here; an example keeps a backslash at each fold, so that it can still be pasted.
"""

from __future__ import annotations

from typing import Final

import click

_EXAMPLES: Final = ("Example:", "Examples:")
_FOLD: Final = " \\"


class FittingHelp(click.HelpFormatter):
    """Folds the lines that are too long for the terminal."""

    def getvalue(self) -> str:
        """Return the text of the page."""
        lines: list[str] = []
        is_example = False
        for line in super().getvalue().split("\n"):
            if line.strip():
                is_example = line.strip() in _EXAMPLES or (is_example and line.startswith("    "))
            lines += _folded(line, self.width, _FOLD if is_example else "")
        return "\n".join(lines)


class FittingContext(click.Context):
    """The context of a command whose help fits the terminal."""

    formatter_class = FittingHelp


def fit_help(command: click.Command) -> None:
    """Let the help of a command, and of the commands in it, fit the terminal."""
    command.context_class = FittingContext
    if isinstance(command, click.Group):
        for each in command.commands.values():
            fit_help(each)


def _folded(line: str, width: int, mark: str) -> list[str]:
    if len(line) <= width // 2:  # too short to be too wide, in Chinese as well
        return [line]
    from rich.cells import cell_len

    indent = " " * (len(line) - len(line.lstrip()) + 2)
    folded: list[str] = []
    while cell_len(line) > width:
        room = width - len(mark)
        fits = next(n for n in range(len(line), 0, -1) if cell_len(line[:n]) <= room)
        end = line.rfind(" ", len(indent), fits + 1)
        if end < 0:
            break
        folded.append(line[:end] + mark)
        line = indent + line[end + 1 :]
    return [*folded, line]
