"""The values that labels of metrics take: closed lists, so that every series begins at 0.

A series that first appears at 1 is an increase that no alert sees. No label holds an id, a key or
a text of a document.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, TypeVar

from simhash_core.errors import UnknownNameError
from simhash_core.rejections import RejectionReason
from simhash_core.verdicts import VERDICT_NAMES

_Name = TypeVar("_Name", bound=StrEnum)

DEAD_LETTER: Final = "dead_letter"

VERDICTS: Final = (*VERDICT_NAMES, DEAD_LETTER)
"""Of ``firstseen_documents_total``: where a raw record can end."""

REJECTION_REASONS: Final = tuple(reason.value for reason in RejectionReason)
"""Of ``firstseen_dead_letters_total``."""


class InternalTopic(StrEnum):
    """The topics that workers keep for themselves, by what they are for."""

    LOG = "log"
    """Packets, queries and control records: the order of all documents."""
    REPORTS = "reports"
    """What look-ups found, from the other workers to the leader."""
    CHANGELOG = "changelog"
    """Entries and progress of the shards."""


class Stage(StrEnum):
    """The steps of the work, as they are timed, and as errors are counted."""

    READ = "read"
    """Raw records taken from the broker."""
    FINGERPRINT = "fingerprint"
    """Raw records to columns with fingerprints and sketches."""
    APPEND = "append"
    """Packets encoded and handed to the log."""
    LOOKUP = "lookup"
    """Packets of the log looked up in the shards of this worker."""
    DECIDE = "decide"
    """Reports to verdicts, at the leader."""
    OUTPUT = "output"
    """Verdicts to output records."""
    COMMIT = "commit"
    """Output records handed to the broker, until they are acknowledged or committed."""
    STORE = "store"
    """The write to the disk after the commit."""
    RECOVER = "recover"
    """A shard brought up to its changelog."""
    WATCH = "watch"
    """The broker asked for the ends of its partitions."""


class ErrorReason(StrEnum):
    """Why a step failed."""

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


class TransactionOutcome(StrEnum):
    """How a transaction ended."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    FENCED = "fenced"
    UNANSWERED = "unanswered"


def named(names: type[_Name], name: str) -> _Name:
    """Return a member by its value; raises ``UnknownNameError`` for no member's."""
    try:
        return names(name)
    except ValueError:
        raise UnknownNameError(names.__name__, name, names) from None
