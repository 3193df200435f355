"""Entry point: runs a command, and turns errors into exit codes."""

from __future__ import annotations

import atexit
import codecs
import faulthandler
import gc
import importlib
import io
import json
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn

import click

from streams.errors import ExitCode, report, signals_shown

# ---- The text of ``--help``: no line is wider than the terminal.
#
# click wraps paragraphs only; this module folds the other lines. A folded example gets a backslash,
# so users can still paste it.

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
    if len(line) <= width // 2:  # it fits even if all characters take two cells, as in Chinese
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


_COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "check": ("page_commands", "Check a text against the index, through a running worker."),
    "compare": ("text_commands", "Compare two texts by three measures."),
    "config": ("config_command", "Show and check the configuration."),
    "consume": ("consume_command", "Show records of topics, as text or as JSON lines."),
    "dedup": ("dedup_command", "Split files into unique documents and duplicates, without Kafka."),
    "demo": ("demo_command", "Watch the deduplication of a stream; no setup is needed."),
    "dlq": ("dlq_command", "List, show and replay dead letters."),
    "evaluate": (
        "evaluation_commands",
        "Measure recall and precision on documents that you have labelled.",
    ),
    "explain": ("text_commands", "Show why two texts are near duplicates, or are not."),
    "fingerprint": (
        "text_commands",
        "Show the fingerprint of a text, or of each document of a file.",
    ),
    "health": ("page_commands", "Check whether a worker is healthy, for container probes."),
    "idf": ("idf_command", "Train and show tables of term rarity."),
    "index": (
        "index_command",
        "Inspect, check, copy, load and repair an index.",
    ),
    "load": (
        "produce_commands",
        "Send generated documents to the raw topic, to test an installation.",
    ),
    "plan": ("plan_command", "Estimate the size, cost and recall of an index."),
    "produce": ("produce_commands", "Send files, folders or standard input to the raw topic."),
    "topics": ("topics_command", "Create and check the topics."),
    "tune": ("evaluation_commands", "Recommend a profile and a threshold for a precision."),
    "version": ("version_command", "Show the versions of Firstseen and its dependencies."),
    "worker": ("worker_command", "Run a worker of the stream."),
}
"""The module of each command, and its line in ``firstseen --help``."""
_NEW_OBJECTS: Final = 50_000
"""Threshold of the garbage collector. Imports make many lasting objects, and take a tenth longer
with the default of 700."""
_ESCAPED: Final = "firstseen.escaped"


class LazyCommands(click.Group):
    """Imports a command only when it is called, so a broken one affects no other."""

    context_class = FittingContext

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in _COMMANDS:
            return None
        module, summary = _COMMANDS[cmd_name]
        imported = importlib.import_module(f"streams.cli.{module}")
        command: click.Command = getattr(imported, cmd_name)
        command.short_help = summary
        fit_help(command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            near = get_close_matches(args[0], _COMMANDS, n=1)
            if near:
                error.message += f" Did you mean {near[0]!r}?"
            raise

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in _COMMANDS.items()])


@click.group(cls=LazyCommands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="firstseen", message="firstseen %(version)s")
@click.option("--debug", is_flag=True, help="On an error, show the Python traceback as well.")
def cli(*, debug: bool) -> None:
    """A streaming near-duplicate filter for Kafka.

    \b
    Examples:
      firstseen config show --broker kafka-1:9092
      firstseen topics create --partitions 12
      firstseen COMMAND --help

    Exit codes: 0 success (also after SIGTERM, for a worker), 1 failed, 2 wrong command line,
    69 no broker, 78 wrong configuration, 130 interrupted, 143 terminated.
    """
    del debug  # main reads it, because it is needed when click fails too


def _escaped(error: UnicodeError) -> tuple[str, int]:
    """Return the characters that standard output cannot encode as JSON does: JSON stays JSON."""
    assert isinstance(error, UnicodeEncodeError)
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


def run(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command as this process, and end the process with its exit code.

    A Kafka client that receives a late response calls into Python from its own thread. After
    Python's own shutdown that is a segmentation fault, so the process ends before it.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # as after ``2>&-``: a socket would get its descriptor
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115 - for the whole process
    faulthandler.enable()
    codecs.register_error(_ESCAPED, _escaped)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors=_ESCAPED)
    code: int = ExitCode.RUNTIME
    try:
        code = main(arguments)
        # The order of Python's own shutdown, and what ``multiprocessing`` does in its children.
        threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001
        atexit._run_exitfuncs()  # noqa: SLF001
        for stream in (sys.stdout, sys.stderr):
            # It may be closed, or its reader gone.
            with suppress(OSError, ValueError):
                stream.flush()
    except BaseException:  # noqa: BLE001 - the process ends here, and not in silence
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(code)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command in this process; return its exit code."""
    gc.set_threshold(_NEW_OBJECTS)
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    # Only before the command's name: after it, the option belongs to the command.
    ahead = arguments[: next((i for i, a in enumerate(arguments) if a[:1] != "-"), None)]
    try:
        with _sigterm_ends_in_order(), signals_shown():
            # ``obj`` has the arguments, because a supervisor starts its workers with them.
            code: int | None = cli.main(
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
    except SystemExit as exit_:  # SIGTERM, or click has completed a word for a shell
        if exit_.code == ExitCode.TERMINATED and arguments[len(ahead) :][:1] == ["worker"]:
            return ExitCode.OK  # it was still loading its code or settings: a clean stop
        return int(exit_.code or ExitCode.OK)
    except BaseException as error:  # noqa: BLE001 - the one place where everything ends
        return report(error, debug="--debug" in ahead)
    return code or ExitCode.OK


@contextmanager
def _sigterm_ends_in_order() -> Iterator[None]:
    """Turn SIGTERM into ``SystemExit``, so that ``finally`` blocks stop what a command started.

    A command with an event loop replaces this handler with its own.
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
    run()
