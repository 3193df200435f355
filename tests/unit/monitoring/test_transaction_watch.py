"""How long a transaction is open, and what is said of it."""

from __future__ import annotations

import logging

import pytest

from simhash_core.documents import TopicPartition
from streams.monitoring.worker_watch import SAID_AFTER_SECONDS, TransactionWatch
from streams.topics.open_transactions import OpenTransaction

RAW, OUTPUT = TopicPartition("raw", 1), TopicPartition("unique", 2)


def opened(partition: TopicPartition, offset: int) -> dict[TopicPartition, OpenTransaction]:
    return {partition: OpenTransaction(partition, offset, offset + 3)}


def test_worker_watches_its_shards_and_shard_0_the_outputs() -> None:
    watch = TransactionWatch(("raw", "changelog"), [OUTPUT])
    assert watch.partitions([1]) == [RAW, TopicPartition("changelog", 1)]
    assert OUTPUT in watch.partitions([0, 1])
    assert watch.partitions([]) == []


def test_transactions_that_follow_each_other_have_no_age(caplog: pytest.LogCaptureFixture) -> None:
    watch = TransactionWatch(("raw",), [])
    caplog.set_level(logging.WARNING)
    assert watch.update({}, 0.0) == 0.0
    assert watch.update(opened(RAW, 5), 10.0) == 0.0
    assert watch.update(opened(RAW, 9), 200.0) == 0.0, "another one"
    assert watch.update(opened(RAW, 9) | opened(OUTPUT, 7), 210.0) == 10.0
    assert watch.update(opened(OUTPUT, 7), 230.0) == 20.0
    assert not caplog.messages


def test_transaction_that_stays_is_logged_once_and_when_it_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
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
