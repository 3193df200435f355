"""The entry point: finds commands, runs one, turns errors into exit codes.

Command modules are found by their file name and imported only when they are called, so a command
is added by adding a file, and one that is broken spoils no other.
"""

from __future__ import annotations

import ast
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
from streams.cli.help_text import FittingContext, fit_help
from streams.exit_codes import ExitCode, report

_SUFFIX: Final = "_command"


class LazyCommands(click.Group):
    """A group whose commands are the ``*_command`` modules of this package."""

    context_class = FittingContext

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, sorted; nothing is imported."""
        del ctx
        modules = pkgutil.iter_modules(streams.cli.__path__)
        names = (module.name.removesuffix(_SUFFIX) for module in modules if _is_command(module))
        return sorted(name.replace("_", "-") for name in names)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of one command; None where there is none of that name."""
        if cmd_name not in self.list_commands(ctx):
            return None
        command: click.Command = importlib.import_module(_module_name(cmd_name)).command
        fit_help(command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that ``args`` begin with; a wrong name is answered with the nearest."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            near = get_close_matches(args[0], self.list_commands(ctx), n=1)
            if near:
                error.message += f" Did you mean {near[0]!r}?"
            raise

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands from the first lines of their modules, unimported."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, _summary(name)) for name in self.list_commands(ctx)])


def _is_command(module: pkgutil.ModuleInfo) -> bool:
    return module.name.endswith(_SUFFIX) and not module.ispkg


def _module_name(command_name: str) -> str:
    return f"{streams.cli.__name__}.{command_name.replace('-', '_')}{_SUFFIX}"


def _summary(command_name: str) -> str:
    """Return the first line of a command module's docstring, less ``firstseen NAME:``."""
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
    del debug  # read by main, which has to know it when click has failed as well


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; no traceback is shown without ``--debug``."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    # Only before the command's name: behind it, an option of that name is the command's own.
    ahead = arguments[: next((i for i, a in enumerate(arguments) if a[:1] != "-"), None)]
    try:
        with _sigterm_ends_in_order():
            result = cli.main(arguments, prog_name="firstseen", standalone_mode=False)
            sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help())
        return ExitCode.OK
    except BrokenPipeError:
        # The reader has gone (… | head). Python would complain again at exit, on the same pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.RUNTIME
    except SystemExit as exit_:
        return _as_code(exit_.code)
    except BaseException as error:  # noqa: BLE001 - the one place where everything ends
        return report(error, debug="--debug" in ahead)
    return _as_code(result)


def _as_code(result: object) -> int:
    """A command may return a code, or call ``ctx.exit``; anything else that it returns is success.

    A text given to ``sys.exit`` is a message of failure, as it is in Python.
    """
    if isinstance(result, str):
        click.echo(f"firstseen: {result}", err=True)
        return ExitCode.RUNTIME
    return result if isinstance(result, int) and not isinstance(result, bool) else ExitCode.OK


@contextmanager
def _sigterm_ends_in_order() -> Iterator[None]:
    """Let SIGTERM unwind the stack, so that what a command started is stopped by its ``finally``.

    A command that runs an event loop puts its own handler in this one's place.
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
