"""Recovery: a block table is brought up to the end of its shard's changelog.

The table is a view of the log. It is never ahead of it, only behind, because it is written after
the commit; so the tail of the log, from the offset that the table holds, is all that is missing.
An empty table is the same case with the whole log for a tail.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from simhash_core.block_table import BlockTable
from simhash_core.entries import Change, Progress
from simhash_core.errors import FirstseenError
from streams.changelog_codec import decode_change

_BATCH: Final = 10_000
_POLL_SECONDS: Final = 0.5

Report = Callable[[int], None]
"""Told how many records are left to read, about."""


class RecoveryError(FirstseenError):
    """The changelog cannot be read, or does not fit the table; the message says what to do."""


def catch_up(
    table: BlockTable,
    topic: str,
    partition: int,
    config: Mapping[str, Any],
    *,
    silence_seconds: float,
    interrupted: threading.Event,
    report: Report,
) -> int:
    """Take the tail of a shard's changelog into its table; return the number of records read.

    To be called after the owner before was fenced, when the log grows no more. Blocking. Raises
    ``RecoveryError``, also when the broker says nothing for ``silence_seconds``; and
    ``InterruptedError`` soon after ``interrupted`` is set.
    """
    consumer = Consumer(
        {
            "fetch.message.max.bytes": 8 * 1024 * 1024,
            "queued.max.messages.kbytes": 64 * 1024,
            **config,
            "group.id": "unused: offsets are kept in the table",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    where = f"{topic}/{partition}"
    try:
        start = table.in_flight().progress.log_offset
        low, high = _ends(consumer, topic, partition, silence_seconds)
        if start > high:
            raise RecoveryError(
                f"the block table has read the changelog {where} up to offset {start}, but it ends "
                f"at {high}: the topic was deleted or made again, and with it the log of what is "
                "committed. Begin a new index: a new application id and an empty state directory"
            )
        consumer.assign([TopicPartition(topic, partition, max(start, low))])
        return _read_to_end(consumer, table, where, high, silence_seconds, interrupted, report)
    except KafkaException as error:
        raise RecoveryError(f"cannot read the changelog {where}: {error}") from error
    finally:
        consumer.close()


def _ends(
    consumer: Consumer, topic: str, partition: int, silence_seconds: float
) -> tuple[int, int]:
    ends = consumer.get_watermark_offsets(TopicPartition(topic, partition), silence_seconds)
    if ends is None:
        raise RecoveryError(
            f"the broker does not tell the ends of the changelog {topic}/{partition} within "
            f"{silence_seconds} s: is it reachable, and does the topic exist?"
        )
    return ends


def _read_to_end(
    consumer: Consumer,
    table: BlockTable,
    where: str,
    high: int,
    silence_seconds: float,
    interrupted: threading.Event,
    report: Report,
) -> int:
    read = 0
    heard = time.monotonic()
    while True:
        if interrupted.is_set():
            raise InterruptedError(f"recovery from {where} was interrupted after {read} records")
        messages = consumer.consume(_BATCH, _POLL_SECONDS)
        at_end = _take_in(table, messages, where)
        read += len(messages) - at_end
        if at_end:
            report(0)
            return read
        if messages:
            heard = time.monotonic()
            report(max(0, high - (messages[-1].offset() or 0) - 1))
        elif time.monotonic() - heard > silence_seconds:
            raise RecoveryError(
                f"nothing came from the changelog {where} for {silence_seconds} s, after {read} "
                f"records and before its end at offset {high}: is the broker reachable?"
            )


def _take_in(table: BlockTable, messages: list[Message], where: str) -> bool:
    """Commit the changes in a batch to the table; return whether the end of the log was met."""
    changes: list[Change] = []
    progress: Progress | None = None
    next_offset = log_time_ms = 0
    at_end = False
    for message in messages:
        error = message.error()
        if error is not None:
            if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - the public name of the code
                at_end = True
                continue
            raise RecoveryError(f"cannot read the changelog {where}: {error.str()}")
        offset = message.offset()
        assert offset is not None
        change = decode_change(message.key(), message.value(), f"{where}@{offset}")
        next_offset = offset + 1
        log_time_ms = message.timestamp()[1]
        if isinstance(change, Progress):
            progress = change
        else:
            changes.append(change)
    if next_offset:
        progress = progress or table.in_flight().progress
        changes.append(
            msgspec.structs.replace(progress, log_offset=next_offset, log_time_ms=log_time_ms)
        )
        table.commit(changes)
    return at_end
