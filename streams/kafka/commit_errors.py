"""What a commit of outputs and offsets can end with, other than success.

::

    FirstseenError
    ├── AbortedError          nothing of it is seen; try it again
    ├── StaleGenerationError  nothing of it is seen; the group has moved on
    ├── FencedError           nothing of it is seen; another worker has this worker's name
    ├── TransactionError      trying again does not help
    └── UnansweredError       (streams.errors) not known: read the group's offsets before going on

``RecordTooLargeError`` (``streams.kafka.producer_record``) stands beside them.
"""

from __future__ import annotations

from typing import Final

from confluent_kafka import KafkaError

from simhash_core.errors import ErrorReason, FirstseenError


class AbortedError(FirstseenError):
    """The transaction was aborted, and may be tried again from the committed state."""

    reason = ErrorReason.BROKER


class StaleGenerationError(FirstseenError):
    """The group is in another generation than the commit names, or this is no longer a member.

    With fresh group metadata the commit may be tried again for partitions that are still owned.
    """

    reason = ErrorReason.FENCED


class FencedError(FirstseenError):
    """Another worker has this one's name; nothing of this commit was or will be seen."""

    reason = ErrorReason.FENCED


class TransactionError(FirstseenError):
    """The transaction failed for good, in a way that trying again cannot fix."""

    reason = ErrorReason.BROKER


STALE_GENERATION: Final = frozenset(
    {
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.FENCED_INSTANCE_ID,
    }
)
"""What the coordinator says to a commit of somebody who is no member of this generation."""
