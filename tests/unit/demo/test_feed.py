"""The feed stays within the broker's limits; the ledger expects one output for each record."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

import pytest

from simhash_core.documents import SourcePosition
from streams.demo.feed import OPEN_BYTES_MAX, OPEN_RECORDS_MAX, Feed, FeedRecord, Ledger
from streams.documents.output_records import TombstoneOutput, UniqueOutput
from tests.rigs.brokers.broker import Broker

RECORD_BYTES = 10_000


def output_of(source: SourcePosition) -> UniqueOutput:
    return UniqueOutput(source, "", "")


@pytest.fixture
def topic(embedded_broker: Broker) -> str:
    return embedded_broker.new_topic("fed", 2)


class Feeding:
    """A feed with its ledger and the positions of its records."""

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
        """Run turns until nothing is sent and all is acknowledged; return whether it is the end."""
        before, since, deadline = -1, time.monotonic(), time.monotonic() + 90
        while self.feed.produced > self.ledger.sent or time.monotonic() - since < 0.3:
            self.feed.turn()
            if (now := self.feed.produced + self.ledger.sent) != before:
                before, since = now, time.monotonic()
            assert time.monotonic() < deadline, f"{self.ledger.sent} of {self.feed.produced} acked"
            time.sleep(0.005)
        return self.feed.finished


def test_bytes_stay_below_the_limit_until_outputs_come(embedded_broker: Broker, topic: str) -> None:
    records = (FeedRecord(b"%d" % n, b"x" * RECORD_BYTES) for n in range(500))
    feeding = Feeding(embedded_broker, topic, records)

    finished = feeding.until_idle()
    assert OPEN_BYTES_MAX - 2 * RECORD_BYTES < feeding.ledger.open_bytes <= OPEN_BYTES_MAX
    assert not finished

    decided = 0
    while not finished:
        assert feeding.places[decided:], "it waits, and nothing is open"
        for place in feeding.places[decided:]:
            feeding.ledger.note_output(output_of(place))
        decided = feeding.ledger.decided
        finished = feeding.until_idle()
        assert feeding.ledger.open_bytes <= OPEN_BYTES_MAX
    feeding.feed.close()

    assert (feeding.ledger.sent, len(set(feeding.places))) == (500, 500)


def test_small_records_are_bounded_by_number(embedded_broker: Broker, topic: str) -> None:
    feeding = Feeding(embedded_broker, topic, iter(lambda: FeedRecord(None, b"{}"), None))
    feeding.until_idle()
    feeding.feed.close()
    assert feeding.feed.produced == OPEN_RECORDS_MAX


def test_a_record_as_long_as_the_limit_goes_alone(embedded_broker: Broker, topic: str) -> None:
    sizes = (1, OPEN_BYTES_MAX, 1)
    feeding = Feeding(embedded_broker, topic, (FeedRecord(b"k", b"x" * size) for size in sizes))
    given = []
    for _ in sizes:
        feeding.until_idle()
        given.append(feeding.feed.produced)
        feeding.ledger.note_output(output_of(feeding.places[-1]))
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
def test_a_null_value_under_a_key_that_can_be_an_id_is_a_tombstone(
    key: bytes | None, value: bytes | None, is_tombstone: bool
) -> None:
    assert FeedRecord(key, value).is_tombstone is is_tombstone


def at(offset: int, partition: int = 0) -> SourcePosition:
    return SourcePosition("raw-documents", partition, offset)


@pytest.mark.parametrize("seed", range(5))
def test_records_and_outputs_may_be_noted_in_any_order(seed: int) -> None:
    sources = [at(offset, partition) for partition in range(3) for offset in range(50)]
    notes = [(source, is_output) for source in sources for is_output in (True, False)]
    random.Random(seed).shuffle(notes)
    ledger = Ledger()
    for source, is_output in notes:
        if is_output:
            ledger.note_output(output_of(source))
        else:
            ledger.note_sent(source, 100, is_tombstone=False)
    assert (ledger.sent, ledger.unique, ledger.decided) == (150, 150, 150)
    assert (ledger.lost, ledger.repeated, ledger.open_bytes) == (0, 0, 0)


def test_lost_and_repeated_outputs() -> None:
    """One record has no output, one has three, and one was never sent; a tombstone has none."""
    ledger = Ledger()
    for offset in range(3):
        ledger.note_sent(at(offset), 10, is_tombstone=offset == 2)
    assert (ledger.decided, ledger.lost, ledger.open_bytes) == (1, 2, 20)
    for offset in (1, 1, 1, 99):
        ledger.note_output(output_of(at(offset)))
    assert (ledger.lost, ledger.repeated, ledger.open_bytes) == (1, 3, 10)
    ledger.note_output(output_of(at(2)))
    ledger.note_output(TombstoneOutput(at(0), "a", "deleted"))
    assert (ledger.lost, ledger.repeated) == (1, 4)
