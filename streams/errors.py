"""Errors of the shell that decide the exit code of a command, under the core's ``FirstseenError``.

::

    FirstseenError
    ├── SettingsError            exit 78: invalid settings, all of them at once
    ├── StateMismatchError       exit 78: stored state that is not what the settings ask for
    ├── RegistryRefusedError     exit 78: the schema registry refuses the user of the settings
    ├── BrokerUnavailableError   exit 69: no broker answered in time
    │   └── UnansweredError      …  what a shard asked; it is opened again first
    ├── WorkerUnavailableError   exit 69: no worker answered, or it cannot answer now
    └── BrokerRefusedError       exit 1: a broker answered, and would not or could not

An error that belongs to one module is defined there. This module imports nothing heavy: every
start of the command reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from simhash_core.errors import ErrorReason, FirstseenError


class Problem(NamedTuple):
    """One thing wrong with the settings.

    ``setting`` is its dotted name, ``value`` its value, masked where it is secret, ``origin``
    where the value comes from ("default" too), ``message`` what it must be.
    """

    setting: str
    value: str
    origin: str
    message: str

    def __str__(self) -> str:
        """``topics.raw is 'a b' (from --set): it must be …``."""
        is_value = f" is {self.value}" if self.value else ""
        return f"{self.setting}{is_value} (from {self.origin}): {self.message}"


class SettingsError(FirstseenError):
    """Invalid settings; ``problems`` are all that were found, in order."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        """Keep the problems, and list them in the message."""
        self.problems = tuple(problems)
        lines = [str(problem) for problem in self.problems]
        if len(lines) == 1:
            super().__init__(f"configuration: {lines[0]}")
        else:
            super().__init__("\n  ".join([f"configuration: {len(lines)} problems", *lines]))


class StateMismatchError(FirstseenError):
    """Stored state is not that of the settings (``streams.store.store_errors``)."""

    reason = ErrorReason.FORMAT


class RegistryRefusedError(FirstseenError):
    """The schema registry, or who gives tokens for it, refuses the user; waiting does not help."""


class BrokerUnavailableError(FirstseenError):
    """No broker answered in time; the message names the addresses, the wait and the last reason."""

    reason = ErrorReason.BROKER


class UnansweredError(BrokerUnavailableError):
    """A shard's request to the broker had no answer, or an answer that leaves the result open.

    Nobody here knows what is committed. Whoever opens the shard again finds out: the broker returns
    the group's offset only after its transaction has ended, one way or the other.
    """

    reason = ErrorReason.TIMEOUT


class WorkerUnavailableError(FirstseenError):
    """A worker that was asked did not answer, or cannot now; the message has its address."""

    reason = ErrorReason.TIMEOUT


class BrokerRefusedError(FirstseenError):
    """A broker answered, and would not do what was asked; the message says what and why."""

    reason = ErrorReason.BROKER
