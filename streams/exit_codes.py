"""What the command ends with: one place from error classes to exit codes and messages.

The codes follow sysexits.h where it has one for the case, so that a supervisor can tell "try again"
(69) from "somebody must change something" (78).
"""

from __future__ import annotations

import sys
import traceback
from enum import IntEnum
from typing import Final, TextIO

import click

from simhash_core.errors import FirstseenError, IndexMismatchError, UsageError
from streams.errors import (
    BrokerUnavailableError,
    RegistryRefusedError,
    SettingsError,
    StateMismatchError,
    WorkerUnavailableError,
)


class ExitCode(IntEnum):
    """Every code that ``firstseen`` ends with."""

    OK = 0
    RUNTIME = 1
    """Something failed while running; the message says what."""
    USAGE = 2
    """The command line: an unknown option, a missing argument, an invalid value."""
    DUPLICATE = 3
    """``check --exit-code``: the text is a duplicate."""
    BROKER_UNAVAILABLE = 69
    """No Kafka broker answered in time; of ``check``, no worker."""
    CONFIGURATION = 78
    """Invalid settings, or settings that do not fit the index."""
    INTERRUPTED = 130
    """SIGINT, which is Ctrl-C: 128 + 2."""
    TERMINATED = 143
    """SIGTERM: 128 + 15."""


# The first class that fits decides, so a subclass stands before the class that it derives from.
_CODE_BY_ERROR: Final[tuple[tuple[type[BaseException], ExitCode], ...]] = (
    (SettingsError, ExitCode.CONFIGURATION),
    (IndexMismatchError, ExitCode.CONFIGURATION),
    (StateMismatchError, ExitCode.CONFIGURATION),
    (RegistryRefusedError, ExitCode.CONFIGURATION),
    (BrokerUnavailableError, ExitCode.BROKER_UNAVAILABLE),
    (WorkerUnavailableError, ExitCode.BROKER_UNAVAILABLE),
    (UsageError, ExitCode.USAGE),
    (click.UsageError, ExitCode.USAGE),
    (click.Abort, ExitCode.INTERRUPTED),
    (KeyboardInterrupt, ExitCode.INTERRUPTED),
)


def exit_code_of(error: BaseException) -> ExitCode:
    """Return the exit code that an error ends the command with."""
    for error_class, code in _CODE_BY_ERROR:
        if isinstance(error, error_class):
            return code
    return ExitCode.RUNTIME


def report(error: BaseException, *, debug: bool = False, stream: TextIO | None = None) -> ExitCode:
    """Print on ``stream`` (standard error) what ended the command; return its exit code.

    The message is ``firstseen: <message>``; with ``debug`` the traceback comes first. An error that
    Firstseen does not raise on purpose is called an internal error, with its class.
    """
    stream = stream or sys.stderr
    if debug:
        traceback.print_exception(error, file=stream)
    message = _message_of(error, debug=debug)
    if message:
        print(fit_terminal(f"firstseen: {message}", stream), file=stream)
    return exit_code_of(error)


def fit_terminal(message: str, stream: TextIO) -> str:
    """Return a message with no line wider than the terminal; unchanged where there is none."""
    if not stream.isatty():
        return message
    # Only for who reads along: a worker under a supervisor need not load it.
    from rich.console import Console  # noqa: PLC0415 - see above
    from rich.text import Text  # noqa: PLC0415 - see above

    console = Console(file=stream)
    lines = Text(message).wrap(console, console.width)
    return "\n".join(line.plain.rstrip() for line in lines)


def _message_of(error: BaseException, *, debug: bool) -> str:
    match error:
        case click.Abort() | KeyboardInterrupt():
            return ""  # who pressed Ctrl-C knows
        case click.UsageError(ctx=ctx):
            hint = f"\nTry '{ctx.command_path} --help'." if ctx else ""
            return error.format_message() + hint
        case click.ClickException():
            return error.format_message()
        case FirstseenError():
            return str(error)
    hint = "" if debug else " ('firstseen --debug …' shows where)"
    return f"internal error: {type(error).__name__}: {error}{hint}"
