"""`firstseen dlq` on both brokers lists and shows dead letters, and sends them exactly once."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import closing
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Message, TopicPartition

from simhash_core.documents import RawRecord, SourcePosition
from simhash_core.verdicts import Rejection, RejectionReason
from streams.dead_letters.letters import DeadLetterTopics
from streams.dead_letters.replay import OffsetRanges, redeliveries_of
from streams.errors import ExitCode
from streams.kafka.clients import Consumer
from streams.kafka.errors import FencedError
from streams.kafka.producers import ProducerRecord
from streams.settings.loader import load_settings
from streams.worker.outputs import dead_letter_record
from tests.rigs.brokers.broker import Broker
from tests.rigs.waiting import await_that
from tests.unit.cli.running import Run, report_of, run_here, started
from tests.unit.cli.test_consume import put
from tests.unit.documents.samples import RULES

YEAR_12000_MS = 316_516_723_200_000
TIME_MS = 1_714_536_000_000
DETAIL = "broken: mend it\x1b[7m"
ESCAPE = "\x1b[2J\x9b31m\u202e雪"


class Letters(NamedTuple):
    broker: Broker
    raw: str
    dead: str
    options: tuple[str, ...]

    def put(self, records: Iterable[tuple[RejectionReason, RawRecord]]) -> None:
        """Send dead letters to the topic, as a worker does; their source offsets count from 0."""
        put(
            self.broker,
            self.dead,
            (
                dead_letter_record(
                    Rejection(SourcePosition(self.raw, 1, offset), raw, reason, DETAIL), RULES
                )
                for offset, (reason, raw) in enumerate(records)
            ),
        )

    def run(self, *arguments: str) -> Run:
        return run_here("dlq", arguments[0], *self.options, *arguments[1:])

    def replay(self, *arguments: str) -> dict[str, Any]:
        return report_of("dlq", "replay", *self.options, *arguments)

    def sent(self) -> list[Message]:
        """Return the committed records of the raw partition from which the dead letters came."""
        settings = self.broker.consumer_settings(
            self.broker.unique("reader"), enable_partition_eof="true"
        )
        found = []
        with Consumer(settings) as consumer:
            consumer.assign([TopicPartition(self.raw, 1, 0)])
            while (message := consumer.poll(10)) is not None and message.error() is None:
                found.append(message)
        return found


def letters_on(broker: Broker) -> Letters:
    app = broker.unique("app")
    raw, dead = f"{app}.raw", f"{app}.dlq"
    any_time = {"message.timestamp.after.max.ms": str(2**63 - 1), "retention.ms": "-1"}
    broker.create_topics({raw: 2, dead: 1}, any_time)
    options = ["--broker", broker.bootstrap_servers, "--application-id", app]
    for assignment in (f"topics.raw={raw}", f"topics.dead_letters={dead}"):
        options += ["--set", assignment]
    if not broker.supports_transactions:
        options += ["--set", "delivery=at_least_once"]
    return Letters(broker, raw, dead, tuple(options))


@pytest.fixture
def letters(broker: Broker) -> Letters:
    return letters_on(broker)


@pytest.fixture
def kafka_letters(kafka_broker: Broker) -> Letters:
    return letters_on(kafka_broker)


def some() -> Iterable[tuple[RejectionReason, RawRecord]]:
    trace = (("trace", b"\x1b[31m7f"),)
    three = (("firstseen-redeliveries", b"3"),)
    yield RejectionReason.NOT_JSON, RawRecord(b"snow", ESCAPE.encode(), TIME_MS, trace)
    yield RejectionReason.NOT_UTF8, RawRecord(None, b"\xff\x00\x1babc", YEAR_12000_MS, ())
    yield RejectionReason.TOO_LARGE, RawRecord(b"huge", None, TIME_MS, ())
    yield RejectionReason.NOT_JSON, RawRecord(b"thrice", b"{", TIME_MS, three)


def draws_nothing(text: str) -> bool:
    return all(sign.isprintable() or sign == "\n" for sign in text)


def test_list_counts_and_show_shows_without_drawing_on_the_terminal(letters: Letters) -> None:
    letters.put(some())

    listed, shown = letters.run("list"), letters.run("show", "0@0")
    content = json.loads(letters.run("list", "--json", "--limit", "2").stdout)
    binary = letters.run("show", f"{letters.dead}/0@1", "--bytes", "4")

    assert listed.returncode == shown.returncode == binary.returncode == 0, listed.stderr
    assert all(map(draws_nothing, (listed.stdout, shown.stdout, binary.stdout)))
    for part in ("4 dead letters, 2 to replay", "cut", "at cap"):
        assert part in listed.stdout
    assert "1 dead letter, 1 to replay" in letters.run("list", "--reason", "not_utf8").stdout
    assert (content["records"], content["to_replay"]) == (4, 2)
    assert content["reasons"]["not_json"] == {"records": 2, "to_replay": 1}
    assert content["partitions"] == {"0": {"records": 4, "to_replay": 2}}
    assert [each["position"][-3:] for each in content["newest"]] == ["0@2", "0@3"]
    assert f"source        {letters.raw}/1@0" in shown.stdout
    assert r"value: \x1b[2J\x9b31m\u202e雪" in shown.stdout
    assert r"  trace: \x1b[31m7f" in shown.stdout
    assert f"time          {YEAR_12000_MS} ms" in binary.stdout
    assert "00000000  ff 00 1b 61 " in binary.stdout
    assert "2 more bytes" in binary.stdout


def test_each_letter_that_can_be_is_sent_once_as_it_came(letters: Letters) -> None:
    letters.put(some())

    rehearsed = letters.replay("--all", "--dry-run")
    one = letters.replay("--all", "--dry-run", "--limit", "1")
    assert letters.sent() == []
    by_reason = letters.replay("--reason", "not_utf8")
    rest = letters.replay("--all")
    nothing = letters.replay("--all")

    assert (rehearsed["sent"], rehearsed["without_body"], rehearsed["at_cap"]) == (2, 1, 1)
    assert one["sent"] == 1
    assert (by_reason["sent"], by_reason["not_selected"]) == (1, 3)
    assert (rest["sent"], rest["replayed_before"], rest["at_cap"]) == (1, 1, 1)
    assert (nothing["sent"], nothing["replayed_before"]) == (0, 2)
    assert [each["state"] for each in nothing["left"]] == ["cut", "at cap"]
    first, second = letters.sent()
    assert (first.key(), first.value()) == (None, b"\xff\x00\x1babc")
    assert (second.key(), second.value()) == (b"snow", ESCAPE.encode())
    assert second.timestamp()[1] == TIME_MS
    assert second.headers() == [("trace", b"\x1b[31m7f"), ("firstseen-redeliveries", b"1")]


def test_positions_that_cannot_be_sent_are_named(letters: Letters) -> None:
    letters.put(some())
    missing = letters.run("replay", "0@0", "0@99")
    mixed = letters.run("replay", "0@3", "0@0")
    before = letters.run("replay", "0@0")
    again = letters.replay("0@0", "--again")
    raised = letters.replay("0@3", "--max-redeliveries", "4")
    assert missing.returncode == ExitCode.USAGE
    assert f"{letters.dead}/0@99" in missing.stderr
    assert mixed.returncode == before.returncode == ExitCode.RUNTIME
    assert "--max-redeliveries" in mixed.stdout
    assert (again["sent"], raised["sent"]) == (1, 1)
    assert [message.key() for message in letters.sent()] == [b"snow", b"snow", b"thrice"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("7",), "topic/partition@offset"),
        (("other/0@7",), "other/0@7"),
        (("9@7",), "1 partition"),
    ],
)
def test_wrong_selections(kafka_letters: Letters, arguments: tuple[str, ...], says: str) -> None:
    run = kafka_letters.run("replay", *arguments)
    assert run.returncode == ExitCode.USAGE
    assert says in run.stderr


def test_a_killed_replay_goes_on_and_each_letter_is_sent_once(kafka_letters: Letters) -> None:
    count = 4_000
    value, reason = b"x" * 2_000, RejectionReason.NOT_JSON
    kafka_letters.put((reason, RawRecord(b"%d" % n, value, TIME_MS, ())) for n in range(count))
    with started("dlq", "replay", *kafka_letters.options, "--all") as replay:
        await_that(lambda: kafka_letters.broker.read_partition(kafka_letters.raw, 1, partition=1))
        replay.kill()
        assert replay.wait(10) < 0, "it was done before it was killed"
    account = kafka_letters.replay("--all")
    assert account["sent"] + account["replayed_before"] == count
    assert 0 < account["replayed_before"] < count
    keys = [message.key() for message in kafka_letters.sent()]
    assert len(keys) == len(set(keys)) == count


def test_a_second_replay_fences_the_first(kafka_letters: Letters) -> None:
    flags = dict(zip(kafka_letters.options[:4:2], kafka_letters.options[1:4:2], strict=True))
    settings = load_settings(flags=flags, environ={}).settings
    topics = DeadLetterTopics(kafka_letters.dead, 1, "id", kafka_letters.raw, 2)
    with (
        closing(redeliveries_of(settings, topics)) as first,
        closing(redeliveries_of(settings, topics)) as second,
    ):
        first.begin()
        second.begin()

        with pytest.raises(FencedError):
            first.send([ProducerRecord(topics.raw, b"k", b"v")], {0: OffsetRanges()})
        second.send([ProducerRecord(topics.raw, b"k", b"v", 1)], {0: OffsetRanges()})
    assert len(kafka_letters.sent()) == 1
