"""A record on its way to Kafka, and what it means that one was refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from confluent_kafka import KafkaError

from simhash_core.documents import SourcePosition
from simhash_core.errors import ErrorReason, FirstseenError

_NAMED: Final = 3


class ProducerRecord(NamedTuple):
    """A record to send; ``partition`` None leaves the choice to the key, as Kafka does it.

    ``timestamp_ms`` None is the time of sending. ``about``: the raw records that it is made of, for
    messages.
    """

    topic: str
    key: bytes | None
    value: bytes | None
    partition: int | None = None
    timestamp_ms: int | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()
    about: Sequence[SourcePosition] = ()

    @property
    def size(self) -> int:
        """Bytes of key, value and headers."""
        headers = sum(len(name) + len(value or b"") for name, value in self.headers)
        return len(self.key or b"") + len(self.value or b"") + headers


class DeliveryError(FirstseenError):
    """A record could not be delivered; the message names its topic, the reason and the fix."""

    reason = ErrorReason.BROKER


class RecordTooLargeError(DeliveryError):
    """A topic refuses records of this size; sending it again does not help."""

    def __init__(self, refused: Sequence[ProducerRecord]) -> None:
        """``refused``: at least one; the largest of them is named."""
        record = max(refused, key=lambda record: record.size)
        made_of = ", ".join(map(str, record.about[:_NAMED])) or "an internal record"
        more = len(record.about) - _NAMED
        super().__init__(
            f"{record.topic} refuses a record of {record.size} bytes ({made_of}"
            f"{f' and {more} more' if more > 0 else ''}): its max.message.bytes was lowered. "
            "'firstseen topics check' says what it must be; raise it and start again: nothing is "
            "lost"
        )


def is_too_large(error: KafkaError) -> bool:
    """Return whether a record was refused for its size, by the client or by the broker."""
    return error.code() in {KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE}
