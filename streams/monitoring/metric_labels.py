"""The values of metric labels: closed lists, so that every series begins at 0.

An alert does not see the increase of a series that first appears at 1. No label holds an id, a key
or a text of a document.
"""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Final, TypeVar

from simhash_core.errors import ErrorReason, FirstseenError, UnknownNameError
from simhash_core.verdicts import VERDICT_NAMES, RejectionReason

_Name = TypeVar("_Name", bound=StrEnum)

DEAD_LETTER: Final = "dead_letter"

VERDICTS: Final = (*VERDICT_NAMES, DEAD_LETTER)

OUTPUTS: Final = ("unique", "duplicate_of", "tagged", DEAD_LETTER)

REJECTION_REASONS: Final = tuple(reason.value for reason in RejectionReason)


class InternalTopic(StrEnum):
    LOG = "log"  # packets, queries and control records: the order of all documents
    REPORTS = "reports"  # results of look-ups, from the other workers to the leader
    CHANGELOG = "changelog"  # entries and progress of the shards


class Stage(StrEnum):
    """The timed steps of the work, which also count errors."""

    READ = "read"  # takes raw records from the broker
    FINGERPRINT = "fingerprint"  # turns raw records into columns with fingerprints and sketches
    APPEND = "append"  # encodes packets and appends them to the log
    LOOKUP = "lookup"  # looks up packets of the log in this worker's shards
    DECIDE = "decide"  # turns reports into verdicts, at the leader
    OUTPUT = "output"  # turns verdicts into output records
    COMMIT = "commit"
    """Hands output records to the broker, until they are acknowledged or committed."""
    STORE = "store"  # writes to the disk after the commit
    RECOVER = "recover"  # brings a shard to the end of its changelog
    WATCH = "watch"  # asks the broker for the ends of partitions


class TransactionOutcome(StrEnum):
    COMMITTED = "committed"
    ABORTED = "aborted"
    FENCED = "fenced"
    UNANSWERED = "unanswered"


def named(names: type[_Name], name: str) -> _Name:
    try:
        return names(name)
    except ValueError:
        raise UnknownNameError(names.__name__, name, names) from None


def reason_of(error: Exception) -> ErrorReason:
    if isinstance(error, FirstseenError):
        return error.reason
    if _is_of_client(error):
        return ErrorReason.BROKER
    if isinstance(error, TimeoutError):  # an OSError as well
        return ErrorReason.TIMEOUT
    return ErrorReason.STORAGE if isinstance(error, OSError) else ErrorReason.INTERNAL


def _is_of_client(error: Exception) -> bool:
    """Check for the Kafka client's error without loading the client."""
    client = sys.modules.get("confluent_kafka")
    return client is not None and isinstance(error, client.KafkaException)
