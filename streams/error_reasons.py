"""What an error counts as in ``firstseen_errors_total``."""

from __future__ import annotations

from typing import Final

from confluent_kafka import KafkaException

from simhash_core.errors import IndexMismatchError, ProtocolError
from streams.acked_producer import DeliveryError
from streams.changelog_codec import ChangelogFormatError
from streams.changelog_reader import RecoveryError
from streams.errors import (
    BrokerRefusedError,
    BrokerUnavailableError,
    StateMismatchError,
    UnansweredError,
)
from streams.metric_labels import ErrorReason
from streams.packet_codec import PacketFormatError
from streams.state_codec import StateDecodeError
from streams.store_errors import StoreCorruptError, StoreError
from streams.transactions import AbortedError, FencedError, TransactionError

_REASONS: Final[tuple[tuple[ErrorReason, tuple[type[Exception], ...]], ...]] = (
    (ErrorReason.FENCED, (FencedError,)),
    (
        ErrorReason.FORMAT,
        (
            ChangelogFormatError,
            PacketFormatError,
            StateDecodeError,
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
            RecoveryError,
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
