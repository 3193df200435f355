"""Entry point: finds the command modules, runs one, and turns errors into exit codes.

A command is found by its file name and imported only when it is called: a new file adds a command,
and a broken one affects no other.
"""

from __future__ import annotations

import ast
import gc
import importlib
import importlib.util
import os
import pkgutil
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from types import FrameType
from typing import Final

import click

import streams.cli
from streams.errors import ExitCode, report

# ---- The text of ``--help``: no line is wider than the terminal.
#
# click wraps paragraphs. Lines that keep their ends are folded here; a folded example gets a
# backslash, so it can still be pasted.

_EXAMPLES: Final = ("Example:", "Examples:")
_FOLD: Final = " \\"


class FittingHelp(click.HelpFormatter):
    def getvalue(self) -> str:
        lines: list[str] = []
        is_example = False
        for line in super().getvalue().split("\n"):
            if line.strip():
                is_example = line.strip() in _EXAMPLES or (is_example and line.startswith("    "))
            lines += _folded(line, self.width, _FOLD if is_example else "")
        return "\n".join(lines)


class FittingContext(click.Context):
    formatter_class = FittingHelp


def fit_help(command: click.Command) -> None:
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


_SUFFIX: Final = "_command"
_NEW_OBJECTS: Final = 50_000
"""How many there are before the garbage collector looks at them: imports make many that stay, and
take a tenth longer with the default of 700."""


class LazyCommands(click.Group):
    context_class = FittingContext

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        names = [each.name for each in pkgutil.iter_modules(streams.cli.__path__)]
        commands = [name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX)]
        return sorted(command.replace("_", "-") for command in commands)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        command: click.Command = importlib.import_module(_module_name(cmd_name)).command
        fit_help(command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            near = get_close_matches(args[0], self.list_commands(ctx), n=1)
            if near:
                error.message += f" Did you mean {near[0]!r}?"
            raise

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, _summary(name)) for name in self.list_commands(ctx)])


def _module_name(command_name: str) -> str:
    return f"{streams.cli.__name__}.{command_name.replace('-', '_')}{_SUFFIX}"


def _summary(command_name: str) -> str:
    """Return the summary in a command module's docstring, without ``firstseen NAME:``."""
    spec = importlib.util.find_spec(_module_name(command_name))
    assert spec is not None
    assert spec.origin is not None
    source = Path(spec.origin).read_text("utf-8")
    docstring = ast.get_docstring(ast.parse(source)) or ""
    first = docstring.partition("\n")[0].replace("`", "")
    summary = first.removeprefix(f"firstseen {command_name}:").strip()
    return summary[:1].upper() + summary[1:]


def _print_version(ctx: click.Context, _parameter: click.Parameter, wanted: bool) -> None:  # noqa: FBT001 - click's signature
    if not wanted or ctx.resilient_parsing:
        return
    from importlib.metadata import version

    click.echo(f"firstseen {version('firstseen')}")
    ctx.exit()


@click.group(cls=LazyCommands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version and exit.",
)
@click.option("--debug", is_flag=True, help="On an error, show the Python traceback as well.")
def cli(*, debug: bool) -> None:
    """A streaming near-duplicate filter for Kafka.

    \b
    Examples:
      firstseen config show --broker kafka-1:9092
      firstseen topics create --partitions 12
      firstseen COMMAND --help

    Exit codes: 0 done (also a worker that SIGTERM has stopped), 1 failed, 2 wrong command line,
    69 no broker, 78 wrong configuration, 130 interrupted, 143 terminated.
    """  # noqa: D301 - \b is click's mark for "leave the lines as they are"
    del debug  # main reads it, because it is needed when click fails too


def main(arguments: Sequence[str] | None = None) -> int:
    gc.set_threshold(_NEW_OBJECTS)
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    # Only before the command's name: after it, the option belongs to the command.
    ahead = arguments[: next((i for i, a in enumerate(arguments) if a[:1] != "-"), None)]
    try:
        with _sigterm_ends_in_order():
            # ``obj``: a supervisor starts its workers with the same arguments.
            result = cli.main(
                arguments, prog_name="firstseen", standalone_mode=False, obj=tuple(arguments)
            )
            sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help())
        return ExitCode.OK
    except BrokenPipeError:
        # The reader is gone (… | head). Python would complain again at exit, on the same pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.RUNTIME
    except SystemExit as exit_:
        return _as_code(exit_.code)
    except BaseException as error:  # noqa: BLE001 - the one place where everything ends
        return report(error, debug="--debug" in ahead)
    return _as_code(result)


def _as_code(result: object) -> int:
    """Return the code that a command returned or exited with; a text is an error message."""
    if isinstance(result, str):
        click.echo(f"firstseen: {result}", err=True)
        return ExitCode.RUNTIME
    return result if isinstance(result, int) and not isinstance(result, bool) else ExitCode.OK


@contextmanager
def _sigterm_ends_in_order() -> Iterator[None]:
    """Turn SIGTERM into ``SystemExit``, so that ``finally`` blocks stop what a command started.

    A command with an event loop replaces this handler by its own.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(_signal: int, _frame: FrameType | None) -> None:
        raise SystemExit(ExitCode.TERMINATED)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


if __name__ == "__main__":
    sys.exit(main())
