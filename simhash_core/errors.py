"""The errors of the core.

::

    FirstseenError
    ├── UsageError            the caller's mistake: an invalid parameter
    │   └── UnknownNameError  a name that no registry holds
    ├── IndexMismatchError    state or message made with another index identity
    └── ProtocolError         a message that no correct sender can have sent

Invalid *documents* are values (``Rejection``, ``Undecidable``), not errors: the stream continues.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import ClassVar


class ErrorReason(StrEnum):
    """The kind of an error, used as a label of metrics."""

    BROKER = "broker"  # not reachable, or it refused
    TIMEOUT = "timeout"
    FENCED = "fenced"  # another worker owns the partitions now
    FORMAT = "format"  # an internal record or stored state is unreadable or of another index
    STORAGE = "storage"  # the disk could not be read or written
    INTERNAL = "internal"  # a bug


class FirstseenError(Exception):
    """An error that Firstseen raises on purpose; programs read attributes, people the message."""

    reason: ClassVar[ErrorReason] = ErrorReason.INTERNAL
    hint: str = ""  # what to do; the end of the message


class UsageError(FirstseenError, ValueError):
    """An invalid parameter; the message names it, its value and the fix."""

    def __init__(self, message: str, *, setting: str | None = None, hint: str = "") -> None:
        """``setting`` names the parameter, None if there are several; ``hint`` ends the message."""
        self.setting = setting
        self.hint = hint
        super().__init__(f"{message}: {hint}" if hint else message)


class UnknownNameError(UsageError):
    """A name that is in no registry; the message lists the valid ones."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        self.kind = kind
        self.name = name
        super().__init__(f"unknown {kind} {name!r}: choose one of {', '.join(sorted(known))}")


class IndexMismatchError(FirstseenError):
    reason = ErrorReason.FORMAT

    def __init__(self, where: str, theirs: str, ours: str) -> None:
        self.theirs = theirs
        self.ours = ours
        differences = "; ".join(_differences(theirs, ours))
        super().__init__(
            f"{where} was made with another index identity:\n  there: {theirs}\n  here:  {ours}\n"
            f"They differ in {differences}.\n"
            "Use the settings that made it, or start a new index with an empty state directory "
            "(and for workers, a new application id)."
        )


def _differences(theirs: str, ours: str) -> list[str]:
    """Return the parts in which two index identities differ, because identities are long."""
    there, here = (
        {name: value or "set" for name, _, value in (part.partition("=") for part in each.split())}
        for each in (theirs, ours)
    )
    return [
        f"{name}: there {there.get(name, 'none')}, here {here.get(name, 'none')}"
        for name in {**there, **here}
        if there.get(name) != here.get(name)
    ]


class ProtocolError(FirstseenError):
    """A record or a call that no correct worker makes, e.g. an append that was never in flight."""

    reason = ErrorReason.FORMAT
