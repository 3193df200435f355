"""The errors of the core, as one tree.

::

    FirstseenError
    ├── UsageError            the caller's mistake: an invalid parameter
    │   └── UnknownNameError  a name that no registry holds
    ├── IndexMismatchError    state or message made with another index identity
    └── ProtocolError         a message that no correct sender can have sent

Bad *documents* are not errors: they are values (``Rejection``, ``Undecidable``), because a
stream must go on past them.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import ClassVar


class ErrorReason(StrEnum):
    """What kind of failure an error is: the label of a metric, and a reader's first question."""

    BROKER = "broker"
    """The broker could not be reached, or refused."""
    TIMEOUT = "timeout"
    """Something was not done in time."""
    FENCED = "fenced"
    """Another worker owns the partitions by now."""
    FORMAT = "format"
    """An internal record or stored state that cannot be read, or is of another index."""
    STORAGE = "storage"
    """The disk could not be read or written."""
    INTERNAL = "internal"
    """Anything else: a bug."""


class FirstseenError(Exception):
    """Anything that Firstseen raises on purpose.

    What a program needs of an error stands in attributes; the message is for people.

    Attributes:
        reason: The kind of failure, of the class.
        hint: What to do, as it ends the message; "" where the message says all there is.
    """

    reason: ClassVar[ErrorReason] = ErrorReason.INTERNAL
    hint: str = ""


class UsageError(FirstseenError, ValueError):
    """An invalid parameter; the message names it, its value and the fix.

    Attributes:
        setting: The name of the parameter; None where more than one is at fault.
        hint: What it must be, or what to do; "" where the message says all there is.
    """

    def __init__(self, message: str, *, setting: str | None = None, hint: str = "") -> None:
        """``hint`` ends the message, after a colon."""
        self.setting = setting
        self.hint = hint
        super().__init__(f"{message}: {hint}" if hint else message)


class UnknownNameError(UsageError):
    """A name that a registry does not hold; the message lists those that it does."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        """Keep ``kind`` and ``name`` for the caller, and say which names exist."""
        self.kind = kind
        self.name = name
        super().__init__(f"unknown {kind} {name!r}: choose one of {', '.join(sorted(known))}")


class IndexMismatchError(FirstseenError):
    """State or a message that was made under another index identity."""

    reason = ErrorReason.FORMAT

    def __init__(self, where: str, theirs: str, ours: str) -> None:
        """Keep both identities, and name what carries the other one."""
        self.theirs = theirs
        self.ours = ours
        super().__init__(
            f"{where} was made with another index identity:\n  there: {theirs}\n  here:  {ours}\n"
            "Use the settings that made it, or start a new index with a new application id and "
            "an empty state directory."
        )


class ProtocolError(FirstseenError):
    """A record or a call that no correct worker makes, e.g. an append that was never under way."""

    reason = ErrorReason.FORMAT
