"""The values that labels of metrics take: closed lists, so that every series begins at 0.

A series that first appears at 1 is an increase that no alert sees. No label holds an id, a key or
a text of a document.
"""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Final, TypeVar

from simhash_core.errors import ErrorReason, FirstseenError, UnknownNameError
from simhash_core.rejections import RejectionReason
from simhash_core.verdicts import VERDICT_NAMES

_Name = TypeVar("_Name", bound=StrEnum)

DEAD_LETTER: Final = "dead_letter"

VERDICTS: Final = (*VERDICT_NAMES, DEAD_LETTER)
"""Of ``firstseen_documents_total``: where a raw record can end."""

OUTPUTS: Final = ("unique", "duplicate_of", "tagged", DEAD_LETTER)
"""Of ``firstseen_expired_outputs_total``: what an output topic is for."""

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
    """The broker queried for the ends of its partitions."""


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


def reason_of(error: Exception) -> ErrorReason:
    """Return why a step failed that raised ``error``."""
    if isinstance(error, FirstseenError):
        return error.reason
    if _is_of_client(error):
        return ErrorReason.BROKER
    if isinstance(error, TimeoutError):  # an OSError as well
        return ErrorReason.TIMEOUT
    return ErrorReason.STORAGE if isinstance(error, OSError) else ErrorReason.INTERNAL


def _is_of_client(error: Exception) -> bool:
    """Return whether the Kafka client raised an error, without loading the client for it."""
    client = sys.modules.get("confluent_kafka")
    return client is not None and isinstance(error, client.KafkaException)
