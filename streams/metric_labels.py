"""The values that labels of metrics take: closed lists, so that every series begins at 0.

A series that first appears at 1 is an increase that no alert sees. No label holds an id, a key or
a text of a document.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, get_args

from simhash_core.probes import Message
from simhash_core.rejections import RejectionReason
from simhash_core.verdicts import VERDICT_NAMES

DEAD_LETTER: Final = "dead_letter"

VERDICTS: Final = (*VERDICT_NAMES, DEAD_LETTER)
"""Of ``firstseen_documents_total``: where a raw record can end."""

REJECTION_REASONS: Final = tuple(reason.value for reason in RejectionReason)
"""Of ``firstseen_dead_letters_total``."""

MESSAGE_KINDS: Final = tuple(kind.__name__.lower() for kind in get_args(Message))
"""Of ``firstseen_internal_messages_total``: the messages between shards."""


class Stage(StrEnum):
    """The steps of the work, as they are timed, and as errors are counted."""

    FINGERPRINT = "fingerprint"
    """Raw records to fingerprints."""
    LOOKUP = "lookup"
    """Packets of probes to verdicts."""
    SEND = "send"
    """Records handed to the broker, until they are acknowledged or committed."""
    STORE = "store"
    """The write to the block table."""
    RECOVER = "recover"
    """A shard brought up to its log."""
    WATCH = "watch"
    """The broker asked how far its logs go."""


class ErrorReason(StrEnum):
    """Why a step failed."""

    BROKER = "broker"
    """The broker could not be reached, or refused."""
    TIMEOUT = "timeout"
    """Something was not done in time."""
    FENCED = "fenced"
    """Another worker owns the shard by now."""
    FORMAT = "format"
    """An internal record or stored state that cannot be read, or is of another index."""
    STORAGE = "storage"
    """The block table could not be read or written."""
    INTERNAL = "internal"
    """Anything else: a bug."""


class TransactionOutcome(StrEnum):
    """How a transaction ended."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    FENCED = "fenced"
    UNANSWERED = "unanswered"
