"""What an error counts as in ``firstseen_errors_total``."""

from __future__ import annotations

from typing import Final

from confluent_kafka import KafkaException

from simhash_core.errors import IndexMismatchError, ProtocolError
from streams.acked_producer import DeliveryError
from streams.errors import (
    BrokerRefusedError,
    BrokerUnavailableError,
    StateMismatchError,
    UnansweredError,
)
from streams.metric_labels import ErrorReason
from streams.store.store_errors import StoreCorruptError, StoreError
from streams.transactions import AbortedError, FencedError, TransactionError

_REASONS: Final[tuple[tuple[ErrorReason, tuple[type[Exception], ...]], ...]] = (
    (ErrorReason.FENCED, (FencedError,)),
    (
        ErrorReason.FORMAT,
        (
            IndexMismatchError,
            StateMismatchError,
            ProtocolError,
            StoreCorruptError,
        ),
    ),
    (ErrorReason.STORAGE, (StoreError,)),
    (ErrorReason.TIMEOUT, (TimeoutError, UnansweredError)),
    (
        ErrorReason.BROKER,
        (
            AbortedError,
            BrokerRefusedError,
            BrokerUnavailableError,
            DeliveryError,
            KafkaException,
            TransactionError,
        ),
    ),
    (ErrorReason.STORAGE, (OSError,)),
)
"""The first that fits counts, so the more particular stand first."""


def reason_of(error: Exception) -> ErrorReason:
    """Return why a step failed that raised ``error``."""
    for reason, kinds in _REASONS:
        if isinstance(error, kinds):
            return reason
    return ErrorReason.INTERNAL
