"""How long a transaction is open, and what is said of it."""

from __future__ import annotations

import logging

import pytest

from simhash_core.documents import TopicPartition
from streams.monitoring.worker_watch import SAID_AFTER_SECONDS, TransactionWatch
from streams.topics.open_transactions import OpenTransaction

RAW, OUTPUT = TopicPartition("raw", 1), TopicPartition("unique", 2)


def opened(partition: TopicPartition, offset: int) -> dict[TopicPartition, OpenTransaction]:
    """What a broker says of a partition with an open transaction."""
    return {partition: OpenTransaction(partition, offset, offset + 3)}


def test_which_partitions_a_worker_watches() -> None:
    """Given topics with a partition for each shard, and outputs, then each worker watches its own
    shards, and the outputs are watched by the worker of shard 0 alone.
    """
    watch = TransactionWatch(("raw", "changelog"), [OUTPUT])

    assert watch.partitions([1]) == [RAW, TopicPartition("changelog", 1)]
    assert OUTPUT in watch.partitions([0, 1])
    assert watch.partitions([]) == []


def test_the_age_of_the_oldest(caplog: pytest.LogCaptureFixture) -> None:
    """Given transactions that follow each other, and one that stays, then the age is that of the
    one that stays; running traffic is never said.
    """
    watch = TransactionWatch(("raw",), [])
    caplog.set_level(logging.WARNING)

    assert watch.update({}, 0.0) == 0.0
    assert watch.update(opened(RAW, 5), 10.0) == 0.0
    assert watch.update(opened(RAW, 9), 200.0) == 0.0, "another one"
    assert watch.update(opened(RAW, 9) | opened(OUTPUT, 7), 210.0) == 10.0
    assert watch.update(opened(OUTPUT, 7), 230.0) == 20.0
    assert not caplog.messages


def test_one_that_stays_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    """Given a transaction that stays open, then the log names partition, offset and age once, and
    the remedy; another one on the same partition is said again, and that it has ended.
    """
    watch = TransactionWatch(("raw",), [])
    caplog.set_level(logging.WARNING)
    for now in (0.0, SAID_AFTER_SECONDS, 2 * SAID_AFTER_SECONDS):
        watch.update(opened(RAW, 5), now)

    (said,) = caplog.messages
    assert said.startswith("raw/1: a transaction is open since offset 5")
    assert "first seen 60 s ago" in said
    assert "HungTransaction" in said

    watch.update(opened(RAW, 9), 1000.0)
    watch.update(opened(RAW, 9), 1000.0 + SAID_AFTER_SECONDS)
    watch.update({}, 2000.0)

    assert caplog.messages[1] == "raw/1: the transaction has ended"
    assert caplog.messages[2].startswith("raw/1: a transaction is open since offset 9")
    assert caplog.messages[3] == "raw/1: the transaction has ended"
    assert len(caplog.messages) == 4
