"""What an error counts as in ``firstseen_errors_total``."""

from __future__ import annotations

from typing import Final

from confluent_kafka import KafkaException

from simhash_core.errors import IndexMismatchError, ProtocolError
from streams.errors import (
    BrokerRefusedError,
    BrokerUnavailableError,
    StateMismatchError,
    UnansweredError,
)
from streams.kafka.appender import AppendUnknownError
from streams.kafka.commit_errors import (
    AbortedError,
    FencedError,
    StaleGenerationError,
    TransactionError,
)
from streams.kafka.producer_record import DeliveryError
from streams.monitoring.metric_labels import ErrorReason
from streams.ordering.log_codec import OtherIndexError
from streams.store.changelog_codec import ChangelogFormatError
from streams.store.changelog_reader import RecoveryError
from streams.store.state_codec import StateDecodeError
from streams.store.store_errors import StoreCorruptError, StoreError

_REASONS: Final[tuple[tuple[ErrorReason, tuple[type[Exception], ...]], ...]] = (
    (ErrorReason.FENCED, (FencedError, StaleGenerationError)),
    (
        ErrorReason.FORMAT,
        (
            ChangelogFormatError,
            IndexMismatchError,
            OtherIndexError,
            ProtocolError,
            StateDecodeError,
            StateMismatchError,
            StoreCorruptError,
        ),
    ),
    (ErrorReason.STORAGE, (StoreError,)),
    (ErrorReason.TIMEOUT, (AppendUnknownError, TimeoutError, UnansweredError)),
    (
        ErrorReason.BROKER,
        (
            AbortedError,
            BrokerRefusedError,
            BrokerUnavailableError,
            DeliveryError,
            KafkaException,
            RecoveryError,
            TransactionError,
        ),
    ),
    (ErrorReason.STORAGE, (OSError,)),
)
"""The first that fits counts, so subclasses come before their bases."""


def reason_of(error: Exception) -> ErrorReason:
    """Return why a step failed that raised ``error``."""
    for reason, kinds in _REASONS:
        if isinstance(error, kinds):
            return reason
    return ErrorReason.INTERNAL
