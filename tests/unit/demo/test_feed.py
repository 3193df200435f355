"""The feed on the embedded broker: as far ahead of the outputs as the broker can keep, no more."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from simhash_core.documents import SourcePosition
from streams.demo.feed import OPEN_BYTES_MAX, OPEN_RECORDS_MAX, Feed, FeedRecord, Ledger
from tests.rigs.brokers.broker import Broker

RECORD_BYTES = 10_000


@pytest.fixture
def topic(embedded_broker: Broker) -> str:
    """A topic of two partitions."""
    return embedded_broker.new_topic("fed", 2)


class Feeding:
    """A feed with its ledger, and the places where records came to lie."""

    def __init__(self, broker: Broker, topic: str, records: Iterator[FeedRecord]) -> None:
        self.ledger = Ledger()
        self.places: list[SourcePosition] = []
        self.feed = Feed(
            {"bootstrap.servers": broker.bootstrap_servers},
            topic,
            records,
            self.ledger,
            lambda _, source: self.places.append(source),
        )

    def until_idle(self) -> bool:
        """Turn until all is acknowledged and no more is sent for a while; tell whether that is the
        end.
        """
        before, since, deadline = -1, time.monotonic(), time.monotonic() + 90
        while self.feed.produced > self.ledger.sent or time.monotonic() - since < 0.3:
            self.feed.turn()
            if (now := self.feed.produced + self.ledger.sent) != before:
                before, since = now, time.monotonic()
            assert time.monotonic() < deadline, f"{self.ledger.sent} of {self.feed.produced} acked"
            time.sleep(0.005)
        return self.feed.finished


def test_it_waits_for_outputs(embedded_broker: Broker, topic: str) -> None:
    """Given 5 MB to be fed and no output yet; then it stops below its limit of bytes; and given the
    outputs of what was sent, time after time, then it goes on to the end.
    """
    records = (FeedRecord(b"%d" % n, b"x" * RECORD_BYTES) for n in range(500))
    feeding = Feeding(embedded_broker, topic, records)

    finished = feeding.until_idle()
    assert OPEN_BYTES_MAX - 2 * RECORD_BYTES < feeding.ledger.open_bytes <= OPEN_BYTES_MAX
    assert not finished

    decided = 0
    while not finished:
        assert feeding.places[decided:], "it waits, and nothing is open"
        for place in feeding.places[decided:]:
            feeding.ledger.note_output(place)
        decided = feeding.ledger.decided
        finished = feeding.until_idle()
        assert feeding.ledger.open_bytes <= OPEN_BYTES_MAX
    feeding.feed.close()

    assert (feeding.ledger.sent, len(set(feeding.places))) == (500, 500)


def test_small_records_are_bounded_by_number(embedded_broker: Broker, topic: str) -> None:
    """Given endless tiny records and no output; then it stops at its limit of records."""
    feeding = Feeding(embedded_broker, topic, iter(lambda: FeedRecord(None, b"{}"), None))

    feeding.until_idle()
    feeding.feed.close()

    assert feeding.feed.produced == OPEN_RECORDS_MAX


def test_one_that_is_above_the_limit_goes_alone(embedded_broker: Broker, topic: str) -> None:
    """Given a record as long as the limit between small ones; then it is sent when nothing else is
    open, and the next one waits for its output.
    """
    sizes = (1, OPEN_BYTES_MAX, 1)
    feeding = Feeding(embedded_broker, topic, (FeedRecord(b"k", b"x" * size) for size in sizes))

    given = []
    for _ in sizes:
        feeding.until_idle()
        given.append(feeding.feed.produced)
        feeding.ledger.note_output(feeding.places[-1])
    feeding.feed.close()

    assert given == [1, 2, 3]


@pytest.mark.parametrize(
    ("key", "value", "is_tombstone"),
    [
        (b"id", None, True),
        (None, None, False),  # a dead letter: null_value
        (b"", None, False),
        (b"\xff", None, False),
        (b"id", b"", False),
    ],
)
def test_tombstones(key: bytes | None, value: bytes | None, is_tombstone: bool) -> None:
    """A null value under a key that can be an id has no output; everything else has one."""
    assert FeedRecord(key, value).is_tombstone is is_tombstone
