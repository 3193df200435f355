"""Errors of the shell that decide the exit code of a command, and the codes."""

from __future__ import annotations

import errno
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum
from typing import Final, NamedTuple, TextIO

import click

from simhash_core.errors import ErrorReason, FirstseenError, IndexMismatchError, UsageError
from simhash_core.log.versions import UnreadableVersionError

# ::
#
#     FirstseenError
#     ├── SettingsError            exit 78: invalid settings, all of them at once
#     ├── StateMismatchError       exit 78: stored state does not match the settings
#     ├── RegistryRefusedError     exit 78: the schema registry refuses the user
#     ├── BrokerUnavailableError   exit 69: no broker answered in time
#     │   └── UnansweredError      no answer to a shard, which is then opened again
#     ├── WorkerUnavailableError   exit 69: no worker answered
#     └── BrokerRefusedError       exit 1: a broker refused the request
#
# An error of one module is defined there. This module imports nothing heavy: every command does.


class Problem(NamedTuple):
    """An invalid setting.

    ``setting`` is its dotted name, ``value`` its value (masked if secret), ``origin`` its source
    (also "default"), ``message`` what it must be.
    """

    setting: str
    value: str
    origin: str
    message: str

    def __str__(self) -> str:
        """Return, for example, ``topics.raw is 'a b' (from --set): it must be …``."""
        is_value = f" is {self.value}" if self.value else ""
        return f"{self.setting}{is_value} (from {self.origin}): {self.message}"


class SettingsError(FirstseenError):
    """Invalid settings; ``problems`` has all of them, in order."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        lines = [str(problem) for problem in self.problems]
        if len(lines) == 1:
            super().__init__(f"configuration: {lines[0]}")
        else:
            super().__init__("\n  ".join([f"configuration: {len(lines)} problems", *lines]))


class StateMismatchError(FirstseenError):
    reason = ErrorReason.FORMAT


class RegistryRefusedError(FirstseenError):
    """The schema registry or its token server refuses the user; a retry does not help."""


class BrokerUnavailableError(FirstseenError):
    """No broker answered in time; the message names addresses, wait and last reason."""

    reason = ErrorReason.BROKER


class UnansweredError(BrokerUnavailableError):
    """A request of a shard got no answer, or one that does not tell whether it succeeded.

    It is unknown whether the commit happened. Opening the shard again shows it: the broker returns
    the group's offset only after the transaction has ended.
    """

    reason = ErrorReason.TIMEOUT


class WorkerUnavailableError(FirstseenError):
    reason = ErrorReason.TIMEOUT


class BrokerRefusedError(FirstseenError):
    reason = ErrorReason.BROKER


# ---- Exit codes and messages. The codes follow sysexits.h, so that a supervisor can tell "try
# again" (69) from "somebody must change something" (78).


class ExitCode(IntEnum):
    OK = 0
    RUNTIME = 1
    USAGE = 2
    DUPLICATE = 3  # ``check --exit-code``: the text is a duplicate
    BROKER_UNAVAILABLE = 69  # no Kafka broker answered in time; for ``check``, no worker did
    CONFIGURATION = 78  # invalid settings, or settings that do not fit the index
    INTERRUPTED = 130  # SIGINT, which is Ctrl-C: 128 + 2
    TERMINATED = 143  # SIGTERM: 128 + 15


# The first match decides, so a subclass comes before its base class.
_CODE_BY_ERROR: Final[tuple[tuple[type[BaseException], ExitCode], ...]] = (
    (SettingsError, ExitCode.CONFIGURATION),
    (IndexMismatchError, ExitCode.CONFIGURATION),
    (StateMismatchError, ExitCode.CONFIGURATION),
    (UnreadableVersionError, ExitCode.CONFIGURATION),
    (RegistryRefusedError, ExitCode.CONFIGURATION),
    (BrokerUnavailableError, ExitCode.BROKER_UNAVAILABLE),
    (WorkerUnavailableError, ExitCode.BROKER_UNAVAILABLE),
    (UsageError, ExitCode.USAGE),
    (click.UsageError, ExitCode.USAGE),
    (click.Abort, ExitCode.INTERRUPTED),
    (KeyboardInterrupt, ExitCode.INTERRUPTED),
)


def exit_code_of(error: BaseException) -> ExitCode:
    for error_class, code in _CODE_BY_ERROR:
        if isinstance(error, error_class):
            return code
    return ExitCode.RUNTIME


@contextmanager
def signals_shown() -> Iterator[None]:
    """Raise what the handler of a signal raised within a call of confluent-kafka.

    Such a call may return a result all the same. Python then raises ``SystemError`` instead.
    """
    try:
        yield
    except SystemError as error:
        if isinstance(error.__cause__, SystemExit | KeyboardInterrupt):
            raise error.__cause__ from None
        raise


def report(error: BaseException, *, debug: bool = False, stream: TextIO | None = None) -> ExitCode:
    """Print an error as ``firstseen: <message>`` and return its exit code.

    ``stream`` is standard error by default. ``debug`` prints the traceback first. An error of any
    class but ``FirstseenError`` and click's is reported as an internal error, with its class. A
    full disk is not.
    """
    stream = stream or sys.stderr
    if debug:
        traceback.print_exception(error, file=stream)
    message = _message_of(error, debug=debug)
    if message:
        print(fit_terminal(f"firstseen: {message}", stream), file=stream)
    return exit_code_of(error)


def fit_terminal(message: str, stream: TextIO) -> str:
    """Wrap a message to the width of a terminal; leave it unchanged elsewhere."""
    if not stream.isatty():
        return message
    # A worker under a supervisor need not load rich.
    from rich.console import Console  # noqa: PLC0415 - see above
    from rich.text import Text  # noqa: PLC0415 - see above

    console = Console(file=stream)
    lines = Text(message).wrap(console, console.width)
    return "\n".join(line.plain.rstrip() for line in lines)


def _message_of(error: BaseException, *, debug: bool) -> str:
    match error:
        case click.Abort() | KeyboardInterrupt():
            return ""  # the user has interrupted it, and knows
        case click.UsageError(ctx=ctx):
            hint = f"\nTry '{ctx.command_path} --help'." if ctx else ""
            return error.format_message() + hint
        case click.ClickException():
            return error.format_message()
        case FirstseenError():
            return str(error)
        case OSError(errno=errno.ENOSPC | errno.EDQUOT):
            what = error.filename or "the output"
            return f"cannot write {what}: {error.strerror}. Make room, and run the command again"
    hint = "" if debug else " ('firstseen --debug …' shows where)"
    return f"internal error: {type(error).__name__}: {error}{hint}"
